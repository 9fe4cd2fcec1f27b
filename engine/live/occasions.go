package live

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/state"
)

// A rule may receive an object again that has not changed: after its where or its selection has
// changed, when a resource that was withdrawn comes back, or when somebody asks for a resync. Each
// of these is an occasion. The occasions of a rule are numbered, and ids of its events have the
// number: see [delta.Delta.ID]. A rule begins with 0, which ids leave out.
//
// The state keeps the number with what it counts for. So if a change of the plan is carried out
// once more after a crash, its events have the same ids. A new rule begins with a number that no
// rule of its name has used, in case there was one: its floor.
//
// The moments of a rule without a source are the same in every replica. So only its resyncs are
// numbered.

// occasions are what the state notes of a rule's occasions.
type occasions struct {
	Now  uint32 `json:"now,omitempty"`  // the number that ids have
	Last uint32 `json:"last,omitempty"` // the highest number that was used
	Of   string `json:"of"`             // what Now counts for: see occasionOf
}

// OccasionNote is the name of the note of a rule's occasions, and of the floor.
const OccasionNote = "occasion"

// occasionOf returns a hash of everything that decides over a rule's members, and of its name.
func occasionOf(r *Rule) string {
	informers := make([]string, 0, len(r.Source.Informers))
	for _, planned := range r.Source.Informers {
		informers = append(informers, resume.InformerID(planned.Selection, planned.Fixed != nil))
	}
	slices.Sort(informers)
	sum := fnv.New64a()
	for _, text := range append([]string{r.Name, r.Membership()}, informers...) {
		fmt.Fprintf(sum, "%d %s", len(text), text)
	}
	return fmt.Sprintf("%x", sum.Sum64())
}

// isAlone reports whether the rule has no source.
func (r *Rule) isAlone() bool {
	return len(r.Source.Informers) == 1 && r.Source.Informers[0].Fixed != nil
}

// Stamp gives a delta the occasion on which the rule receives it, unless it has one.
func (r *Rule) Stamp(d *delta.Delta) {
	if d.Occasion == 0 {
		d.Occasion = r.Occasion.Load()
	}
}

// BeginFirst gives a new rule its first occasion. floor is the least number that it may have. It
// records nothing: NoteOccasions does.
func (r *Rule) BeginFirst(floor uint32) {
	all := occasions{Now: floor, Last: floor, Of: occasionOf(r)}
	if r.isAlone() {
		all.Now = 0
	}
	r.Memory.mu.Lock()
	defer r.Memory.mu.Unlock()
	r.Memory.occasions = all
	r.Occasion.Store(all.Now)
}

// ResumeOccasions makes the rule go on with the occasions in a note of the run before. If the rule
// had other members then, it begins another one, of which floor is the least number. A note of an
// earlier informd does not say that; wasSame does. ResumeOccasions is called within a cut.
func (r *Rule) ResumeOccasions(note []byte, floor uint32, wasSame func() bool) {
	was, of := parseOccasions(note), occasionOf(r)
	isSame := was.Of == of
	if was.Of == "" { // an earlier informd wrote the state
		isSame, was.Of = wasSame(), of
	}
	r.Memory.mu.Lock()
	r.Memory.occasions = was
	r.Memory.putOccasions()
	r.Memory.mu.Unlock()
	if r.Occasion.Store(was.Now); !isSame {
		r.Anew(floor)
	}
}

// SucceedOccasions makes the rule go on with the occasion of the rule before it. If that had other
// members, the rule begins another one, of which floor is the least number. It is called within a
// cut.
func (r *Rule) SucceedOccasions(floor uint32) {
	if occasionOf(r) == occasionOf(r.Before) {
		r.Occasion = r.Before.Occasion
		return
	}
	r.Anew(floor)
}

// parseOccasions reads a note of a rule. What cannot be read counts as none.
func parseOccasions(note []byte) (all occasions) {
	_ = json.Unmarshal(note, &all)
	return all
}

// LastOccasionIn returns the highest number in a note of a rule's occasions.
func LastOccasionIn(note []byte) uint32 { return parseOccasions(note).Last }

// Anew begins another occasion for the rule, with a number of at least floor. It is called within a
// cut.
func (r *Rule) Anew(floor uint32) {
	n := r.Memory.Draw(floor)
	if r.isAlone() {
		n = 0
	}
	r.Occasion.Store(n)
	r.Memory.begin(n, occasionOf(r))
}

// Draw returns a number that the rule has not used, and that is not below floor. It is called
// within a cut.
func (m *Memory) Draw(floor uint32) uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.occasions.Last = max(m.occasions.Last+1, floor)
	m.putOccasions()
	return m.occasions.Last
}

// begin records that the rule's occasion is n from now on. It is called within a cut.
func (m *Memory) begin(n uint32, of string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.occasions.Now, m.occasions.Of = n, of
	m.putOccasions()
}

// NoteOccasions records the occasions. It is called within a cut.
func (m *Memory) NoteOccasions() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.putOccasions()
}

// putOccasions records the occasions. The caller holds mu.
func (m *Memory) putOccasions() {
	value, err := json.Marshal(m.occasions)
	if err == nil && m.store != nil && !m.isGone {
		m.store.PutNote(state.Note{Rule: m.id, Name: OccasionNote, Value: value})
	}
}

// LastOccasion returns the highest number that the rule has used.
func (m *Memory) LastOccasion() uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.occasions.Last
}
