package source

import (
	"time"

	"github.com/informd/informd/engine/object"
)

const (
	recentFor   = time.Second
	recentBytes = 64 << 20
)

// recent holds the objects that came within recentFor, up to recentBytes. They stay plain text,
// because informd is about to deliver them. So an object that changes all the time is never packed.
type recent struct {
	all   []arrived // the oldest first
	bytes int
}

type arrived struct {
	object *object.Object
	at     time.Time
	size   int
}

// add adds the newest object. It calls pack with a few old objects, more than one per call, so that
// their number shrinks. It returns true if the newest object is the only one.
func (r *recent) add(o *object.Object, now time.Time, pack func(*object.Object)) (only bool) {
	size := o.Size()
	r.all = append(r.all, arrived{o, now, size})
	r.bytes += size
	r.expire(now, 4, pack)
	return len(r.all) == 1
}

// expire calls pack with the oldest objects beyond recentBytes, and with at most most objects that
// are older than recentFor. It returns when the next object is due; a zero time means never.
func (r *recent) expire(now time.Time, most int, pack func(*object.Object)) (next time.Time) {
	n := 0
	for n < len(r.all) && (r.bytes > recentBytes || n < most && now.Sub(r.all[n].at) >= recentFor) {
		r.bytes -= r.all[n].size
		pack(r.all[n].object)
		r.all[n].object = nil
		n++
	}
	if r.all = r.all[n:]; len(r.all) == 0 {
		r.all = nil // frees the memory of all former elements
		return time.Time{}
	}
	return r.all[0].at.Add(recentFor)
}
