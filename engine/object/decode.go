package object

import "github.com/informd/informd/engine/object/scan"

// Decode decodes what p covers, and nothing else, into a tree of map[string]any, []any, string, bool, nil, int64 (an
// integer that fits) and float64. A list has all of its elements, so that indexes and lengths are right, with nil
// for those of which nothing is covered; a map only has the keys on covered paths. The tree is the caller's. Nothing
// covered gives nil.
func (o *Object) Decode(p *Paths) any {
	if p.IsEmpty() {
		return nil
	}
	text, borrowed := o.content.Load().borrow()
	defer giveBack(borrowed)
	s := scan.New(text)
	w := walker{s: &s}
	tree, _ := w.value(nil, p, elsewhere) // valid
	return tree
}

// Decoder decodes the same paths of one object after another, and remembers the last two objects' trees: those of a
// change, which any number of expressions look at. The trees must not be changed. It is not safe for concurrent use.
type Decoder struct {
	paths *Paths
	last  [2]struct {
		object *Object
		tree   any
	}
	next int
}

// NewDecoder makes a Decoder of p, which must not change while it is in use.
func NewDecoder(p *Paths) *Decoder { return &Decoder{paths: p} }

// Tree is o.Decode(p), or what it was last time. A nil Object gives nil.
func (d *Decoder) Tree(o *Object) any {
	if o == nil {
		return nil
	}
	for i := range d.last {
		if d.last[i].object == o {
			d.next = 1 - i
			return d.last[i].tree
		}
	}
	tree := o.Decode(d.paths)
	d.Remember(o, tree)
	return tree
}

// Remember has Tree give tree for o, which must be o.Decode(p) or more: what a [Parser] gave, say.
func (d *Decoder) Remember(o *Object, tree any) {
	i := d.next
	if d.last[1-i].object == o {
		i = 1 - i
	}
	d.last[i].object, d.last[i].tree = o, tree
	d.next = 1 - i
}
