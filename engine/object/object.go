// Package object holds Kubernetes objects as the engine keeps them: immutable, as the compact JSON
// that the API server sent, without metadata.managedFields. Beside it stand the few strings that
// identify an object. What expressions read is decoded in the one pass that validates the text (see
// [Parser]), or on demand, and only on the paths that they mention (see [Paths], [Object.Decode]).
//
// An Object costs its JSON, which a [Packer] makes several times smaller, and about two hundred
// bytes. Any number of goroutines may share it. The package does no I/O and knows no schema: a path
// is names, a value is JSON.
package object

import (
	"sync/atomic"

	"github.com/klauspost/compress/s2"
)

// Object is an immutable Kubernetes object. It implements runtime.Object and
// metav1.ObjectMetaAccessor, so that client-go's caches can hold it.
type Object struct {
	ID
	content atomic.Pointer[content]
	place   atomic.Uint64
}

// Place returns what SetPlace set, or 0. It is for the one that records objects: it notes where it
// has written the text.
func (o *Object) Place() uint64 { return o.place.Load() }

// SetPlace replaces the Place.
func (o *Object) SetPlace(place uint64) { o.place.Store(place) }

// JSON returns the object as compact JSON without metadata.managedFields. The caller must not
// change it. Each call unpacks a packed object again.
func (o *Object) JSON() []byte { return o.content.Load().unpack(nil) }

// AppendJSON appends what JSON returns to b. It allocates nothing if b has room.
func (o *Object) AppendJSON(b []byte) []byte {
	text, borrowed := o.content.Load().borrow()
	defer giveBack(borrowed)
	return append(b, text...)
}

// Length returns the number of bytes that JSON returns, without unpacking them.
func (o *Object) Length() int {
	c := o.content.Load()
	if c.packed == nil {
		return len(c.bytes)
	}
	n, _ := s2.DecodedLen(c.bytes) // cannot fail: see FromPacked and Packer
	return n
}

// IsPacked reports whether the object holds its text only as a [Packer] packed it.
func (o *Object) IsPacked() bool { return o.content.Load().packed != nil }

// Shrink drops the plain text if the object holds the packed form beside it.
func (o *Object) Shrink() {
	if c := o.content.Load(); c.form != nil {
		o.content.CompareAndSwap(c, c.form) // fails only if another goroutine has done it
	}
}

// Size returns about how many bytes the object holds now.
func (o *Object) Size() int {
	c := o.content.Load()
	size := len(c.bytes) + len(o.ID.text) + 96
	if c.form != nil {
		size += len(c.form.bytes)
	}
	return size
}

// Labels decodes the object's labels. It leaves out values that are not strings.
func (o *Object) Labels() map[string]string { return o.stringMap("labels", &labelPaths) }

// Annotations decodes the object's annotations. It leaves out values that are not strings.
func (o *Object) Annotations() map[string]string {
	return o.stringMap("annotations", &annotationPaths)
}

var (
	labelPaths      = pathsOf("metadata", "labels")
	annotationPaths = pathsOf("metadata", "annotations")
)

func pathsOf(path ...string) (p Paths) {
	p.Add(path...)
	return p
}

func (o *Object) stringMap(field string, p *Paths) map[string]string {
	tree, _ := o.Decode(p).(map[string]any)
	meta, _ := tree["metadata"].(map[string]any)
	values, _ := meta[field].(map[string]any)
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]string, len(values))
	for k, v := range values {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}
