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

// recent holds states of objects that keep their plain text, up to recentBytes in all. Each state is
// young for youngFor, because informd is about to deliver it. One that nothing has replaced by then
// stays until recentFor, because what changed is likely to change again soon. A Pod that starts
// changes some five times in a few seconds, and each change is compared with the state before. Once
// nothing has come for youngFor, nothing is recent.
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

// add adds the newest object, and packs a few old ones, more than one per call, so that their number
// shrinks. It returns true if the newest object is the only young one.
func (r *recent) add(o *object.Object, now time.Time, of owner) (only bool) {
	r.young.push(arrived{o, now, o.Size()})
	r.expire(now, 4, of)
	return r.young.len() == 1
}

// expire packs the oldest objects beyond recentBytes, and at most limit objects of either age that
// are due. It returns when the next object is due; a zero time means never.
func (r *recent) expire(now time.Time, limit int, of owner) (next time.Time) {
	next = r.young.expire(now, youngFor, limit, func(a arrived) {
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
	return timing.Earlier(next, r.rest.expire(now, age, limit, func(a arrived) { of.pack(a.object) }))
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

// expire removes the oldest objects beyond half of recentBytes, and at most limit others that came
// longer ago than age, and calls take with each. It returns when the next one is due; a zero time
// means never.
func (r *ring) expire(now time.Time, age time.Duration, limit int, take func(arrived)) time.Time {
	for left := limit; r.gone < len(r.all); left-- {
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
