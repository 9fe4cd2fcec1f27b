package rounds

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/timing"
)

// Moments keeps the order of scheduled moments that were due before this run: those that it has to
// make up for, and those whose deliveries the run before has left. If two rules are about the same
// object, the later moment waits with that object until the earlier one is answered or a dead
// letter, at most maxHeld. Rules without a source count as being about the same object.
//
// The nil Moments knows of none. It is safe for concurrent use.
type Moments struct {
	now func() time.Time
	due atomic.Int32 // how many moments have yet to be made up for

	// mu guards the fields below and those of the moments. It is taken with the lock of a feed
	// held, and before those of lanes.
	mu  sync.Mutex
	all []*moment
}

// NewMoments returns Moments without any. now returns the time.
func NewMoments(now func() time.Time) *Moments { return &Moments{now: now} }

// Due returns how many moments have yet to be made up for.
func (m *Moments) Due() int { return int(m.due.Load()) }

// maxHeld bounds how long a moment waits for earlier ones.
const maxHeld = 5 * time.Minute

// stillness is how long an object of a moment must be free of earlier ones before its turn comes.
// So the informer has seen what their handlers and actions have changed.
const stillness = time.Second

// moment is the latest moment of a rule, for the objects of one informer.
type moment struct {
	rule     Rule
	informer string // its id
	// namespace is that of the informer's objects; empty for all.
	namespace string
	number    int64 // when it was due, as Unix time
	isDue     bool  // its round has yet to come, or to come to its end
	hasBegun  bool
	// isHanded says that the rule has seen all objects, but for those that are held.
	isHanded bool
	// isRecent says that the moment was due in this run, or that the run before has left deliveries
	// of its rule. Even if all are answered, the informer may not have seen yet what that changed.
	isRecent bool
	since    time.Time // when the first object was held; zero if none was
	// held are the objects that wait, each with the time since which nothing earlier is
	// outstanding: zero if something is.
	held map[string]time.Time
}

// add adds what the state says about the moments of a rule: the last one, and whether a later one,
// or the same, has to be made up for. It is called before informers run.
func (m *Moments) add(r Rule, informer, namespace string, number int64, isDue bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, &moment{
		rule: r, informer: informer, namespace: namespace, number: number, isDue: isDue, isHanded: !isDue,
		isRecent: isDue || r.HasLeft(),
	})
	if isDue {
		m.due.Add(1)
	}
}

// of returns the moments of the rules of an informer that see the rounds of a timetable, and that
// have to be made up for. m.mu is held.
func (m *Moments) of(informer string, table timing.Timetable) (all []*moment) {
	for _, at := range m.all {
		if at.isDue && at.informer == informer && at.rule.Plan().Rounds == table {
			all = append(all, at)
		}
	}
	return all
}

// begins notes that a round begins. A second one takes the place of a moment that is held.
func (m *Moments) begins(informer string, table timing.Timetable, number int64) {
	if m == nil || m.due.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.of(informer, table) {
		if at.hasBegun {
			m.end(at)
			continue
		}
		at.hasBegun, at.number = true, max(at.number, number)
	}
}

// handed notes that the rules have seen all objects of a round, but for those that are held.
func (m *Moments) handed(informer string, table timing.Timetable) {
	if m == nil || m.due.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.of(informer, table) {
		at.isHanded = true
	}
}

// over notes that a round has come to its end.
func (m *Moments) over(informer string, table timing.Timetable) {
	if m == nil || m.due.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.of(informer, table) {
		m.end(at)
	}
}

// end ends a moment that was to be made up for. m.mu is held.
func (m *Moments) end(at *moment) {
	at.isDue, at.isHanded, at.held = false, true, nil
	if m.due.Add(-1) == 0 {
		m.all = nil // nothing waits any more
	}
}

// holds reports whether an object of a round waits for an earlier moment.
func (m *Moments) holds(informer string, table timing.Timetable, key string) (holds bool) {
	if m == nil || m.due.Load() == 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for _, at := range m.of(informer, table) {
		if m.waits(at, key, now) {
			holds = true
		}
	}
	return holds
}

// waits reports whether an object of a moment waits, and notes it. m.mu is held.
func (m *Moments) waits(at *moment, key string, now time.Time) bool {
	if !at.since.IsZero() && now.Sub(at.since) >= maxHeld {
		delete(at.held, key)
		return false
	}
	free, wasHeld := at.held[key]
	isRecent, isOutstanding := m.earlier(at, key)
	switch {
	case isOutstanding:
		free = time.Time{}
	case !wasHeld && !isRecent:
		return false
	case free.IsZero():
		free = now
	case now.Sub(free) >= stillness:
		delete(at.held, key)
		return false
	}
	if at.since.IsZero() {
		at.since, at.held = now, make(map[string]time.Time)
	}
	at.held[key] = free
	return true
}

// earlier reports whether a recent earlier moment may be about an object, and whether one is not
// answered yet for the object. m.mu is held.
func (m *Moments) earlier(later *moment, key string) (isRecent, isOutstanding bool) {
	about := delta.ParseKey(key)
	for _, at := range m.all {
		if at.number >= later.number || at.rule == later.rule || !isAboutSame(at.rule, later.rule) ||
			at.namespace != "" && at.namespace != about.Namespace || at.rule.HasEnded() {
			continue
		}
		of := key
		if is := at.rule.Plan(); is.Source.Name == "" { // a rule without a source
			of = is.Name
		}
		if _, isHeld := at.held[of]; !at.isHanded || isHeld || at.rule.Holds(delta.ParseKey(of)) {
			return true, true
		}
		isRecent = isRecent || at.isRecent
	}
	return isRecent, false
}

// isAboutSame reports whether two rules may be about the same object: the resource is the same, in
// whatever version.
func isAboutSame(a, b Rule) bool {
	return a.Plan().Source.Resource.GroupResource() == b.Plan().Source.Resource.GroupResource()
}
