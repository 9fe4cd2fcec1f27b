package source

import "github.com/informd/informd/engine/object"

// Saved is what a consumer recorded in another run.
type Saved struct {
	// Objects are those that it knew.
	Objects []*object.Object
	// ResourceVersion is its position. If it is empty, the objects have to be compared with a list.
	ResourceVersion string
	// Partial says that the objects lack some of what is to be kept of them now. A list fills them,
	// and each comes back or is gone: see Step.Saved.
	Partial bool
	// Follow makes the informer tell the server's changes since ResourceVersion before a list fills
	// the parts, so that what came and went since is told as well. It is for a consumer that
	// records no more of an object than it gives here: the position moves while some parts are not
	// filled yet.
	Follow bool
}

// follows reports whether the server's changes can be told from the saved resourceVersion on.
func (s *Saved) follows() bool { return s.ResourceVersion != "" && (!s.Partial || s.Follow) }
