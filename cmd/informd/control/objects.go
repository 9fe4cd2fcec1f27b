package control

import (
	"bufio"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/engine/object"
)

// The forms in which a request can ask for objects.
const (
	asNames   = "names"   // Rows with namespace and name only
	asRows    = "rows"    // Rows
	asObjects = "objects" // whole objects
)

// chunk bounds how much text of a streamed answer is in memory, in bytes, beside one line.
const chunk = 64 << 10

// objects streams objects of a source's cache: a line with the Header, and a line for each object.
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
		return problem(http.StatusBadRequest, "as %.100q: want %s, %s or %s",
			as, asNames, asRows, asObjects)
	}
	selection, err := a.backend.Objects(q)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, chunk)
	lines := newEncoder(out)
	w.Header().Set("Content-Type", "application/x-ndjson")
	found := Header{
		Resource: source.Resource, State: source.State, Reason: source.Reason,
		Kept: selection.Kept, Count: len(selection.Objects),
	}
	if err := lines.Encode(found); err != nil {
		return err
	}
	mask := selection.Secret && !values.Has("secrets")
	for i, o := range selection.Objects {
		selection.Objects[i] = nil // a slow client must not keep objects in memory that were sent
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

// source returns the source of a query. It is an error if there is no such source, or it does not
// have the query's index.
func (a answers) source(q Query) (SourceStatus, error) {
	status := a.backend.Status()
	var names []string
	for _, s := range status.Sources {
		if s.Name != q.Source {
			names = append(names, s.Name)
			continue
		}
		if q.Index != "" && !slices.Contains(s.Indexes, q.Index) {
			what := "index of source " + s.Name + " is called"
			return SourceStatus{}, unknown(what, q.Index, s.Indexes)
		}
		return s, nil
	}
	return SourceStatus{}, unknown("source", q.Source, names)
}

// writeText writes an object as a line. Its text is compact and has no line breaks.
func writeText(out *bufio.Writer, o *object.Object, mask bool) error {
	if mask {
		_, _ = out.Write(MaskSecret(o.JSON())) // WriteByte returns the error
	} else {
		_, _ = out.Write(o.AppendJSON(out.AvailableBuffer()))
	}
	return out.WriteByte('\n')
}

var rowPaths = func() *object.Paths {
	p := new(object.Paths)
	p.Add("metadata", "creationTimestamp")
	p.Add("metadata", "labels")
	return p
}()

// row returns an object without its content.
func row(o *object.Object) Row {
	r := Row{
		Namespace: o.Namespace(), Name: o.Name(), UID: o.UID(),
		ResourceVersion: o.ResourceVersion(),
	}
	tree, _ := o.Decode(rowPaths).(map[string]any)
	meta, _ := tree["metadata"].(map[string]any)
	created, _ := meta["creationTimestamp"].(string)
	r.Created, _ = time.Parse(time.RFC3339, created) // without a creation time: the zero time
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
