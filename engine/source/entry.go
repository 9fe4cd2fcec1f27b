package source

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/informd/informd/engine/object"
)

// entry is an object as client-go's queue and store hold it.
type entry struct {
	*object.Object
	values  [][]string // of the indexes that there were when it came, in their order: an update evaluates the new state only
	arrival *arrival   // nil once it was evaluated, for the initial state and for bookmarks
}

// arrival is what is known of an object on its way from a watch to the listeners.
type arrival struct {
	tree   *object.Tree // decoded, as far as listeners look at it; released once they have
	number uint64       // from the gate
	unfit  error        // why it could not be read: it has no more than its identity, and goes as a deletion

	barrier *barrier // it stands for no object: see there
}

var _ runtime.Object = (*entry)(nil)

// DeepCopyObject returns the entry itself: client-go changes nothing of it.
func (e *entry) DeepCopyObject() runtime.Object { return e }
