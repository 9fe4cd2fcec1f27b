package source

import (
	"time"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
)

const (
	youngFor    = time.Second
	recentFor   = 8 * time.Second // less than slack.Release waits
	recentBytes = 64 << 20
)

// recent holds the objects that came within youngFor, and those that came within recentFor and that
// nothing replaced within youngFor, up to recentBytes in all. They keep their plain text: the young
// ones because informd is about to deliver them, the others because what changed is likely to change
// again soon. A Pod that starts changes some five times in a few seconds, and each change is compared
// with the state before. Once nothing has come for youngFor, nothing is recent.
//
// Without a state directory, an object that changes all the time is never packed. With one, the
// state packs each object to write it. The packed form, about a fifth of the text, comes on top of
// recentBytes.
type recent struct{ young, rest ring }

// owner is whose objects are recent.
type owner interface {
	isNewest(*object.Object) bool // nothing has replaced it
	pack(*object.Object)          // packs it, or lets it go if something has replaced it
}

// add adds the newest object, and has a few old ones packed, more than one per call, so that their
// number shrinks. It returns true if the newest object is the only young one.
func (r *recent) add(o *object.Object, now time.Time, of owner) (only bool) {
	r.young.push(arrived{o, now, o.Size()})
	r.expire(now, 4, of)
	return r.young.len() == 1
}

// expire has the oldest objects beyond recentBytes packed, and at most most objects of either age
// that are due. It returns when the next object is due; a zero time means never.
func (r *recent) expire(now time.Time, most int, of owner) (next time.Time) {
	next = r.young.expire(now, youngFor, most, func(a arrived) {
		if of.isNewest(a.object) {
			r.rest.push(a)
		} else {
			of.pack(a.object)
		}
	})
	age := recentFor
	if r.young.len() == 0 {
		age = 0
	}
	return timing.Earlier(next, r.rest.expire(now, age, most, func(a arrived) { of.pack(a.object) }))
}

// ring holds arrivals in order of time.
type ring struct {
	all   []arrived // the oldest first
	gone  int       // elements at the front of all that are no longer held
	bytes int
}

type arrived struct {
	object *object.Object
	at     time.Time
	size   int
}

func (r *ring) len() int { return len(r.all) - r.gone }

func (r *ring) push(a arrived) {
	r.all = append(r.all, a)
	r.bytes += a.size
}

// expire gives to take the oldest objects beyond half of recentBytes, and at most most others that
// came longer ago than age. It returns when the next one is due; a zero time means never.
func (r *ring) expire(now time.Time, age time.Duration, most int, take func(arrived)) time.Time {
	for left := most; r.gone < len(r.all); left-- {
		oldest := r.all[r.gone]
		if r.bytes <= recentBytes/2 && (left <= 0 || now.Sub(oldest.at) < age) {
			break
		}
		r.bytes -= oldest.size
		r.all[r.gone] = arrived{}
		r.gone++
		take(oldest)
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
	return r.all[r.gone].at.Add(age)
}
