package live

import (
	"maps"
	"sync"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/state"
)

// Memory is what the state keeps of a rule besides its deliveries: which informers it has seen, and
// whether it is paused. A reload hands it on to the rule that takes the place of this one. Without
// a store it remembers, but records nothing. It is safe for concurrent use.
type Memory struct {
	store *state.Store // nil if nothing is kept
	id    string       // the rule's ID
	// resource is that of the rule's source. It does not change.
	resource string

	// mu guards the fields below. It is taken within the state's cut, before the lane's locks.
	mu       sync.Mutex
	where    string            // the membership of the rule as it is now
	name     string            // of the rule as it is now
	former   []delivery.Former // the names that it had
	lane     *dispatch.Lane    // of the rule as it is now
	seen     map[string]string // by informer: the rule's where when it saw the informer's objects
	paused   bool
	asked    bool // an operator has paused or resumed the rule in this run
	isLoaded bool // the saved state of the rule was loaded; before that, nothing may overwrite it
	catching int  // informers that have not caught up with the saved state
	isGone   bool // the rule is gone, and no longer recorded

	occasions occasions // see occasions.go
}

// NewMemory returns the memory of a new rule. store is nil if nothing is kept.
func NewMemory(store *state.Store, r *Rule) *Memory {
	return &Memory{
		store: store, id: r.ID, name: r.Name, resource: r.Resource(), where: r.Membership(),
	}
}

// RestorePause pauses the lane if the rule was paused when it was saved. If an operator has paused
// or resumed the rule since the start, that counts instead.
func (m *Memory) RestorePause(paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.asked && paused {
		m.paused = true
		m.lane.Pause()
	}
}

// NoteLoaded records the rule for the first time in this run. It is called within a cut.
func (m *Memory) NoteLoaded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isLoaded = true
	m.put()
}

// See records that the rule, as it is now, has seen an informer's objects. It is called within a
// cut.
func (m *Memory) See(informer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(informer, m.where)
	m.put()
}

// CatchUp records that the rule, as it is now, begins to see an informer's objects. It is called
// within a cut.
func (m *Memory) CatchUp(informer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, hasSeen := m.seen[informer]
	m.remember(informer, resume.CatchingUp(was, hasSeen, m.where))
	m.put()
}

// Leave records that the rule begins to learn what became of the objects of an informer that it has
// left. It is called within a cut.
func (m *Memory) Leave(informer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, hasSeen := m.seen[informer]; hasSeen {
		m.remember(informer, resume.Leaving(was))
		m.put()
	}
}

// Become makes the memory that of the rule with another where.
func (m *Memory) Become(where string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.where = where
}

// Rename records that the rule has another name, and the names that it had. It is called within a
// cut.
func (m *Memory) Rename(name string, former []delivery.Former) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.name, m.former = name, former
	m.put()
}

// SetFormer sets the names that the rule had, without a record.
func (m *Memory) SetFormer(former []delivery.Former) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.former = former
}

// End stops recording the rule. It is called within a cut.
func (m *Memory) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isGone = true
}

// Ended reports whether End was called: the rule is gone.
func (m *Memory) Ended() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isGone
}

// Know sets the where that the rule had when it saw the informer's objects. It records nothing,
// because the rule has not yet learned what differs.
func (m *Memory) Know(informer, where string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(informer, where)
}

// Forget records that the rule knows nothing of an informer any more. It is called within a cut.
func (m *Memory) Forget(informer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, informer)
	if m.isLoaded { // otherwise NoteLoaded will record it
		m.put()
	}
}

// ApartID returns an id for a record of the rule's own, of what it had inside in an informer that it
// has left. No record that the rule keeps has it.
func (m *Memory) ApartID(informer string) (id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, isTaken := 1, true; isTaken; n++ {
		id = resume.ApartID(informer, m.id, n)
		_, isTaken = m.seen[id]
	}
	return id
}

// KeepApart records that the rule keeps the record with this id, which ApartID has returned. It is
// called within a cut.
func (m *Memory) KeepApart(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(id, "") // all objects were inside
	if m.isLoaded {    // otherwise NoteLoaded will record it
		m.put()
	}
}

// remember notes that the rule saw the informer's objects with this where. The caller holds mu.
func (m *Memory) remember(informer, where string) {
	if m.seen == nil {
		m.seen = make(map[string]string)
	}
	m.seen[informer] = where
}

// Follow makes lane the one of the rule from now on.
func (m *Memory) Follow(lane *dispatch.Lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lane = lane
}

// Lane returns the lane of the rule as it is now. While a reload is carried out, the rule that
// takes over may have no lane of its own yet; then this is the lane of the rule before.
func (m *Memory) Lane() *dispatch.Lane {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lane
}

// Pause pauses or resumes the rule's lane, and records it. If ok is false, the rule is gone and
// nothing has happened. It is called within a cut.
func (m *Memory) Pause(paused bool) (ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isGone {
		return false
	}
	if paused {
		m.lane.Pause()
	} else {
		m.lane.Resume()
	}
	m.asked, m.paused = true, paused
	if m.isLoaded { // otherwise NoteLoaded will record it
		m.put()
	}
	return true
}

// put records the rule. The caller holds mu.
func (m *Memory) put() {
	if m.store != nil && !m.isGone {
		m.store.PutRule(state.RuleMemory{
			ID: m.id, Name: m.name, Former: m.former,
			Resource: m.resource, Seen: maps.Clone(m.seen), Paused: m.paused,
		})
	}
}

// BeginCatchUp notes that an informer has to catch up with the saved state. Until then the lane
// must not merge offers as if they were new. The last process may have delivered them, and have
// been killed before it recorded that.
func (m *Memory) BeginCatchUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.catching++
	m.lane.Doubt(true)
}

// EndCatchUp ends one BeginCatchUp.
func (m *Memory) EndCatchUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.catching > 0 {
		m.catching--
	}
	if m.catching == 0 {
		m.lane.Doubt(false)
	}
}
