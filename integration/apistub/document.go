package apistub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// document is one state of an object. It does not change once it is finished.
type document struct {
	namespace, name, uid, created string
	labels                        labels.Set
	body                          []byte // compact JSON, without apiVersion and kind

	top, meta map[string]json.RawMessage // until it is finished
}

// parse reads an object and keeps its values as they are written.
func parse(raw []byte, namespaced bool) (*document, error) {
	d := &document{}
	if err := json.Unmarshal(raw, &d.top); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(d.top["metadata"], &d.meta); err != nil || d.meta == nil {
		return nil, fmt.Errorf("no metadata: %v", err)
	}
	var known struct {
		Namespace, Name, UID string
		CreationTimestamp    *string
		Labels               labels.Set
	}
	if err := json.Unmarshal(d.top["metadata"], &known); err != nil {
		return nil, err
	}
	d.namespace, d.name, d.uid, d.labels = known.Namespace, known.Name, known.UID, known.Labels
	if known.CreationTimestamp != nil {
		d.created = *known.CreationTimestamp
	}
	switch {
	case d.name == "":
		return nil, errors.New("no metadata.name")
	case namespaced && d.namespace == "":
		d.namespace = "default"
		d.meta["namespace"] = quote(d.namespace)
	case !namespaced && d.namespace != "":
		return nil, fmt.Errorf("%q has a namespace and its resource has none", d.name)
	}
	return d, nil
}

// finish sets what the server sets. uid and created are for a document that brings none.
func (d *document) finish(uid, created string, rv int64) {
	if d.uid == "" {
		d.uid = uid
	}
	if d.created == "" {
		d.created = created
	}
	d.meta["uid"], d.meta["creationTimestamp"] = quote(d.uid), quote(d.created)
	d.meta["resourceVersion"] = quote(format(rv))
	delete(d.top, "apiVersion")
	delete(d.top, "kind")
	d.top["metadata"] = encode(d.meta)
	d.body = encode(d.top)
	d.top, d.meta = nil, nil
}

// as returns the document with another resourceVersion, as a DELETED event shows the last state.
func (d *document) as(rv int64) *document {
	again, err := parse(d.body, d.namespace != "")
	if err != nil {
		return d // cannot be: body was encoded here
	}
	again.finish("", "", rv)
	return again
}

func (d *document) key() string { return d.namespace + "/" + d.name }

// matches reports whether the selectors select the document; each may be nil. Field selectors may
// name any field with a string, number or boolean. A real resource accepts a few fields only.
func (d *document) matches(label labels.Selector, field fields.Selector) bool {
	if label != nil && !label.Matches(d.labels) {
		return false
	}
	if field == nil || field.Empty() {
		return true
	}
	set := fields.Set{"metadata.name": d.name, "metadata.namespace": d.namespace}
	var tree any
	for _, r := range field.Requirements() {
		if _, known := set[r.Field]; known {
			continue
		}
		if tree == nil {
			dec := json.NewDecoder(bytes.NewReader(d.body))
			dec.UseNumber()
			_ = dec.Decode(&tree) // body was encoded here
		}
		value := tree
		for name := range strings.SplitSeq(r.Field, ".") {
			m, _ := value.(map[string]any)
			value = m[name]
		}
		set[r.Field] = ""
		if value != nil {
			set[r.Field] = fmt.Sprint(value)
		}
	}
	return field.Matches(set)
}

func quote(s string) json.RawMessage { return encode(s) }

// encode returns compact JSON without HTML escapes. v must be encodable.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
