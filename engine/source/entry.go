package source

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/informd/informd/engine/object"
)

// entry is an object in client-go's queue and store.
type entry struct {
	*object.Object
	// values are the values of the indexes that existed when the object came, in the order of the
	// indexes. Because of them an update evaluates only the new state.
	values [][]string
	// arrival is nil once the consumer has taken the object. It is also nil for initial states,
	// saved objects and bookmarks.
	arrival *arrival
}

// arrival is what the informer knows about an object on its way from a watch to the consumer.
type arrival struct {
	tree   *object.Tree  // decoded to the view; released once the consumer has taken it
	view   *object.Paths // the informer's when the object was read
	number uint64        // the event's number in the gate
	unfit  error         // why the object is unreadable; then only its identity is known
	// isForeign says that the object is unfit because the informer did not ask for it.
	isForeign bool
}

var _ runtime.Object = (*entry)(nil)

// DeepCopyObject returns the entry itself, because client-go never changes it.
func (e *entry) DeepCopyObject() runtime.Object { return e }
