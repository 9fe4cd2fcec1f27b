// Package follow holds what rules still have to learn of an informer's objects before they follow
// them: as values, without the rules, the informer and the state.
//
// A rule's [Knowledge] is what it knew before: which objects it had inside, and as of which state.
// A [CatchUp] is rules with their knowledge, and the keys of the objects that are left. Each object
// has one turn, in which the rules learn the difference between what they knew and what is so now.
// A step that comes before an object's turn is its turn. Later steps are like those of any other
// rule.
//
// Everything that makes a rule miss steps is a row of this table:
//
//	what happens                             the rule knew                begins when
//	------------                             -------------                -----------
//	a restart, with another where            Now, by the cut              the first step; turns begin
//	                                                                        once the informer settles
//	the same, with only parts of objects     Cut                          the informer has caught up
//	  in the cut
//	a restart, with a new rule               nothing                      the informer has caught up
//	a restart or a reload: the source        Inside, of the informers     the informer has caught up
//	  watches another selection                that the rule has left
//	a reload, with another where             Now, by the intake before    the intake takes over
//	a reload, with a new rule                nothing                      the intake takes over
//	a start or a reload, with a new          nothing                      never: the first list comes
//	  informer                                                              as steps
//	either, with another selection, of       Now, here, and Inside, of    the informer has caught up
//	  a rule that follows the informer         what it has left
//	a source that the rule looks into        nothing, or Inside           that source has settled
//	  settles late
//	a resync, or a moment of a schedule      Now, by the rule itself      at once: a round
//	another name, handler, when or payload   Now, by the rule itself      never
//
// The last two rows, and a new informer, are no catch-ups. In a round a rule learns what it knows:
// each object has a turn as well, but its step before that is not its turn. A rule of another name
// has nothing to learn, so nothing walks its objects: its records are found by an id that it keeps.
//
// Rules that know only parts of objects are the exception to turns. A part cannot be delivered, and
// expressions may read what it lacks, so such rules take no step before the informer has caught up.
// Until they have learned all, the cut with the parts must stay on disk, and what is new is held in
// memory: new states do not show what the rules had inside. So they learn all at once, to end that
// soon.
package follow

import (
	"iter"
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
)

// Knowledge is what a rule knew of an informer's objects before it follows them.
type Knowledge interface {
	// Before returns the object of a key as the rule saw it last; the zero Before if the rule did
	// not know it. last is the object as the informer had it last, or nil if the informer does not
	// know it.
	Before(key delta.Key, last *object.Object) evaluate.Before
}

// Cut is what a rule knew of the objects in a cut.
type Cut struct {
	Objects map[delta.Key]*object.Object
	Has     func(*object.Object) bool // whether the rule had an object of the cut inside
}

// Before implements Knowledge.
func (c Cut) Before(key delta.Key, _ *object.Object) evaluate.Before {
	o := c.Objects[key]
	if o == nil {
		return evaluate.Before{}
	}
	return evaluate.Before{Object: o, Inside: c.Has(o)}
}

// Inside is what a rule had inside elsewhere, in informers that it has left, as it saw that last. A
// nil Inside is empty.
type Inside struct {
	Objects map[delta.Key]*object.Object
}

// Before implements Knowledge.
func (i *Inside) Before(key delta.Key, _ *object.Object) evaluate.Before {
	if i == nil {
		return evaluate.Before{}
	}
	o := i.Objects[key]
	return evaluate.Before{Object: o, Inside: o != nil}
}

// Now is what a rule knew that has followed the informer until now.
type Now struct {
	Has func(*object.Object) bool // whether the rule had an object inside, as it is now
}

// Before implements Knowledge.
func (n Now) Before(_ delta.Key, last *object.Object) evaluate.Before {
	if last == nil {
		return evaluate.Before{}
	}
	return evaluate.Before{Object: last, Inside: n.Has(last)}
}

// Pupil is a rule that catches up.
type Pupil struct {
	Rule int // its index in the informer's intake
	// Knew is what it knew; nil is nothing.
	Knew Knowledge
}

