// Package resume decides what a cut means for a plan: what each rule knows of each informer's objects,
// and what it has to be told before it follows them.
//
// A restart resumes from the state directory. The decision is a pure function of what was recorded and
// of the plan; the engine carries it out. It knows neither the state nor the informers.
package resume

import (
	"maps"
	"slices"
	"strconv"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// Standing is how a rule of the plan stands to an informer's objects in the cut.
type Standing uint8

const (
	// New rules have never seen the informer: they are told of every object inside, as Synced.
	New Standing = iota
	// Known rules have seen the objects with the where that they have now: they are told of what
	// changes from here on.
	Known
	// Changed rules have seen the objects with another where: they are told what the difference
	// makes, objects that come in as Synced and objects that fall out as Deleted.
	Changed
)

// Memory is what a rule remembers of informers: in a cut, those that it has seen; in a plan, those
// that it has to see.
type Memory struct {
	Name     string
	Resource string // VERSION/RESOURCE or GROUP/VERSION/RESOURCE of its source
	// Seen has, by informer, the text of the rule's where when it saw the informer's objects, and in a
	// plan the where as it is now; "" is no where.
	Seen map[string]string
}

// Cut is what was recorded.
type Cut struct {
	Rules     map[string]Memory // by name
	Informers []string
}

// Decision is what a cut means for a plan.
type Decision struct {
	// Gone are the rules of the cut whose deliveries and record are dropped, sorted by name.
	Gone []Gone
	// Unwatched are the informers of the cut that no source has any more.
	Unwatched []string

	planned map[string]Memory
	cut     map[string]Memory
}

// Gone is a rule of the cut that the plan does not go on with.
type Gone struct {
	Name string
	// Replaced says that the plan has a rule of this name, but about another resource.
	Replaced bool
}

// Decide compares a cut with a plan. planned are the plan's rules, informers the ids of its informers.
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
	// Before tells which of the objects in the cut the rule had inside. A New rule had none.
	Before Membership
	// Where is the text of the where by which it had them. Recorded says that the cut has one: also
	// of a New rule whose recorded where cannot be compiled.
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
	case err != nil: // another version's language: it cannot be told what the rule had inside
		return Verdict{Standing: New, Where: where, Recorded: true}
	case where == d.planned[rule].Seen[informer]:
		return Verdict{Standing: Known, Before: before, Where: where, Recorded: true}
	}
	return Verdict{Standing: Changed, Before: before, Where: where, Recorded: true}
}

// Membership tells which objects of a cut a rule had inside. The zero Membership has none.
type Membership struct {
	rule    string
	program *expr.Program // nil: every object
	seen    bool
}

func membershipOf(rule, where string) (Membership, error) {
	if where == "" {
		return Membership{rule: rule, seen: true}, nil
	}
	program, err := expr.Compile(where, expr.Options{Scope: expr.Where})
	if err != nil {
		return Membership{}, err
	}
	return Membership{rule: rule, program: program, seen: true}, nil
}

// Missed returns what is recorded beside an identity, in addition to the names of rules that have the
// object inside, of a rule that has not been told of the object's latest change. It is no rule's name.
func Missed(rule string) string { return "?" + rule }

// HasMissed reports whether the names that were recorded beside an object say that the rule has not been
// told of the object's latest change.
func (m Membership) HasMissed(names []string) bool {
	return m.seen && slices.Contains(names, Missed(m.rule))
}

// Seen reports whether the rule had seen the informer's objects.
func (m Membership) Seen() bool { return m.seen }

// Has reports whether the rule had an object of the cut inside. Where only identities were recorded
// (isIdentity), names are the rules that were recorded beside the object.
func (m Membership) Has(o *object.Object, isIdentity bool, names []string) bool {
	switch {
	case !m.seen:
		return false
	case m.program == nil:
		return true
	case isIdentity:
		return slices.Contains(names, m.rule)
	}
	inside, _ := m.program.Bool(&expr.Env{Object: o.Decode(m.program.Paths())}) // a failure is not inside
	return inside
}

// Round distinguishes events about objects of a cut from earlier ones about the same state of an
// object. It is derived from the cut's resourceVersion, so that another run that resumes from the same
// cut produces the same event ids.
func Round(resourceVersion string) int64 {
	if n, err := strconv.ParseInt(resourceVersion, 10, 64); err == nil && n > 0 {
		return n
	}
	return 1
}
