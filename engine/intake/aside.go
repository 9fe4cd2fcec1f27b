package intake

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/state/steps"
)

// Aside is a change that is not evaluated, because informd has died in its step again and again: an
// object as long as it has this version.
type Aside struct {
	Informer string    // the intake's ID
	Resource string    // as object.ResourceName writes it
	Object   delta.Key // its name
	Version  string    // its resourceVersion
	Deaths   int
	Since    time.Time
}

// Asides are the changes that the intakes of an engine have set aside. Its methods may be called at
// any time. The zero Asides has none.
type Asides struct {
	mu  sync.Mutex // guards all; a leaf
	all map[string]Aside
}

// All returns the changes that are set aside, in no order.
func (a *Asides) All() (all []Aside) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.all {
		all = append(all, one)
	}
	return all
}

func (a *Asides) add(one Aside) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[string]Aside)
	}
	a.all[one.Informer+" "+one.Object.String()] = one
}

func (a *Asides) remove(informer, key string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, informer+" "+key)
}

// careful is what the intakes of one informer know of the steps in which informd has died. The
// informer's lock guards it.
type careful struct {
	id       string       // the intakes' ID
	resource string       // as object.ResourceName writes it
	marks    *steps.Marks // nil: nothing is noted
	asides   *Asides
	store    *state.Store // nil: nothing is kept
	number   uint64       // of the informer
	slot     *steps.Slot
	suspects map[string]bool // keys of objects in whose steps informd has died
	clock    clock.PassiveClock
	held     map[string]*held // by key
}

// held is an object that was set aside at a version. It is kept until the object has another one.
type held struct {
	version string
	// isSkipped says that rules have not seen the object as the informer has it. Then last is what
	// they saw last, or nil.
	isSkipped bool
	last      *object.Object
	// isPart says that last is a part that another run has saved. inside has the IDs of the rules
	// that had it inside.
	isPart bool
	inside map[string]bool
}

// AsideNote is how the name of the note of a change that is set aside begins. It belongs to no
// rule.
const AsideNote = "aside "

// asideNote is the value of that note.
type asideNote struct {
	Informer string    `json:"informer"`
	Object   string    `json:"object"`
	Version  string    `json:"version"`
	Deaths   int       `json:"deaths"`
	Since    time.Time `json:"since"`
	// Over is when the object had another version, or somebody asked for the step. Then nothing is set
	// aside. The note stays, because replicas remember deaths before that, which do not count.
	Over time.Time `json:"over,omitzero"`
}

// begin notes the steps of an informer from now on.
func (c *careful) begin(id string, of schema.GroupVersionResource, o Options) {
	c.id, c.resource, c.number = id, object.ResourceName(of), steps.Number(id)
	c.marks, c.asides, c.store, c.clock = o.Steps, o.Asides, o.Store, o.Clock
	c.slot = c.marks.Slot(c.number, c.resource)
	for _, s := range c.marks.Suspects() {
		if s.Informer == c.number {
			if c.suspects == nil {
				c.suspects = make(map[string]bool)
			}
			c.suspects[s.Object] = true
		}
	}
}

// EndMarks notes no more steps. It is called when the informer hands over nothing more.
func (in *Intake) EndMarks() {
	in.line.careful.slot.Release()
	in.line.careful.slot = nil
}

// passed notes that a step is complete.
func (c *careful) passed(kind steps.Kind, key string) {
	c.slot.End()
	if c.suspects[key] {
		c.marks.Passed(c.number, key, kind)
	}
}

// isAside reports whether an object is set aside as it is.
func (c *careful) isAside(o *object.Object) bool {
	if len(c.held) == 0 {
		return false
	}
	h := c.held[o.Key()]
	return h != nil && h.version == o.ResourceVersion()
}

