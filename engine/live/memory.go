package live

import (
	"maps"
	"sync"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/state"
)

// memory is what the state keeps of a rule besides its deliveries: which informers it has seen, and
// whether it is paused. A reload hands it on to the rule that takes the place of this one. Without a
// store it remembers, but records nothing.
type memory struct {
	store *state.Store // nil if nothing is kept
	id    string
	// resource and where are those of the rule as it is now.
	resource, where string
	name            string            // guarded by mu
	former          []delivery.Former // guarded by mu

	// mu guards the fields below. It is taken within the state's cut, before the lane's locks.
	mu       sync.Mutex
	lane     *dispatch.Lane    // of the rule as it is now
	seen     map[string]string // by informer: the rule's where when it saw the informer's objects
	paused   bool
	asked    bool // an operator has paused or resumed the rule in this run
	isLoaded bool // the saved state of the rule was loaded; before that, nothing may overwrite it
	catching int  // informers that have not caught up with the saved state
	isGone   bool // the rule is gone, and no longer recorded

	occasions occasions // see occasions.go
}

// NewMemory returns the memory of a new rule.
func NewMemory(store *state.Store, r *Rule) *memory {
	return &memory{
		store: store, id: r.ID, name: r.Name, resource: r.Resource(), where: r.Membership(),
	}
}

// Load pauses the lane if the rule was paused when it was saved. If an operator has paused or
// resumed the rule since the start, that counts instead.
func (m *memory) Load(paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.asked && paused {
		m.paused = true
		m.lane.Pause()
	}
}

// Loaded records the rule for the first time in this run. It is called within a cut.
func (m *memory) Loaded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isLoaded = true
	m.put()
}

// See records that the rule, as it is now, has seen an informer's objects. It is called within a
// cut.
func (m *memory) See(informer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(informer, m.where)
	m.put()
}

// CatchUp records that the rule, as it is now, begins to see an informer's objects. It is called within
// a cut.
func (m *memory) CatchUp(informer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, hasSeen := m.seen[informer]
	m.remember(informer, resume.CatchingUp(was, hasSeen, m.where))
	m.put()
}

// Leave records that the rule begins to learn what became of the objects of an informer that it has
// left. It is called within a cut.
func (m *memory) Leave(informer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, hasSeen := m.seen[informer]; hasSeen {
		m.remember(informer, resume.Leaving(was))
		m.put()
	}
}

// Become makes the memory that of the rule with another where.
func (m *memory) Become(where string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.where = where
}

// Renamed records that the rule has another name, and the names that it had. It is called within a
// cut.
func (m *memory) Renamed(name string, former []delivery.Former) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.name, m.former = name, former
	m.put()
}

// SetFormer sets the names that the rule had, without a record.
func (m *memory) SetFormer(former []delivery.Former) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.former = former
}

// End stops recording the rule. It is called within a cut.
func (m *memory) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isGone = true
}

// Ended reports whether end was called.
func (m *memory) Ended() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isGone
}

// Know sets the where that the rule had when it saw the informer's objects. It records nothing,
// because the rule has not yet learned what differs.
func (m *memory) Know(informer, where string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(informer, where)
}

// Forget records that the rule knows nothing of an informer any more. It is called within a cut.
func (m *memory) Forget(informer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, informer)
	m.put()
}

// remember notes that the rule saw the informer's objects with this where. The caller holds mu.
func (m *memory) remember(informer, where string) {
	if m.seen == nil {
		m.seen = make(map[string]string)
	}
	m.seen[informer] = where
}

// Follow makes lane that of the rule from now on.
func (m *memory) Follow(lane *dispatch.Lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lane = lane
}

// Current returns the lane of the rule as it is now. The rule that a Reload is carrying out may not
// have its own yet.
func (m *memory) Current() *dispatch.Lane {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lane
}

// Pause pauses or resumes the rule's lane, and records it. If ok is false, the rule is gone and
// nothing has happened. It is called within a cut.
func (m *memory) Pause(paused bool) (ok bool) {
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
	if m.isLoaded { // otherwise loaded will record it
		m.put()
	}
	return true
}

// put records the rule. The caller holds mu.
func (m *memory) put() {
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
func (m *memory) BeginCatchUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.catching++
	m.lane.Doubt(true)
}

// EndCatchUp ends one beginCatchUp.
func (m *memory) EndCatchUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.catching > 0 {
		m.catching--
	}
	if m.catching == 0 {
		m.lane.Doubt(false)
	}
}
