package source

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/informd/informd/engine/object"
)

// entry is an object as client-go's queue and store hold it.
type entry struct {
	*object.Object
	// values are those of the indexes that existed when the object came, in their order: an update
	// evaluates the new state only.
	values [][]string
	// arrival is nil once the object was told, and for the initial state, saved objects and
	// bookmarks.
	arrival *arrival
}

// arrival is what is known of an object on its way from a watch to the consumer.
type arrival struct {
	tree   *object.Tree // decoded to the informer's view; released once the consumer has taken it
	number uint64       // from the gate
	unfit  error        // why it cannot be read: only its identity is known
}

var _ runtime.Object = (*entry)(nil)

// DeepCopyObject returns the entry itself: client-go changes nothing of it.
func (e *entry) DeepCopyObject() runtime.Object { return e }
