package action

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/state/records"
)

// The state keeps writes, for the next process: it sees the changes that informers have not shown
// yet, and delivers events that wait. Each write is a note of its own, of no rule. There are maxKept
// names for notes, which the writes use in turn. So a note costs what it holds, once, and none is
// ever read but at the start.
//
// A note is deleted once informd has run for keptFor since. Time in which informd does not run does
// not count, because no informer shows anything then. A clock that jumps does not count either.
const (
	maxKept = 8192 // part of the names of notes
	// keptFor exceeds the longest delay of the Breaker, whose events need their cause after it.
	keptFor = 2 * longest
	// maxForgotten bounds the notes that one write deletes. It makes one.
	maxForgotten = 16

	keptNote = "write " // and the number of the write modulo maxKept, in base 36
	noRule   = ""       // stands for a rule in these notes
)

// Notes keep writes over restarts.
type Notes interface {
	// Begin begins a cut of the state, and end ends it.
	Begin() (end func())
	Put(rule, name string, value []byte) // within a cut
	Delete(rule, name string)            // within a cut
}

// Keeping says how Writes records what it knows.
type Keeping struct {
	Notes Notes
	// Now is the clock.
	Now func() time.Time
	// Watched returns the resources that informd watches now. Writes of others are not recorded,
	// because no rule ever asks who made them.
	Watched func() iter.Seq[schema.GroupVersionResource]
}

// kept is what Writes knows of its notes. Writes.mu guards it.
type kept struct {
	began time.Time     // when Keep or Restore was called last
	ran   time.Duration // for how long informd had run until then, in all
	next  uint64        // number of the next write
	// notes are those that the state may have, oldest first.
	notes []keptWrite
}

// keptWrite is a write that the state has.
type keptWrite struct {
	n  uint64
	at time.Duration // for how long informd had run, in all
}

func (k keptWrite) note() string { return keptNote + strconv.FormatUint(k.n%maxKept, 36) }

// Keep makes Writes record from now on. It is called before the first Begin.
func (w *Writes) Keep(k Keeping) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keeping, w.kept.began = k, k.Now()
}

// keeps reports whether a write of an object is recorded.
func (w *Writes) keeps(at target) bool {
	if w.keeping.Notes == nil {
		return false
	}
	for resource := range w.keeping.Watched() {
		if targetOf(resource, at.key) == at {
			return true
		}
	}
	return false
}

// record records a write. The caller holds mu, within a cut.
func (w *Writes) record(at target, v version) {
	k, notes := &w.kept, w.keeping.Notes
	is := keptWrite{k.next, k.time(w.keeping.Now())}
	k.next++
	for n := 0; n < maxForgotten && len(k.notes) > 0; n++ {
		first := k.notes[0]
		isReplaced := first.n+maxKept <= is.n
		if !isReplaced && is.at-first.at < keptFor {
			break
		}
		if !isReplaced {
			notes.Delete(noRule, first.note())
		}
		k.notes = k.notes[1:]
	}
	k.notes = append(k.notes, is)
	notes.Put(noRule, is.note(), records.AppendWrite(make([]byte, 0, 160), &records.Write{
		N: is.n, At: is.at, Group: at.resource.Group, Resource: at.resource.Resource, Key: at.key,
		From: v.from, To: v.to, Depth: v.write.Depth, Chain: v.write.Chain,
	}))
}

// time returns for how long informd has run in all. It never goes back.
func (k *kept) time(now time.Time) time.Duration {
	at := k.ran + now.Sub(k.began)
	if last := len(k.notes) - 1; last >= 0 {
		at = max(at, k.notes[last].at)
	}
	return at
}

// Restore makes Writes know what processes before this one have recorded, of all notes of the
// state that belong to no rule, by name. It deletes those that it cannot read or that are too old.
// It is called within a cut, after Keep and before the first Begin. Without Keep it does nothing.
func (w *Writes) Restore(notes iter.Seq2[string, []byte]) {
	if w.keeping.Notes == nil {
		return
	}
	var all []records.Write
	for name, value := range notes {
		if !strings.HasPrefix(name, keptNote) {
			continue
		}
		r, err := records.ReadWrite(value)
		if err != nil || name != (keptWrite{n: r.N}).note() {
			w.keeping.Notes.Delete(noRule, name)
			continue
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b records.Write) int {
		if a.N < b.N { // no two have the same number, or they had the same name
			return -1
		}
		return 1
	})
	newest := all[len(all)-1]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept.next, w.kept.ran, w.kept.began = newest.N+1, newest.At, w.keeping.Now()
	for _, r := range all {
		is := keptWrite{r.N, min(r.At, newest.At)}
		if newest.At-is.at >= keptFor || newest.N-is.n >= maxKept {
			w.keeping.Notes.Delete(noRule, is.note())
			continue
		}
		w.kept.notes = append(w.kept.notes, is)
		w.restore(&r)
	}
}

// restore makes Writes know a write. The caller holds mu.
func (w *Writes) restore(r *records.Write) {
	at := target{schema.GroupResource{Group: r.Group, Resource: r.Resource}, r.Key}
	o := w.at(at)
	w.add(o, version{from: r.From, to: r.To, write: Write{
		Rule: r.Chain[0], Depth: r.Depth, Chain: r.Chain[:min(len(r.Chain), maxChain)],
	}})
}
