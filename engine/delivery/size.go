package delivery

import "github.com/informd/informd/plugins/handler"

const (
	// overhead is the memory of a delivery itself and its place in a queue, in bytes, and
	// actionOverhead that of an action besides its texts.
	overhead       = 512
	actionOverhead = 256
)

// Size returns roughly how many bytes of memory a delivery takes. It counts objects in full, even
// if others share them.
func Size(d *Delivery) int64 {
	size := overhead + d.Delta.Object.Size() + len(d.Payload) + d.Answer.Size()
	if old := d.Delta.Old; old != nil {
		size += old.Size()
	}
	for i := range d.Items {
		item := &d.Items[i]
		size += overhead/2 + item.Delta.Object.Size() + len(item.Payload)
		if old := item.Delta.Old; old != nil {
			size += old.Size()
		}
	}
	return int64(size)
}

// Size returns roughly how many bytes of memory an answer takes, and 0 for nil.
func (a *Answer) Size() int {
	if a == nil {
		return 0
	}
	return len(a.Text) + SizeOf(a.Actions)
}

// SizeOf returns roughly how many bytes of memory actions take.
func SizeOf(actions []handler.Action) (size int) {
	for i := range actions {
		a := &actions[i]
		size += actionOverhead + len(a.Object) + len(a.Patch) +
			len(a.Namespace) + len(a.Name) + len(a.Reason) + len(a.Message)
	}
	return size
}