// ResumeAsides sets aside what was set aside before, and the deadly changes of the informer. notes
// are the values of all notes whose names begin with AsideNote. It returns the changes that are set
// aside only now. It is called within a cut, before any step.
func (in *Intake) ResumeAsides(notes [][]byte, deadly []steps.Suspect) (added []Aside) {
	c := &in.line.careful
	for _, value := range notes {
		var n asideNote
		if json.Unmarshal(value, &n) == nil && n.Informer == in.ID && n.Over.IsZero() {
			c.setAside(n)
		}
	}
	for _, s := range deadly {
		if s.Informer != c.number {
			continue
		}
		n := asideNote{
			Informer: in.ID, Object: s.Object, Version: s.Version, Deaths: s.Deaths,
			Since: in.options.Clock.Now(),
		}
		c.setAside(n)
		c.record(n)
		added = append(added, c.asideOf(n))
	}
	return added
}

// Settles reports whether a note, by its value, says what became of a suspect.
func Settles(value []byte, s steps.Suspect) bool {
	var n asideNote
	return json.Unmarshal(value, &n) == nil && steps.Number(n.Informer) == s.Informer &&
		n.Object == s.Object && !s.At.After(later(n.Since, n.Over))
}

// IsNeeded reports whether a note, by its value, is of use: it is about one of these informers, and
// something is set aside, or was until a short time ago.
func IsNeeded(value []byte, informers []string, now time.Time) bool {
	var n asideNote
	return json.Unmarshal(value, &n) == nil && slices.Contains(informers, n.Informer) &&
		(n.Over.IsZero() || now.Sub(n.Over) <= steps.Forgotten)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (c *careful) asideOf(n asideNote) Aside {
	return Aside{
		Informer: c.id, Resource: c.resource, Object: delta.ParseKey(n.Object), Version: n.Version,
		Deaths: n.Deaths, Since: n.Since,
	}
}

// setAside sets a change aside.
func (c *careful) setAside(n asideNote) {
	if c.held == nil {
		c.held = make(map[string]*held)
	}
	c.held[n.Object] = &held{version: n.Version}
	c.asides.add(c.asideOf(n))
}

// record records that a change is set aside, or was until now, within a cut.
func (c *careful) record(n asideNote) {
	if value, err := json.Marshal(n); err == nil && c.store != nil {
		c.store.PutNote(state.Note{Name: c.note(n.Object), Value: value})
	}
}

// note returns the name of an object's note.
func (c *careful) note(key string) string { return AsideNote + c.id + " " + key }

// forget forgets an object that was set aside, and records that.
func (c *careful) forget(key, version string) {
	delete(c.held, key)
	c.asides.remove(c.id, key)
	if c.store != nil {
		c.store.Begin()
		defer c.store.End()
		c.record(asideNote{Informer: c.id, Object: key, Version: version, Over: c.clock.Now()})
	}
}

// sift decides about the step of an object that was set aside. If goesOn is false, the step was
// taken, and nothing evaluated. Otherwise the step goes on as it is returned, from the state that
// rules saw last. If part is not nil, that is only a part.
func (in *Intake) sift(s source.Step) (_ source.Step, part *held, goesOn bool) {
	c := &in.line.careful
	key := s.Delta.Object.Key()
	h := c.held[key]
	isGone := s.Delta.Type == delta.Deleted
	switch {
	case h == nil:
		return s, nil, true
	case s.Delta.Object.ResourceVersion() == h.version && !isGone:
		in.skip(s, h)
		return s, nil, false
	}
	c.forget(key, h.version) // before the step: the server does not have that version any more
	switch {
	case !h.isSkipped:
		if isGone && s.Delta.Object.ResourceVersion() == h.version { // informd has died of this step
			in.commitUnseen(s)
			return s, nil, false
		}
		return s, nil, true
	case h.last == nil && isGone: // no rule has seen it
		in.commitUnseen(s)
		return s, nil, false
	}
	return h.follow(s, isGone)
}

// follow returns a step as it follows the state that rules saw last.
func (h *held) follow(s source.Step, isGone bool) (_ source.Step, part *held, goesOn bool) {
	switch {
	case isGone:
		s.Delta.Object, s.Delta.Old, s.Tree, s.Saved = h.last, h.last, nil, nil
	case h.last == nil:
		s.Delta.Type, s.Delta.Old = delta.Added, nil
	case !h.isPart:
		s.Delta.Type, s.Delta.Old = delta.Updated, h.last
	default:
		s.Delta.Type, s.Delta.Old = delta.Synced, nil
	}
	if h.isPart {
		return s, h, true
	}
	return s, nil, true
}

// skip takes a step without evaluating it.
func (in *Intake) skip(s source.Step, h *held) {
	if s.Round != nil {
		return
	}
	if !h.isSkipped {
		h.isSkipped, h.last = true, s.Before()
		if s.Saved != nil {
			h.last, h.isPart, h.inside = s.Saved, true, make(map[string]bool)
			for i, r := range in.Rules {
				h.inside[r.ID] = in.learns.resuming != nil && in.learns.resuming.before(i, s.Saved).Inside
			}
		}
	}
	s.Delta.Object = nil
	in.commitUnseen(s)
}

// commitUnseen records what is left of a step that is not evaluated. Its object is gone, or nil.
func (j *judge) commitUnseen(s source.Step) {
	c := j.sinks.begin()
	j.line.careful.move(s, c)
	c.Gone = s.Delta.Object
	j.sinks.commit(c, nil)
}

// move adds the position after a step to change. While a change is set aside, the next run has to
// list: otherwise it would not get that change again.
func (c *careful) move(s source.Step, change *evaluate.Change) {
	change.Moved, change.Position = s.Moved, s.Position
	if len(c.held) > 0 {
		change.Position = ""
	}
}

// fromPart adds to c what rules see of an object of which they saw a part last.
func (j *judge) fromPart(s evaluate.Step, h *held, c *evaluate.Change) {
	defer j.evaluator.Forget()
	j.evaluator.Remember(s.Delta.Object, s.Tree)
	for i, r := range j.Rules {
		if j.standing(i).Deaf {
			continue
		}
		before := evaluate.Before{Object: h.last, Inside: h.inside[r.ID]}
		switch {
		case s.Delta.Type != delta.Deleted:
			j.evaluator.Compare(i, before, s, j.learns.isSecret, c)
		case before.Inside:
			j.evaluator.Depart(i, h.last, s.Now, j.learns.isSecret, c)
		}
	}
}

// RetryAside has the step of an object evaluated that was set aside. get is that of Look. It
// returns false if the object is not set aside. It is called between two steps.
func (in *Intake) RetryAside(key string, get func(key string) *object.Object) bool {
	c := &in.line.careful
	h := c.held[key]
	if h == nil {
		return false
	}
	delete(c.held, key)
	if o := get(key); o != nil && h.isSkipped && o.ResourceVersion() == h.version {
		in.retry(o, h) // if informd dies of it, the change is still set aside on disk
	}
	c.marks.Passed(c.number, key, 0)
	c.forget(key, h.version)
	return true
}

// retry has the step of an object evaluated that rules have not seen as it is.
func (in *Intake) retry(o *object.Object, h *held) {
	s := source.Step{Delta: delta.Delta{Type: delta.Updated, Object: o, Old: h.last}}
	if h.last == nil {
		s.Delta.Type = delta.Added
	}
	var part *held
	if h.isPart {
		s.Delta.Type, s.Delta.Old, part = delta.Synced, nil, h
	}
	in.take(s, part)
}

// Asides returns the keys of the objects that are set aside. It may be called at any time.
func (in *Intake) Asides() (keys []string) {
	in.Look(func(is *Intake, _ func(string) *object.Object) {
		for key := range is.line.careful.held {
			keys = append(keys, key)
		}
	})
	return keys
}
