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

// maxAttached bounds what is attached to one change, in bytes of JSON.
const maxAttached = 8 << 20

// Attachment gives objects a name.
type Attachment struct {
	Name    string
	Program *expr.Program // compiled for expr.Attach
}

// AttachPaths are what the attachments read of the rule's own objects.
func (r *Rule) AttachPaths() *object.Paths {
	p := new(object.Paths)
	for _, a := range r.Attached {
		p.Union(a.Program.Paths())
	}
	return p
}

// AttachLookups is as Lookups, of the attachments.
func (r *Rule) AttachLookups() Lookups {
	l := make(Lookups)
	for _, a := range r.Attached {
		l.add(a.Program)
	}
	return l
}

// Finder is a Lookup that knows which objects the trees that it gave are of.
type Finder interface {
	Lookup
	// Object is the object of which tree was given; nil if it is of none.
	Object(tree map[string]any) *object.Object
}

// Attach makes what is sent along with a change: the objects' own JSON, under each name, which is there also where nothing
// was found. nil if the rule attaches nothing. The error never holds contents of objects.
func (r *Rule) Attach(d delta.Delta, look Finder) (map[string][]json.RawMessage, error) {
	if len(r.Attached) == 0 {
		return nil, nil
	}
	env := environment(d, look)
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
	errNotFound = errors.New("attach gives a map that the expression made, not an object that lookup or byIndex gave")
	errTooMuch  = fmt.Errorf("the objects exceed %d MiB", maxAttached>>20)
)

// Found remembers of which objects trees are. The zero Found is empty.
type Found struct{ trees map[uintptr]ofTree }

type ofTree struct {
	tree   map[string]any // kept alive, so that no other map comes to lie where it is
	object *object.Object
}

// Add remembers of which object a tree is, if it is a map.
func (f *Found) Add(tree any, o *object.Object) {
	if m, ok := tree.(map[string]any); ok && m != nil {
		if f.trees == nil {
			f.trees = make(map[uintptr]ofTree)
		}
		f.trees[reflect.ValueOf(m).Pointer()] = ofTree{m, o}
	}
}

// Object is the object of tree, or nil.
func (f *Found) Object(tree map[string]any) *object.Object {
	return f.trees[reflect.ValueOf(tree).Pointer()].object
}
