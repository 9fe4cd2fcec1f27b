package engine

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/state"
)

// A rule may receive an object again that has not changed: after its where or its selection has
// changed, when a resource that was withdrawn comes back, or when somebody asks for a resync. Each of
// these is an occasion. The occasions of a rule are numbered, and ids of its events have the number:
// see [delta.Delta.ID]. A rule begins with 0, which ids leave out.
//
// The state keeps the number with what it counts for. So if a change of the plan is carried out once
// more after a crash, its events have the same ids. A new rule begins with a number that no rule of
// its name has used, in case there was one: see Engine.floor.
//
// The moments of a rule without a source are the same in every replica. So only its resyncs are
// numbered.

// occasions are what the state notes of a rule's occasions.
type occasions struct {
	Now  uint32 `json:"now,omitempty"`  // the number that ids have
	Last uint32 `json:"last,omitempty"` // the highest number that was used
	Of   string `json:"of"`             // what Now counts for: see occasionOf
}

const (
	occasionNote = "occasion" // of a rule, or of noRule: the floor
	noRule       = ""
)

// occasionOf returns a hash of everything that decides over a rule's members, and of its name.
func occasionOf(r *runningRule) string {
	informers := make([]string, 0, len(r.Source.Informers))
	for _, planned := range r.Source.Informers {
		informers = append(informers, informerID(planned))
	}
	slices.Sort(informers)
	sum := fnv.New64a()
	for _, text := range append([]string{r.Name, r.membership()}, informers...) {
		fmt.Fprintf(sum, "%d %s", len(text), text)
	}
	return fmt.Sprintf("%x", sum.Sum64())
}

// isAlone reports whether the rule has no source.
func (r *runningRule) isAlone() bool {
	return len(r.Source.Informers) == 1 && r.Source.Informers[0].Fixed != nil
}

// stamp gives a delta the occasion on which the rule receives it, unless it has one.
func (r *runningRule) stamp(d *delta.Delta) {
	if d.Occasion == 0 {
		d.Occasion = r.occasion.Load()
	}
}

// first returns the occasions of a new rule. floor is the least number that they may have.
func (r *runningRule) first(floor uint32) occasions {
	all := occasions{Now: floor, Last: floor, Of: occasionOf(r)}
	if r.isAlone() {
		all.Now = 0
	}
	return all
}

// anew begins another occasion for a rule. floor is the least number that it may have. It is called
// within a cut.
func (r *runningRule) anew(floor uint32) {
	n := r.memory.draw(floor)
	if r.isAlone() {
		n = 0
	}
	r.occasion.Store(n)
	r.memory.begin(n, occasionOf(r))
}

// draw returns a number that the rule has not used, and that is not below floor. It is called within
// a cut.
func (m *memory) draw(floor uint32) uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.occasions.Last = max(m.occasions.Last+1, floor)
	m.putOccasions()
	return m.occasions.Last
}

// begin records that the rule's occasion is n from now on. It is called within a cut.
func (m *memory) begin(n uint32, of string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.occasions.Now, m.occasions.Of = n, of
	m.putOccasions()
}

// takeUp records these occasions as the rule's. It is called within a cut.
func (m *memory) takeUp(all occasions) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.occasions = all
	m.putOccasions()
}

// putOccasions records the occasions. The caller holds mu.
func (m *memory) putOccasions() {
	value, err := json.Marshal(m.occasions)
	if err == nil && m.store != nil && !m.isGone {
		m.store.PutNote(state.Note{Rule: m.id, Name: occasionNote, Value: value})
	}
}

// lastOccasion returns the highest number that the rule has used.
func (m *memory) lastOccasion() uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.occasions.Last
}

// raise makes the floor exceed the numbers of a rule that is gone, or has another name now. Another
// rule may get that name. It is called within a cut.
func (e *Engine) raise(last uint32) {
	if last < e.floor {
		return
	}
	e.floor = last + 1
	if value, err := json.Marshal(e.floor); err == nil && e.store != nil {
		e.store.PutNote(state.Note{Rule: noRule, Name: occasionNote, Value: value})
	}
}

// resumeOccasions restores the occasions of the run before.
func (e *Engine) resumeOccasions(from loaded) {
	defer e.begin()()
	_ = json.Unmarshal(from.occasions[noRule], &e.floor) // which leaves 0 if there is none
	saved := make(map[string]occasions)
	for id := range from.rules {
		var all occasions
		_ = json.Unmarshal(from.occasions[id], &all)
		saved[id] = all
	}
	for _, gone := range from.decision.Gone {
		e.raise(saved[gone.Name].Last)
	}
	isSaved := func(r *runningRule) bool {
		was, ok := from.rules[r.id]
		return ok && was.Resource == r.resource() // otherwise its records were dropped
	}
	for _, r := range e.work().rules {
		if isSaved(r) && from.rules[r.id].Name != r.Name {
			e.raise(saved[r.id].Last)
		}
	}
	planned := make(map[string]resume.Memory)
	for _, m := range e.planned() {
		planned[m.Name] = m
	}
	for _, r := range e.work().rules {
		if !isSaved(r) {
			all := r.first(e.floor)
			r.memory.takeUp(all)
			r.occasion.Store(all.Now)
			continue
		}
		was, of := saved[r.id], occasionOf(r)
		isSame := was.Of == of
		if was.Of == "" { // an earlier informd wrote the state
			known := from.rules[r.id]
			isSame = known.Name == r.Name && maps.Equal(known.Seen, planned[r.id].Seen)
			was.Of = of
		}
		r.memory.takeUp(was)
		if r.occasion.Store(was.Now); !isSame {
			r.anew(e.floor)
		}
	}
}

// takeOccasions gives the rules of the next plan their occasions, before any of them is at work.
func (r *reload) takeOccasions() {
	defer r.Engine.begin()()
	for _, old := range r.gone {
		r.raise(old.memory.lastOccasion())
	}
	for _, rule := range r.next.rules {
		if rule.before != nil && rule.before.Name != rule.Name {
			r.raise(rule.memory.lastOccasion())
		}
	}
	for _, rule := range r.next.rules {
		switch {
		case slices.Contains(r.before.rules, rule):
		case rule.before == nil:
			rule.memory.occasions = rule.first(r.floor) // which introduce records
			rule.occasion.Store(rule.memory.occasions.Now)
		case occasionOf(rule) == occasionOf(rule.before):
			rule.occasion = rule.before.occasion
		default:
			rule.anew(r.floor)
		}
	}
}

// comeAnew begins another occasion for all rules of the intake: its objects count as deleted, and
// may come back as they are.
func (in *intake) comeAnew() {
	defer in.record.begin()()
	for _, r := range in.rules {
		r.anew(0)
	}
}
