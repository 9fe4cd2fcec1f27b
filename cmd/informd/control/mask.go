package control

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/informd/informd/plugins/handler"
)

// masked takes the place of a value.
const masked = "***"

var maskedJSON = json.RawMessage(`"` + masked + `"`)

// MaskSecret masks the JSON of a v1 Secret: the values of data and stringData, and of every field
// that Secrets are not known to have. It does the same in annotations that hold an object, such as
// kubectl's last-applied-configuration. Keys stay.
func MaskSecret(text []byte) json.RawMessage {
	return MaskSecretWith(text, func(json.RawMessage) json.RawMessage { return maskedJSON })
}

// MaskSecretWith is MaskSecret with masks of the caller: mask returns the JSON that takes the place
// of a value.
func MaskSecretWith(text []byte, mask func(value json.RawMessage) json.RawMessage) json.RawMessage {
	out, ok := masker(mask).secret(text)
	if !ok {
		return mask(text)
	}
	return out
}

// masker returns what takes the place of a value.
type masker func(value json.RawMessage) json.RawMessage

// secret masks a Secret. ok is false if the text is not a JSON object.
func (m masker) secret(text []byte) (out json.RawMessage, ok bool) {
	return eachField(text, func(field string, value json.RawMessage) json.RawMessage {
		switch field {
		case "apiVersion", "kind", "type", "immutable":
			return value
		case "metadata":
			return m.each(value, m.metadata)
		}
		return m.each(value, func(_ string, value json.RawMessage) json.RawMessage {
			return m(value)
		})
	})
}

func (m masker) metadata(field string, value json.RawMessage) json.RawMessage {
	if field != "annotations" {
		return value
	}
	return m.each(value, func(name string, value json.RawMessage) json.RawMessage {
		var text string
		switch err := json.Unmarshal(value, &text); {
		case err != nil, name == compressed:
			return m(value)
		case bytes.HasPrefix(bytes.TrimSpace([]byte(text)), []byte("{")):
			if object, ok := m.secret([]byte(text)); ok {
				return marshal(string(object))
			}
			return m(value)
		// perhaps a list of objects
		case bytes.HasPrefix(bytes.TrimSpace([]byte(text)), []byte("[")), holdsYAML(text):
			return m(value)
		}
		return value
	})
}

// each changes the values of a JSON object. It masks anything else.
func (m masker) each(
	text []byte, change func(field string, value json.RawMessage) json.RawMessage,
) json.RawMessage {
	out, ok := eachField(text, change)
	if !ok {
		return m(text)
	}
	return out
}

// holdsYAML reports whether a text may be an object in YAML: it has more than one line, and one of
// them begins a mapping, as "data:" does.
func holdsYAML(text string) bool {
	return strings.Contains(strings.TrimSpace(text), "\n") && mapping.MatchString(text)
}

var mapping = regexp.MustCompile(`(?m)^\s*(- )?["']?[\w./-]+["']?:(\s|$)`)

// compressed is the annotation in which Rancher's appliers keep what kubectl keeps in
// last-applied-configuration.
const compressed = "objectset.rio.cattle.io/applied"

// eachField changes the values of a JSON object. ok is false if the text is something else.
func eachField(
	text []byte, change func(field string, value json.RawMessage) json.RawMessage,
) (out json.RawMessage, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return nil, false
	}
	for field, value := range fields {
		fields[field] = change(field, value)
	}
	return marshal(fields), true
}

func marshal(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return maskedJSON // cannot happen: v is a string, or JSON that was just decoded
	}
	return text
}

// maskLetter masks what a letter may hold of Secrets. A payload and a handler's words may quote them
// anywhere.
func maskLetter(l Letter) Letter {
	if !l.Secret && !l.Confidential {
		return l
	}
	if l.Reason != "" && !l.Plain {
		l.Reason = masked
	}
	if l.Event != nil {
		event := *l.Event
		maskEvent(&event, l.Secret)
		l.Event = &event
	}
	return l
}

// maskEvent masks e and its items. It changes nothing that e shares with other events.
func maskEvent(e *handler.Event, isSecret bool) {
	if e.Object != nil && isSecret {
		e.Object = MaskSecret(e.Object)
	}
	if e.Old != nil && isSecret {
		e.Old = MaskSecret(e.Old)
	}
	if e.Payload != nil {
		e.Payload = maskedJSON
	}
	e.Items = slices.Clone(e.Items)
	for i := range e.Items {
		maskEvent(&e.Items[i], isSecret)
	}
}
