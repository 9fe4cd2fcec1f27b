package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// maxAnswer bounds the text of an answer, in bytes. informd takes actions of 8 MiB in one answer.
const maxAnswer = 8 << 20

// document is an answer as a command writes it: the fields of a wire.Verdict that say which event is
// answered, and how.
type document struct {
	ID         string    `json:"id"` // of the event
	Result     string    `json:"result"`
	Reason     string    `json:"reason"`
	RetryAfter string    `json:"retryAfter"`
	Actions    []*action `json:"actions"`
}

// action is a handler.Action, whose target may be left out.
type action struct {
	handler.Action
	Resource *handler.Resource `json:"resource"`
}

// errNoAnswer wraps what is wrong with a text that is no answer at all. The command may do better
// the next time, so it is a retry.
var errNoAnswer = errors.New("what the command printed is no answer")

// parseAnswer reads the answer to ev from text. named says that it must name the event. An answer
// that can never be taken is a reject, as it is from any handler. Errors show nothing of text,
// beside the reason that it gives.
func parseAnswer(text []byte, ev *handler.Event, named bool) (handler.Answer, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil || raw[0] != '{' {
		example, what := `{"result": "done"}`, "begins with no JSON object"
		if named {
			example = `{"id": "…"} with the event's id`
		}
		if len(bytes.TrimSpace(text)) == 0 {
			what = "is empty"
		}
		return handler.Answer{}, fmt.Errorf("%w: it %s; "+
			"write %s, and print what is for the log to standard error", errNoAnswer, what, example)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return handler.Answer{}, fmt.Errorf("%w: more follows its JSON object", errNoAnswer)
	}
	var doc document
	d = json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := checkNames(raw)
	if err == nil {
		err = d.Decode(&doc)
	}
	switch {
	case err == nil:
	case named:
		// Whose answer it is, is not known either.
		return handler.Answer{}, fmt.Errorf("%w: %s", errNoAnswer, fault(err))
	default:
		return handler.Answer{}, handler.Reject(fmt.Errorf("the command's answer: %s", fault(err)))
	}
	if named && doc.ID == "" {
		return handler.Answer{}, fmt.Errorf("%w: it has no id; with lines, answer each event with its id",
			errNoAnswer)
	}
	if doc.ID != ev.ID && (named || doc.ID != "") {
		return handler.Answer{}, fmt.Errorf("%w: its id is not the event's; "+
			"answer each event once, in their order, with its id", errNoAnswer)
	}
	return doc.answer(ev)
}

// fields are those of document.
var fields = []string{"id", "result", "reason", "retryAfter", "actions"}

// checkNames checks that a JSON object has only fields of an answer, and each at most once.
// encoding/json would take the last one, and those in capitals, too.
func checkNames(object json.RawMessage) error {
	var seen []string
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token() // the brace
	for d.More() {
		token, _ := d.Token()
		name, _ := token.(string)
		switch {
		case !slices.Contains(fields, name):
			return fmt.Errorf("unknown field %q", name)
		case slices.Contains(seen, name):
			return fmt.Errorf("the field %q is there twice", name)
		}
		seen = append(seen, name)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := checkTwice(value); err != nil {
			return err
		}
	}
	return nil
}

// checkTwice checks that no mapping within valid JSON has a key twice. encoding/json would take the
// last one.
func checkTwice(raw json.RawMessage) error {
	switch raw = bytes.TrimSpace(raw); raw[0] {
	case '{', '[':
	default:
		return nil
	}
	var open []map[string]bool // the keys of each mapping around the place; nil for a list
	isKey := false             // whether the next string is one
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'):
			open = append(open, make(map[string]bool))
		case json.Delim('['):
			open = append(open, nil)
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		default:
			if isKey {
				name := token.(string)
				if keys := open[len(open)-1]; keys[name] {
					return fmt.Errorf("the field %q is there twice", name)
				} else {
					keys[name] = true
				}
				isKey = false
				continue
			}
		}
		isKey = len(open) > 0 && open[len(open)-1] != nil
	}
}

// fault returns what a decoding error says of fields and types, without any value.
func fault(err error) string {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s must not be a %s", kind.Field, kind.Value)
	}
	return err.Error() // names an unknown field
}

func (doc *document) answer(ev *handler.Event) (handler.Answer, error) {
	wrong := func(format string, args ...any) (handler.Answer, error) {
		return handler.Answer{}, handler.Reject(fmt.Errorf("the command's answer: "+format, args...))
	}
	done := doc.Result == "" || doc.Result == "done"
	switch {
	case !done && len(doc.Actions) > 0:
		return wrong("actions go with the result done only")
	case doc.Result != "retry" && doc.RetryAfter != "":
		return wrong("retryAfter goes with the result retry only")
	case done && doc.Reason != "":
		return wrong("a reason goes with the results retry and reject only")
	}
	reason := errors.New("the command asks for it")
	if doc.Reason != "" {
		reason = errors.New(doc.Reason)
	}
	switch doc.Result {
	case "", "done":
	case "retry":
		if doc.RetryAfter == "" {
			return handler.Answer{}, reason
		}
		after, err := time.ParseDuration(doc.RetryAfter)
		if err != nil || after < 0 {
			return wrong(`retryAfter must be a duration such as "30s"`)
		}
		return handler.Answer{}, handler.RetryAfter(after, reason)
	case "reject":
		return handler.Answer{}, handler.Reject(reason)
	default:
		return wrong("the result must be done, retry or reject")
	}
	var out handler.Answer
	for i, a := range doc.Actions {
		if a == nil {
			return wrong("actions[%d]: must be a mapping, not null", i)
		}
		a.fill(ev)
		if err := a.Action.Validate(); err != nil {
			return wrong("actions[%d]: %w", i, err)
		}
		out.Actions = append(out.Actions, a.Action)
	}
	return out, nil
}

// fill completes an action. One without a resource is about the event's: about its object, unless
// it names another.
func (a *action) fill(ev *handler.Event) {
	if a.Resource != nil {
		a.Action.Resource = *a.Resource
		return
	}
	a.Action.Resource = ev.Resource
	if a.Name == "" {
		a.Name, a.Namespace = ev.Name, ev.Namespace
	}
}
