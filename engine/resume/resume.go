// Package resume decides what a cut means for a plan: what each rule knows of each informer's
// objects, and what the rule must learn before it follows them.
//
// A restart resumes from the state directory. The decision is a pure function of the cut and the
// plan, and the engine carries it out. The package knows neither the state nor the informers.
package resume

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// Standing is how a rule of the plan relates to an informer's objects in the cut.
type Standing uint8

const (
	// New rules have never seen the informer. They see every object inside, as Synced.
	New Standing = iota
	// Known rules have seen the objects with their present where. They see only later changes.
	Known
	// Changed rules have seen the objects with another where. They see the difference: objects that
	// come in as Synced, and objects that fall out as Deleted.
	Changed
)

// Memory is what a rule remembers of informers. In a cut these are the informers that it has seen,
// in a plan those that it is to see.
type Memory struct {
	Name     string
	Resource string // VERSION/RESOURCE or GROUP/VERSION/RESOURCE of its source
	// Seen maps each informer to the text of the rule's where when the rule saw the informer's
	// objects. In a plan it is the present where. "" means no where. See [Text].
	Seen map[string]string
}

// Cut holds the records that matter to the decision.
type Cut struct {
	Rules     map[string]Memory // by name
	Informers []string
}

// Decision is what a cut means for a plan.
type Decision struct {
	// Gone are the rules of the cut whose deliveries and records are to be dropped, sorted by name.
	Gone []Gone
	// Unwatched are the informers of the cut that no source uses any more. A rule may have left
	// one: see [Decision.Left].
	Unwatched []string

	planned map[string]Memory
	cut     map[string]Memory
}

// Gone is a rule of the cut that does not continue in the plan.
type Gone struct {
	Name string
	// Replaced says that the plan has a rule of this name for another resource.
	Replaced bool
}

// Decide compares a cut with a plan. planned are the plan's rules, and informers are the ids of its
// informers.
func Decide(planned []Memory, informers []string, cut Cut) Decision {
	d := Decision{planned: make(map[string]Memory, len(planned)), cut: maps.Clone(cut.Rules)}
	for _, r := range planned {
		d.planned[r.Name] = r
	}
	for _, name := range slices.Sorted(maps.Keys(cut.Rules)) {
		r, ok := d.planned[name]
		if ok && r.Resource == cut.Rules[name].Resource {
			continue
		}
		d.Gone = append(d.Gone, Gone{Name: name, Replaced: ok})
		delete(d.cut, name)
	}
	for _, id := range cut.Informers {
		if !slices.Contains(informers, id) {
			d.Unwatched = append(d.Unwatched, id)
		}
	}
	return d
}

// Verdict is what a rule knows of an informer's objects in the cut.
type Verdict struct {
	Standing Standing
	// Before returns which objects of the cut the rule had inside. A New rule had none.
	Before Membership
	// Where is the text of the where by which the rule had them inside. Recorded says that the cut
	// has such a text. That may be so even for a New rule, if the recorded where does not compile.
	Where    string
	Recorded bool
}

// At returns the verdict on a rule of the plan and an informer of its source.
func (d Decision) At(rule, informer string) Verdict {
	where, seen := d.cut[rule].Seen[informer]
	if !seen {
		return Verdict{Standing: New}
	}
	before, err := membershipOf(rule, where)
	switch {
	case err != nil: // written in another version's language: unknown what was inside
		return Verdict{Standing: New, Where: where, Recorded: true}
	case where == d.planned[rule].Seen[informer]:
		return Verdict{Standing: Known, Before: before, Where: where, Recorded: true}
	}
	return Verdict{Standing: Changed, Before: before, Where: where, Recorded: true}
}

// Left returns the informers of the cut that a rule of the plan has seen and will not see again,
// because its source watches another selection now. Of those it returns which objects the rule had
// inside. Their Standing has no meaning.
func (d Decision) Left(rule string) map[string]Verdict {
	left := make(map[string]Verdict)
	for informer, where := range d.cut[rule].Seen {
		if _, stays := d.planned[rule].Seen[informer]; stays {
			continue
		}
		if before, err := membershipOf(rule, where); err == nil {
			left[informer] = Verdict{Before: before, Where: where, Recorded: true}
		}
	}
	return left
}

// Membership answers which objects of a cut a rule had inside. The zero Membership has none.
type Membership struct {
	rule string
	// any of these made a member
	by   []condition
	seen bool
}

// condition is a where and a due. nil means every object, and at once.
type condition struct{ where, due *expr.Program }

