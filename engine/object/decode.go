package object

import "github.com/informd/informd/engine/object/scan"

// Decode decodes what p covers, and nothing else: the value of a [Tree], which is the caller's.
func (o *Object) Decode(p *Paths) any { return o.decode(p, nil) }

func (o *Object) decode(p *Paths, from *branches) any {
	if p.IsEmpty() {
		return nil
	}
	text, borrowed := o.content.Load().borrow()
	defer giveBack(borrowed)
	s := scan.New(text)
	w := walker{s: &s, branches: from}
	value, _ := w.value(nil, p, elsewhere) // valid
	return value
}

// Decoder decodes the same paths of one object after another, and remembers what it decoded of the last two: those of a
// change, which any number of expressions look at. What it gives is part of a [Tree] that ends when two others were asked
// for, or with [Decoder.Forget]. It is not safe for concurrent use.
type Decoder struct {
	paths *Paths
	last  [2]struct {
		object   *Object
		value    any
		branches // of value, unless that is another's
	}
	next int
}

// NewDecoder makes a Decoder of p, which must not change while it is in use.
func NewDecoder(p *Paths) *Decoder { return &Decoder{paths: p} }

// Tree is what Decode gives, or what it was last time. A nil Object gives nil.
func (d *Decoder) Tree(o *Object) any {
	if o == nil {
		return nil
	}
	for i := range d.last {
		if d.last[i].object == o {
			d.next = 1 - i
			return d.last[i].value
		}
	}
	last := &d.last[d.next]
	last.recycle()
	last.object, last.value = o, o.decode(d.paths, &last.branches)
	d.next = 1 - d.next
	return last.value
}

// Remember has Tree give value for o, until Forget: what Decode would give, or more, as a [Parser] has read it.
func (d *Decoder) Remember(o *Object, value any) {
	i := d.next
	if d.last[1-i].object == o {
		i = 1 - i
	}
	d.last[i].object, d.last[i].value = o, value
	d.next = 1 - i
}

// Forget ends everything that the Decoder gave or was given.
func (d *Decoder) Forget() {
	for i := range d.last {
		d.last[i].object, d.last[i].value = nil, nil
		d.last[i].recycle()
	}
}