// Before returns an object as the rule saw it last, here or in an informer that it has left. See
// Knowledge.
func (p Pupil) Before(
	key delta.Key, last *object.Object, left *Inside,
) evaluate.Before {
	if before := left.Before(key, last); before.Object != nil {
		return before
	}
	if p.Knew == nil {
		return evaluate.Before{}
	}
	return p.Knew.Before(key, last)
}

// Departed returns an object that the rule had inside in an informer that it has left, and that has
// ceased to be inside; nil if there is none. The rule follows this informer: it Knew what it has
// inside here. See Knowledge.
func (p Pupil) Departed(key delta.Key, last *object.Object, left *Inside) *object.Object {
	before := left.Before(key, last)
	if before.Object == nil || p.Knew.Before(key, last).Inside {
		return nil
	}
	return before.Object
}

// CatchUp is rules that catch up together, and the objects whose turn has not come: those that the
// informer knew when it began, and keys that were added. It is not safe for concurrent use.
//
// There may be a million known objects, and a set of them takes long to make. So a CatchUp only
// notes which objects have had their turn: every other one that the informer knows still has it to
// come. An object that is new to the informer needs no turn, so the caller must report it: see
// Came.
type CatchUp struct {
	Pupils []Pupil
	rules  map[int]struct{}
	isAll  bool                // it began with all objects that the informer knew
	known  []*object.Object    // of these, in the order of their turns; some may have had theirs
	keys   []string            // that were added; their turns come after the others
	added  map[string]struct{} // as a set
	had    map[string]struct{} // that have had their turn, or need none
}

// New returns a CatchUp in which known objects have their turns in this order. They are all that
// the informer knows; nil if it is about added keys only.
func New(pupils []Pupil, known iter.Seq[*object.Object]) *CatchUp {
	c := &CatchUp{
		Pupils: pupils, rules: make(map[int]struct{}),
		added: make(map[string]struct{}), had: make(map[string]struct{}),
	}
	for _, p := range pupils {
		c.rules[p.Rule] = struct{}{}
	}
	if known != nil {
		c.isAll, c.known = true, slices.Collect(known)
	}
	return c
}

// Add gives keys a turn, behind all others. A key that waits for its turn keeps its place. Add is
// called before the first turn.
func (c *CatchUp) Add(keys iter.Seq[string]) {
	for key := range keys {
		if _, isAdded := c.added[key]; !isAdded {
			c.keys = append(c.keys, key)
			c.added[key] = struct{}{}
		}
	}
}

// Renumber changes the indexes of the rules.
func (c *CatchUp) Renumber(to func(rule int) int) {
	clear(c.rules)
	for i := range c.Pupils {
		p := &c.Pupils[i]
		p.Rule = to(p.Rule)
		c.rules[p.Rule] = struct{}{}
	}
}

// Has reports whether a rule catches up here.
func (c *CatchUp) Has(rule int) bool {
	_, has := c.rules[rule]
	return has
}

// Came notes that an object is new to the informer. The object needs no turn, unless its key was
// added.
func (c *CatchUp) Came(key string) {
	if _, isAdded := c.added[key]; !isAdded {
		c.had[key] = struct{}{}
	}
}

// Owes reports whether a key still has its turn to come. The key must be one that was added, or of
// an object that the informer knows or has known since the catch-up began.
func (c *CatchUp) Owes(key string) bool {
	if _, had := c.had[key]; had {
		return false
	}
	_, isAdded := c.added[key]
	return c.isAll || isAdded
}

// Took says that a key has had its turn.
func (c *CatchUp) Took(key string) { c.had[key] = struct{}{} }

// Next returns the key whose turn it is, and takes that. ok is false if none is left.
func (c *CatchUp) Next() (key string, ok bool) {
	for {
		switch {
		case len(c.known) > 0:
			key = c.known[0].Key()
			c.known[0] = nil // frees the object, if the informer has dropped it
			c.known = c.known[1:]
		case len(c.keys) > 0:
			key, c.keys = c.keys[0], c.keys[1:]
		default:
			return "", false
		}
		if c.Owes(key) {
			c.Took(key)
			return key, true
		}
	}
}
