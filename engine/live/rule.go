package live

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/due"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/tally"
	"github.com/informd/informd/engine/timing"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// Rule is a rule of the plan at work, with the lane that it fills and its counters. It has
// many fields because everything that the engine knows of one rule meets here.
type Rule struct {
	// The fields that each change reads come first, together: of many rules, most are in no cache
	// of the processor.
	*plan.Rule
	Lane     *dispatch.Lane
	Tally    *tally.Tally   // nil: the rule has no count
	Trails   Trails         // what became of its last changes
	Matches  atomic.Uint64  // decided when the change came in; see Preparer.Selected
	waits    atomic.Int32   // holds that have not been released; see Hold
	Occasion *atomic.Uint32 // see occasions.go; shared with the rule before, if nothing differs
	Own      dispatch.Own   // the lane drops the changes that it knows; nil: it drops none
	// ID is the name of the rule in the state. A rule that is renamed keeps it: see
	// engine/former.go.
	ID         string
	Preparer   *Preparer   // completes its deliveries
	laneStore  *laneStore  // nil if nothing is kept
	gathered   *laneStore  // what waits for the event of its group; nil if nothing does, or is kept
	Failures   *Failures   // of its expressions; shared with the rule before, if that had its name
	Pruning    *Pruning    // nil unless the rule prunes
	Timed      due.Total   // what waits to become a member
	OwnSource  *Source     // what runs of Rule.Source
	Dispatcher *Dispatcher // delivers its events
	Memory     *Memory     // shared with the rule before

	// Before is the rule whose place this one is to take, and Options are those of the lane that it
	// gets then. Before is nil once it has done so.
	Before  *Rule
	Options dispatch.LaneOptions
}

// SetID changes the id of a rule that is not at work yet, and opens its lanes under the new id.
func (r *Rule) SetID(id string) {
	r.ID, r.Memory.id = id, id
	if r.Pruning != nil {
		r.Pruning.Rule.ID = id
	}
	r.Tally.SetID(id)
	r.OpenLanes()
}

// Gathers reports whether something of the rule may wait for the event of a group.
func (r *Rule) Gathers() bool { return r.gathered != nil || r.Group != nil }

// HandlerName returns the name of the handler, for reports.
func (r *Rule) HandlerName() string {
	if r.OnlyMeasures() {
		return OnlyMetrics
	}
	return cmp.Or(r.Handler, OwnActions)
}

// Membership returns the text that decides over the rule's members.
func (r *Rule) Membership() string { return MembershipOf(r.Rule) }

// MembershipOf is Rule.Membership for a rule that is not at work.
func MembershipOf(r *plan.Rule) string {
	text := func(p *expr.Program) string {
		if p == nil {
			return ""
		}
		return p.Text()
	}
	return resume.Text(text(r.Where), text(r.Due))
}

// Resource returns the resource of the rule's source: VERSION/RESOURCE or GROUP/VERSION/RESOURCE.
func (r *Rule) Resource() string { return object.ResourceName(r.Source.Resource) }

// NewIndex returns an index whose values are those of an expression. failures counts what fails.
func NewIndex(program *expr.Program, failures *Failures) source.Index {
	return source.Index{Paths: program.Paths(), Values: func(tree any) []string {
		values, err := program.Strings(&expr.Env{Object: tree})
		failures.Add(err, delta.Key{})
		return values
	}}
}

// CountDecided counts an event that was decided at its delivery. It implements the Count of
// dispatch.LaneOptions.
func (r *Rule) CountDecided(d delta.Delta, m count.Hit) (goesOn bool) {
	now := r.Preparer.Clock.Now()
	if goesOn = r.Tally.Add(d, m, now); !goesOn {
		r.Trails.Changes.Add(d, trail.ByCount, now)
	}
	return goesOn
}

// NextRound returns when the rule's next round begins over any informer, or the zero time.
func (r *Rule) NextRound() (next time.Time) {
	if r.Rounds == nil {
		return time.Time{}
	}
	for _, i := range r.OwnSource.View.Informers() {
		next = timing.Earlier(next, i.NextRound(r.Rounds))
	}
	return next
}

// Undelivered returns how many deliveries of the rule wait, also those of groups.
func (r *Rule) Undelivered() int {
	stats := r.Lane.Stats()
	gathered, _ := r.Lane.Gathered()
	return stats.Waiting + stats.Away + gathered
}

// AsksFor reports whether one of the rule's own actions may yield this one.
func (r *Rule) AsksFor(a handler.Action) bool {
	resource := schema.GroupVersionResource(a.Resource)
	if r.Actions == nil {
		return false
	}
	return slices.Contains(r.Prune, resource) && a.Verb == action.Prune(resource, "").Verb ||
		slices.ContainsFunc(r.Actions.Each, func(t rule.ActionTemplate) bool {
			return t.Verb == a.Verb && t.Resource == resource && t.Subresource == a.Subresource
		})
}
