package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
)

// Journal encloses the records of one change, so that all of them are kept or none. The dispatcher encloses what an answer
// changes, and what merging changes when it loads what was left to the store alone. Begin is not called within another.
type Journal interface {
	Begin()
	End()
	// Written has everything be written that was recorded before, and returns once that would survive a crash. If it cannot be
	// written, or not within a few seconds, it returns an error that says why. It is not called between Begin and End.
	Written(ctx context.Context) error
}

type noJournal struct{}

func (noJournal) Begin()                        {}
func (noJournal) End()                          {}
func (noJournal) Written(context.Context) error { return nil }

// ErrNotYet is what errors of LaneStore.Load wrap when nothing is wrong, and it is to be asked again soon.
var ErrNotYet = errors.New("not yet")

// LaneStore keeps a record of each delivery of one rule that waits or is in flight, under a number that is its own, until
// it has been dealt with. Except for Load it is called within the Journal's Begin and End, with the lane locked: it must be
// quick, and must not call the lane.
type LaneStore interface {
	// Put records a delivery, in the place of what was recorded under that number and key before.
	Put(n uint64, key delta.Key, w Waiting)
	// Delete drops a record.
	Delete(n uint64, key delta.Key)
	// Room tells whether deliveries of that size in all may be left to the store alone.
	Room(size int64) bool
	// Load reads deliveries of key with numbers above after, in ascending order: at most maxItems of them, and no more than
	// about maxBytes, but one at least if there is one. What was put and cannot be read yet is left out, and everything
	// above it too. It is called from one goroutine at a time, and may take its time.
	Load(key delta.Key, after uint64, maxItems int, maxBytes int64) ([]Numbered, error)
}

// Waiting is a delivery as it is recorded.
type Waiting struct {
	Delta   delta.Delta
	Payload json.RawMessage // nil where the rule has none
	Answer  json.RawMessage // the actions that it was answered with and that are to be carried out, as JSON; nil if there are none
	Stale   bool            // the payload is that of another delta, and to be made anew
	// Undecided says that it is not known yet whether there is anything to deliver.
	Undecided bool

	Attempts int // how often this event was handed out
	Failures int // how often it was answered with an error
	Backoff  int // retries of the object in a row
	Losses   int // how often in a row the handler was lost with the object

	Sent     bool      // it, or what was merged into it, was handed out before
	Redriven bool      // it is a dead letter that is delivered once more
	Since    time.Time // when the change was first offered
	Due      time.Time // not to be handed out before; zero if there is no such time
}

// Numbered is a Waiting under its number.
type Numbered struct {
	N uint64
	Waiting
}

// records is a LaneStore as the queue sees it.
type records struct {
	LaneStore
	remerges bool // payloads can be made anew
}

func (r records) Put(n uint64, key delta.Key, q queue.Record[delivery]) {
	d := q.Value
	r.LaneStore.Put(n, key, Waiting{
		Delta: d.match.Delta, Payload: d.match.Payload, Answer: d.answer.record(), Stale: d.stale, Undecided: d.match.Undecided,
		Attempts: d.attempts, Failures: d.failures, Backoff: d.backoff, Losses: d.losses,
		Sent: q.Sent, Redriven: q.Redriven, Since: q.Since, Due: q.Due,
	})
}

func (r records) Load(key delta.Key, after uint64, maxItems int, maxBytes int64) ([]queue.Numbered[delivery], error) {
	loaded, err := r.LaneStore.Load(key, after, maxItems, maxBytes)
	latest := time.Now().Add(maxDelay) // a clock that was wrong when it was written does not hold it up for years
	out := make([]queue.Numbered[delivery], 0, len(loaded))
	for _, w := range loaded {
		if w.Due.After(latest) {
			w.Due = latest
		}
		var answered *answer
		if w.Answer != nil {
			answered = &answer{text: w.Answer}
		}
		out = append(out, queue.Numbered[delivery]{N: w.N, Record: queue.Record[delivery]{
			Value: delivery{
				match: rule.Match{Delta: w.Delta, Payload: w.Payload, Undecided: w.Undecided}, answer: answered, stale: w.Stale && r.remerges,
				attempts: w.Attempts, failures: w.Failures, backoff: w.Backoff, losses: w.Losses, redriven: w.Redriven,
			},
			Since: w.Since, Due: w.Due, Sent: w.Sent, Redriven: w.Redriven,
		}})
	}
	return out, err
}