// Text returns the text of a where and of a due, each "" if there is none, as Memory.Seen has it.
// Membership depends on both. How long a rule waits is not part of it.
func Text(where, due string) string {
	if due == "" {
		return where
	}
	return where + "\x00" + due
}

// These separate the texts of a rule that was catching up.
const (
	either  = "\x01" // between what the rule had seen, and what it is to see
	nothing = "\x02" // before what it is to see, if it had seen nothing
)

// CatchingUp returns the text for a rule that is to see an informer's objects with the text now, until
// it has seen all: a run that ends before that leaves some objects of which the rule has learned, and
// others of which it has not. So it may have had any object inside that satisfies the where before or
// the one now. hasSeen says that it saw them with the text was.
func CatchingUp(was string, hasSeen bool, now string) string {
	switch {
	case !hasSeen:
		return nothing + now
	case was == now:
		return nothing + was
	case slices.Contains(strings.Split(strings.TrimPrefix(was, nothing), either), now):
		return was
	}
	return was + either + now
}

// Leaving returns the text for a rule that has left an informer of which it saw the objects with the
// text was, from when it begins to learn that until it has learned all. A rule that returns before that
// has Changed: of some objects it has learned that they are gone.
func Leaving(was string) string {
	if strings.HasPrefix(was, nothing) {
		return was
	}
	return nothing + was
}

func membershipOf(rule, text string) (m Membership, err error) {
	m = Membership{rule: rule, seen: true}
	for text := range strings.SplitSeq(strings.TrimPrefix(text, nothing), either) {
		where, due, _ := strings.Cut(text, "\x00")
		var c condition
		if where != "" {
			if c.where, err = expr.Compile(where, expr.Options{Scope: expr.Where}); err != nil {
				return Membership{}, err
			}
		}
		if due != "" {
			if c.due, err = expr.Compile(due, expr.Options{Scope: expr.Due}); err != nil {
				return Membership{}, err
			}
		}
		m.by = append(m.by, c)
	}
	return m, nil
}

// Mark is that an object waits to become a member of a timed rule.
type Mark struct {
	Rule string
	At   time.Time // see [rule.Rule.IsTimed]; in milliseconds
}

// String returns the mark as it is recorded beside an object. It is no valid name of a rule.
func (m Mark) String() string { return fmt.Sprintf("@%d %s", m.At.UnixMilli(), m.Rule) }

// ReadMark returns the mark that a name recorded beside an object stands for, if it is one.
func ReadMark(name string) (m Mark, ok bool) {
	text, isMark := strings.CutPrefix(name, "@")
	at, rule, isWhole := strings.Cut(text, " ")
	n, err := strconv.ParseInt(at, 10, 64)
	if !isMark || !isWhole || err != nil {
		return Mark{}, false
	}
	return Mark{Rule: rule, At: time.UnixMilli(n)}, true
}

// Missed returns a mark for a rule that has not seen an object's latest change. The mark is
// recorded beside the object's identity, with the names of the rules that have the object inside.
// It is no valid name of a rule.
func Missed(rule string) string { return "?" + rule }

// HasMissed reports whether names, as recorded beside an object, contain the mark of this rule: see
// [Missed].
func (m Membership) HasMissed(names []string) bool {
	return m.seen && slices.Contains(names, Missed(m.rule))
}

// Seen reports whether the rule had seen the informer's objects.
func (m Membership) Seen() bool { return m.seen }

// Has reports whether the rule had an object of the cut inside. If the cut holds only identities
// (isIdentity), names must be the names recorded beside the object. Names also say which rules the
// object waits for.
func (m Membership) Has(o *object.Object, isIdentity bool, names []string) bool {
	if !m.seen || m.waits(names) {
		return false
	}
	for _, c := range m.by {
		if c.where == nil && c.due == nil {
			return true
		}
	}
	if isIdentity {
		return slices.Contains(names, m.rule)
	}
	return slices.ContainsFunc(m.by, func(c condition) bool { return c.holds(o) })
}

// holds reports whether an object satisfies the condition. An expression that fails does not match.
func (c condition) holds(o *object.Object) bool {
	if c.where != nil {
		inside, _ := c.where.Bool(&expr.Env{Object: o.Decode(c.where.Paths())})
		if !inside || c.due == nil {
			return inside
		}
	}
	_, isDue, _ := c.due.Time(&expr.Env{Object: o.Decode(c.due.Paths())})
	return isDue
}

// waits reports whether names say that the object waits for the rule.
func (m Membership) waits(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		mark, ok := ReadMark(name)
		return ok && mark.Rule == m.rule
	})
}
