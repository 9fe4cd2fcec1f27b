package rule

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// maxAttached bounds the objects attached to one event, in bytes of JSON.
const maxAttached = 8 << 20

// Attachment is one name of a rule's attach, and the expression that finds its objects.
type Attachment struct {
	Name    string
	Program *expr.Program // compiled for expr.Attach
}

// AttachPaths returns what the attachments read of the rule's own objects.
func (r *Rule) AttachPaths() *object.Paths {
	p := new(object.Paths)
	for _, a := range r.Attached {
		p.Union(a.Program.Paths())
	}
	return p
}

// AttachLookups returns what the attachments read of objects of other sources, by source.
func (r *Rule) AttachLookups() Lookups {
	l := make(Lookups)
	for _, a := range r.Attached {
		l.add(a.Program)
	}
	return l
}

// Finder is a Lookup that remembers which object each tree came from.
type Finder interface {
	Lookup
	// Object returns the object that tree was decoded from, or nil.
	Object(tree map[string]any) *object.Object
}

// Attach returns the JSON of the objects to send along with a change, by name. A name that found
// nothing has an empty list. Attach returns nil if the rule attaches nothing. The error never holds
// contents of objects.
func (r *Rule) Attach(d delta.Delta, look Finder) (map[string][]json.RawMessage, error) {
	if len(r.Attached) == 0 {
		return nil, nil
	}
	env := r.environment(d, look)
	out, room := make(map[string][]json.RawMessage, len(r.Attached)), maxAttached
	for _, a := range r.Attached {
		trees, err := a.Program.Objects(&env)
		if err != nil {
			return nil, fmt.Errorf("attach %s: %w", a.Name, err)
		}
		objects := make([]json.RawMessage, 0, len(trees))
		for _, tree := range trees {
			o := look.Object(tree)
			if o == nil {
				return nil, fmt.Errorf("attach %s: %w", a.Name, errNotFound)
			}
			text := o.JSON()
			if room -= len(text); room < 0 {
				return nil, fmt.Errorf("attach %s: %w", a.Name, errTooMuch)
			}
			objects = append(objects, text)
		}
		out[a.Name] = objects
	}
	return out, nil
}

var (
	errNotFound = errors.New("attach gives a map that the expression made, " +
		"not an object that lookup or byIndex gave")
	errTooMuch = fmt.Errorf("the objects exceed %d MiB", maxAttached>>20)
)

// Found remembers which object each tree came from. The zero Found is empty.
type Found struct{ trees map[uintptr]ofTree }

type ofTree struct {
	tree   map[string]any // keeps the map alive, so that no other map takes its address
	object *object.Object
}

// Add remembers that tree came from o, if tree is a map.
func (f *Found) Add(tree any, o *object.Object) {
	if m, ok := tree.(map[string]any); ok && m != nil {
		if f.trees == nil {
			f.trees = make(map[uintptr]ofTree)
		}
		f.trees[reflect.ValueOf(m).Pointer()] = ofTree{m, o}
	}
}

// Object returns the object that tree came from, or nil.
func (f *Found) Object(tree map[string]any) *object.Object {
	return f.trees[reflect.ValueOf(tree).Pointer()].object
}
