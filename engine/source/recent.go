package source

import "github.com/informd/informd/engine/object"

const (
	recentObjects = 512
	recentBytes   = 1 << 20
)

// recent are the objects that came last. They are kept as plain text: what is being delivered, to whomever, is read from
// it. What leaves is packed. At most recentObjects, and recentBytes unless a single one is larger.
type recent struct {
	ring  [recentObjects]*object.Object
	first int
	n     int
	bytes int
}

// add adds the newest, and packs what it displaces.
func (r *recent) add(o *object.Object, packer *object.Packer) {
	if r.n == recentObjects {
		r.drop(packer)
	}
	r.ring[(r.first+r.n)%recentObjects] = o
	r.n++
	r.bytes += o.Size()
	for r.n > 1 && r.bytes > recentBytes {
		r.drop(packer)
	}
}

func (r *recent) drop(packer *object.Packer) {
	o := r.ring[r.first]
	r.ring[r.first] = nil
	r.first = (r.first + 1) % recentObjects
	r.n--
	r.bytes -= o.Size()
	packer.Pack(o)
}
