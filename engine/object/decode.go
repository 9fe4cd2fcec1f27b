package object

import "github.com/informd/informd/engine/object/scan"

// Decode decodes what p covers, and nothing else. It returns the value of a [Tree] that belongs to
// the caller.
func (o *Object) Decode(p *Paths) any { return o.decode(p, nil) }

func (o *Object) decode(p *Paths, from *branches) any {
	if p.IsEmpty() {
		return nil
	}
	text, borrowed := o.content.Load().borrow()
	defer giveBack(borrowed)
	s := scan.New(text)
	w := walker{s: &s, branches: from}
	value, _ := w.value(nil, p, elsewhere) // the text is valid
	return value
}

// Decoder decodes the same paths of one object after the other. It remembers its last two trees,
// which are those of one change, because any number of expressions read them. A tree is valid until
// two others are decoded, or until [Decoder.Forget]. It is not safe for concurrent use.
type Decoder struct {
	paths *Paths
	last  [2]struct {
		object   *Object
		value    any
		branches // of value, unless the Decoder did not decode it
	}
	next int
}

// NewDecoder returns a Decoder of p. p must not change while the Decoder is in use.
func NewDecoder(p *Paths) *Decoder { return &Decoder{paths: p} }

// Tree returns what Decode returns, or what it returned last time. A nil Object gives nil.
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

// Remember makes Tree return value for o until Forget. value is what Decode would give, or more, as
// a [Parser] has read it.
func (d *Decoder) Remember(o *Object, value any) {
	i := d.next
	if d.last[1-i].object == o {
		i = 1 - i
	}
	d.last[i].object, d.last[i].value = o, value
	d.next = 1 - i
}

// Forget ends every tree that the Decoder returned or was given.
func (d *Decoder) Forget() {
	for i := range d.last {
		d.last[i].object, d.last[i].value = nil, nil
		d.last[i].recycle()
	}
}
