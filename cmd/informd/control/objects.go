package control

import (
	"bufio"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/engine/object"
)

// What a request may ask for of each object.
const (
	asNames   = "names"   // a Row with its namespace and name
	asRows    = "rows"    // a Row
	asObjects = "objects" // the object
)

// chunk bounds the text of a streamed answer that is held, in bytes, beside one line.
const chunk = 64 << 10

// objects streams what a source's cache holds: a line with Found, and a line for each object.
func (a answers) objects(w *answer, r *http.Request) error {
	values := r.URL.Query()
	q := Query{
		Source: values.Get("source"), Namespace: values.Get("namespace"), Name: values.Get("name"),
		Index: values.Get("index"), Value: values.Get("value"),
	}
	source, err := a.source(q)
	if err != nil {
		return err
	}
	selector, err := labels.Parse(values.Get("selector"))
	if err != nil {
		return problem(http.StatusBadRequest, "label selector: %v", err)
	}
	q.Selector = selector
	as := values.Get("as")
	if !slices.Contains([]string{asNames, asRows, asObjects}, as) {
		return problem(http.StatusBadRequest, "as %.100q: want %s, %s or %s", as, asNames, asRows, asObjects)
	}
	selection, err := a.backend.Objects(q)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, chunk)
	lines := newEncoder(out)
	w.Header().Set("Content-Type", "application/x-ndjson")
	found := Found{
		Resource: source.Resource, State: source.State, Reason: source.Reason, Kept: selection.Kept, Count: len(selection.Objects),
	}
	if err := lines.Encode(found); err != nil {
		return err
	}
	mask := selection.Secret && !values.Has("secrets")
	for i, o := range selection.Objects {
		selection.Objects[i] = nil // whoever reads slowly holds on to no state that has been read
		switch as {
		case asNames:
			err = lines.Encode(Row{Namespace: o.Namespace(), Name: o.Name()})
		case asRows:
			err = lines.Encode(row(o))
		default:
			err = writeText(out, o, mask)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// source is the one that a query is about. That there is none, or not that index, is an error.
func (a answers) source(q Query) (Source, error) {
	status := a.backend.Status()
	var names []string
	for _, s := range status.Sources {
		if s.Name != q.Source {
			names = append(names, s.Name)
			continue
		}
		if q.Index != "" && !slices.Contains(s.Indexes, q.Index) {
			return Source{}, unknown("index of source "+s.Name+" is called", q.Index, s.Indexes)
		}
		return s, nil
	}
	return Source{}, unknown("source", q.Source, names)
}

// writeText writes an object's text, which is compact, as a line.
func writeText(out *bufio.Writer, o *object.Object, mask bool) error {
	text := o.JSON()
	if mask {
		text = maskSecret(text)
	}
	_, _ = out.Write(text) // the next write tells of errors
	return out.WriteByte('\n')
}

var rowPaths = func() *object.Paths {
	p := new(object.Paths)
	p.Add("metadata", "creationTimestamp")
	p.Add("metadata", "labels")
	return p
}()

// row is an object without what is in it.
func row(o *object.Object) Row {
	r := Row{Namespace: o.Namespace(), Name: o.Name(), UID: o.UID(), ResourceVersion: o.ResourceVersion()}
	tree, _ := o.Decode(rowPaths).(map[string]any)
	meta, _ := tree["metadata"].(map[string]any)
	created, _ := meta["creationTimestamp"].(string)
	r.Created, _ = time.Parse(time.RFC3339, created) // the zero time is what nobody knows
	values, _ := meta["labels"].(map[string]any)
	for name, value := range values {
		if text, ok := value.(string); ok {
			if r.Labels == nil {
				r.Labels = make(map[string]string, len(values))
			}
			r.Labels[name] = text
		}
	}
	return r
}
