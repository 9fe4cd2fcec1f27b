package source

import (
	"time"

	"github.com/informd/informd/engine/object"
)

const (
	recentFor   = time.Second
	recentBytes = 64 << 20
)

// recent holds the objects that came within recentFor, up to recentBytes. They keep their plain
// text, because informd is about to deliver them. Without a state directory, an object that changes
// all the time is never packed. With one, the state packs each object to write it, and its packed
// form, about a fifth of the text, comes on top of recentBytes.
type recent struct {
	all   []arrived // the oldest first
	gone  int       // elements at the front of all that are no longer held
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
	return len(r.all)-r.gone == 1
}

// expire calls pack with the oldest objects beyond recentBytes, and with at most most objects that
// are older than recentFor. It returns when the next object is due; a zero time means never.
func (r *recent) expire(now time.Time, most int, pack func(*object.Object)) (next time.Time) {
	left := most
	for r.gone < len(r.all) {
		oldest := &r.all[r.gone]
		if r.bytes <= recentBytes && (left <= 0 || now.Sub(oldest.at) < recentFor) {
			break
		}
		left--
		r.bytes -= oldest.size
		pack(oldest.object)
		oldest.object = nil
		r.gone++
	}
	if r.gone == len(r.all) {
		r.all, r.gone = nil, 0 // frees the memory of all former elements
		return time.Time{}
	}
	if 2*r.gone >= len(r.all) { // moves no more elements than have gone since it last did
		n := copy(r.all, r.all[r.gone:])
		clear(r.all[n:])
		r.all, r.gone = r.all[:n], 0
	}
	return r.all[r.gone].at.Add(recentFor)
}
