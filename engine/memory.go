package engine

import (
	"maps"
	"sync"

	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/state"
)

// memory is what the state keeps of a rule beside its deliveries: which informers it has seen, and
// whether it is paused. Without a store it only remembers.
type memory struct {
	store *state.Store // nil: nothing is kept
	rule  string
	// resource and where are those of the rule as it is now.
	resource, where string

	mu       sync.Mutex        // guards what follows; taken within the state's cut, before the lane's locks
	seen     map[string]string // the rule's where when it was told of an informer's objects, by informer
	paused   bool
	asked    bool // an operator has paused or resumed the rule in this run
	isLoaded bool // what was saved of the rule was loaded: before that, nothing may be written over it
	catching int  // informers that have not caught up with what was saved
}

// load takes in whether the rule was paused when it was saved. An operator who has said otherwise since
// the start has the last word.
func (m *memory) load(paused bool, lane *dispatch.Lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.asked && paused {
		m.paused = true
		lane.Pause()
	}
}

// loaded records the rule for the first time in this run. It is called within a cut.
func (m *memory) loaded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isLoaded = true
	m.put()
}

// see records that the rule, as it is now, has been told of an informer's objects. It is called within
// a cut.
func (m *memory) see(informer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(informer, m.where)
	m.put()
}

// know takes in what the rule's where was when it saw the informer's objects. The rule has not been
// told yet what is different, so nothing is recorded.
func (m *memory) know(informer, where string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(informer, where)
}

// remember is called with mu held.
func (m *memory) remember(informer, where string) {
	if m.seen == nil {
		m.seen = make(map[string]string)
	}
	m.seen[informer] = where
}

// pause pauses or resumes the rule's lane, and records it. It is called within a cut.
func (m *memory) pause(paused bool, lane *dispatch.Lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if paused {
		lane.Pause()
	} else {
		lane.Resume()
	}
	m.asked, m.paused = true, paused
	if m.isLoaded { // else loaded will record it
		m.put()
	}
}

// put records the rule. It is called with mu held.
func (m *memory) put() {
	if m.store != nil {
		m.store.PutRule(state.RuleMemory{Name: m.rule, Resource: m.resource, Seen: maps.Clone(m.seen), Paused: m.paused})
	}
}

// beginCatchUp notes that an informer has to catch up with what was saved. Until it has, the lane must
// not merge what it is offered as if nobody had been told of it: the last process may have delivered
// the same, and have been killed before that was recorded.
func (m *memory) beginCatchUp(lane *dispatch.Lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.catching++
	lane.Doubt(true)
}

// endCatchUp ends one beginCatchUp.
func (m *memory) endCatchUp(lane *dispatch.Lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.catching > 0 {
		m.catching--
	}
	if m.catching == 0 {
		lane.Doubt(false)
	}
}
