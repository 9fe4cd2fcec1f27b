package source

import (
	"time"

	"github.com/informd/informd/engine/object"
)

const (
	recentFor   = time.Second
	recentBytes = 64 << 20
)

// recent are the objects that came last: of the last recentFor, and no more than recentBytes of them. They are kept as
// plain text: they are about to be delivered, to whomever; and what changes again and again need never be packed.
type recent struct {
	all   []arrived // the oldest first
	bytes int
}

type arrived struct {
	object *object.Object
	at     time.Time
	size   int
}

// add adds the newest, and gives some of what is old to pack: more than one, so that the old become fewer. It tells whether
// the newest is the only one.
func (r *recent) add(o *object.Object, now time.Time, pack func(*object.Object)) (only bool) {
	size := o.Size()
	r.all = append(r.all, arrived{o, now, size})
	r.bytes += size
	r.expire(now, 4, pack)
	return len(r.all) == 1
}

// expire gives what is too much to pack, and of what is old at most so many, and says when there is more to do; never, if
// that is zero.
func (r *recent) expire(now time.Time, most int, pack func(*object.Object)) (next time.Time) {
	n := 0
	for n < len(r.all) && (r.bytes > recentBytes || n < most && now.Sub(r.all[n].at) >= recentFor) {
		r.bytes -= r.all[n].size
		pack(r.all[n].object)
		r.all[n].object = nil
		n++
	}
	if r.all = r.all[n:]; len(r.all) == 0 {
		r.all = nil // and the memory of all that there ever were
		return time.Time{}
	}
	return r.all[0].at.Add(recentFor)
}
