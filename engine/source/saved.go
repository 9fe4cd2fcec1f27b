package source

import "github.com/informd/informd/engine/object"

// Saved is what a consumer recorded in another run.
type Saved struct {
	// Objects are the objects that the consumer knew.
	Objects []*object.Object
	// ResourceVersion is the consumer's position. If it is empty, the informer must compare the
	// objects with a list.
	ResourceVersion string
	// Partial says that the objects lack parts that the informer is to keep now. A list completes
	// them, and each object comes back or is gone: see Step.Saved.
	Partial bool
	// Follow makes the informer report the server's changes since ResourceVersion before a list
	// completes the parts. So the consumer also learns of objects that came and went meanwhile. Use
	// it only if the consumer records no more of an object than it passes here, because the
	// position moves while some parts are incomplete.
	Follow bool
}

// follows reports whether the informer can follow the server from the saved resourceVersion.
func (s *Saved) follows() bool { return s.ResourceVersion != "" && (!s.Partial || s.Follow) }
