package object

import (
	"strconv"
	"strings"

	"github.com/informd/informd/engine/object/scan"
)

// walker reads one value in a single pass. It decodes what view covers, and leaves out of the
// scanner's recording what keep does not cover. nil covers nothing.
type walker struct {
	s         *scan.Scanner
	id        identity
	*branches                 // of the view
	texts     strings.Builder // strings of the view share memory: one allocation for most objects
	typed     bool            // the object has a kind or an apiVersion
	types     typeTexts
}

// value reads the next value, which is at the given place. It does not decode what nests too deep
// for an Object.
func (w *walker) value(keep, view *Paths, at place) (any, error) {
	if at == elsewhere && (view == nil && (keep == nil || keep.whole) || w.s.Deepest() > maxDepth) {
		_, err := w.s.Skip()
		return nil, err
	}
	kind, err := w.s.Kind()
	if err != nil {
		return nil, err
	}
	if at == atMetadata {
		w.id = identity{misplaced: kind != '{' && kind != 'n'}
	}
	switch {
	case at >= atNamespace:
		// may be of the wrong type; then the object is unfit, so its decoded value does not matter
	case kind == '{':
		w.types.set(at, []byte{kind})
		return w.object(keep, view, at)
	case kind == '[':
		w.types.set(at, []byte{kind})
		return w.list(keep, view)
	}
	// even where a path goes on: the value shows that it does not
	raw, err := w.s.Skip()
	if err != nil {
		return nil, err
	}
	switch {
	case at >= atNamespace:
		w.id.set(at, raw, w.s.Plain())
	default:
		w.types.set(at, raw)
	}
	if view == nil {
		return nil, nil
	}
	return w.scalar(raw), nil
}

func (w *walker) object(keep, view *Paths, at place) (any, error) {
	if err := w.s.OpenObject(); err != nil {
		return nil, err
	}
	var out map[string]any
	if view != nil {
		out = w.newMap(len(view.fields))
	}
	for e := (entries{s: w.s}); ; {
		quoted, more, err := e.next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		key := quoted[1 : len(quoted)-1]
		if !w.s.Plain() {
			key = []byte(scan.Unquote(quoted))
		}
		to := at.below(key)
		keepChild, _ := keep.at(key)
		viewChild, name := view.at(key)
		switch to {
		case atKind, atAPIVersion:
			w.typed = true
		case atManagedFields:
			to, keepChild, viewChild = elsewhere, nil, nil
		}
		if keep != nil {
			e.keep(keepChild != nil)
		}
		if viewChild != nil && name == "" {
			name = w.text(key)
		}
		value, err := w.value(keepChild, viewChild, to)
		if err != nil {
			return nil, err
		}
		if viewChild != nil {
			out[name] = value
		}
	}
	if view == nil {
		return nil, nil
	}
	return out, nil
}

func (w *walker) list(keep, view *Paths) (any, error) {
	if err := w.s.OpenList(); err != nil {
		return nil, err
	}
	var out []any
	var number int
	if view != nil {
		out, number = w.newList()
	}
	keepEach, viewEach := keep.eachItem(), view.eachItem()
	for first := true; ; first = false {
		more, err := w.s.NextItem(first)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		mark := w.s.Mark()
		if keep != nil && keepEach == nil {
			w.s.Pause(mark)
		}
		value, err := w.value(keepEach, viewEach, elsewhere)
		if err != nil {
			return nil, err
		}
		if keep != nil && keepEach == nil {
			w.s.Resume("null")
		}
		if view != nil {
			out = append(out, value)
		}
	}
	if view == nil {
		return nil, nil
	}
	w.endList(out, number)
	return out, nil
}

func (w *walker) scalar(raw []byte) any {
	switch raw[0] {
	case '"':
		if !w.s.Plain() {
			return scan.Unquote(raw)
		}
		return w.text(raw[1 : len(raw)-1])
	case 't':
		return true
	case 'f':
		return false
	case 'n':
		return nil
	}
	return number(raw)
}

// text returns b as one of the view's strings.
func (w *walker) text(b []byte) string {
	if w.texts.Cap()-w.texts.Len() < len(b) {
		w.texts = strings.Builder{}
		w.texts.Grow(max(256, len(b)))
	}
	from := w.texts.Len()
	w.texts.Write(b)
	return w.texts.String()[from:]
}

// number returns an int64 if the text is an integer that fits, like apimachinery's util/json, or
// else a float64.
func number(text []byte) any {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(string(text), 64) // out of range: ±Inf, or 0
	return f
}
