package orphans

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/targets"
)

// How a rule's orphans are looked for.
const (
	restPoll      = 500 * time.Millisecond // between questions whether the rule is at rest
	maxRestWait   = time.Minute            // then a look leaves out what the rule is busy with
	firstLookWait = 10 * time.Second       // after a look that failed; it doubles
	maxLookWait   = 10 * time.Minute
	lookAgain     = 30 * time.Minute // while some were left in place, or being pruned
	maxGone       = 500              // source objects that the rule learns of at once
	looksPerSec   = 50               // source objects looked for
	maxNamed      = 3                // orphans that a report names
	maxMarks      = 8                // source objects that a command lists by their labels
)

// Orphans looks for objects that a rule with prune has applied for objects that it no longer
// selects. The rule normally learns of each object that it loses, and prunes. It does not if the
// state was lost, or if there is none, and the object went meanwhile.
//
// It looks after a start, in the background, when the rule is at rest, and again until it finds
// nothing. An orphan whose source object does not exist in the cluster is pruned: the rule learns
// that this object is deleted, in order with all that it learns of it later. Before it prunes, the
// preparer makes sure that the object still does not exist.
//
// An orphan whose source object exists may belong to another informd with a rule of the same name,
// which selects other objects. It stays, and is reported. So does an orphan whose source object may
// not be read. So does one of a rule that does more than prune on a deletion, because the object's
// last state is not known. What the rule has spared is no orphan: see [Spared].
type Orphans struct {
	rule   *Rule
	spared *Spared
	log    *slog.Logger
	clock  clock.PassiveClock
	limit  *rate.Limiter
	left   atomic.Pointer[string] // what stays, for operators; nil if nothing does
}

// New returns what looks for the orphans of a rule.
func New(rule *Rule, spared *Spared, log *slog.Logger, clock clock.PassiveClock) *Orphans {
	limit := rate.NewLimiter(looksPerSec, looksPerSec)
	return &Orphans{rule: rule, spared: spared, log: log, clock: clock, limit: limit}
}

// Stray is an object that the rule applied for one that it does not select.
type Stray struct {
	Resource schema.GroupVersionResource
	Key      delta.Key
	mark     string
	source   delta.Key // for which it was applied
	isKnown  bool      // source is known
}

// Found is the result of one look.
type Found struct {
	Left    []Stray // what stays in place
	Pruning bool    // the rule learns of source objects that are gone
	IsBusy  bool    // the rule was busy with some, which were not judged
}

// Run looks until it finds nothing, or ctx ends.
func (o *Orphans) Run(ctx context.Context) {
	logged := 0
	for wait := firstLookWait; o.rest(ctx); {
		found, err := o.Look(ctx)
		pause := lookAgain
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			o.log.Warn("could not look for what the rule applied and no longer wants: "+
				"informd tries again", "rule", o.rule.Plan.Name, "error", err, "after", wait)
			pause, wait = wait, min(2*wait, maxLookWait)
		case len(found.Left) == 0:
			o.left.Store(nil)
			logged = 0
			if !found.Pruning && !found.IsBusy {
				o.rule.IsWhole()
				return
			}
		default:
			n := len(found.Left)
			o.report(found.Left, n != logged)
			logged = n
		}
		if err == nil && found.IsBusy {
			pause = maxRestWait
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// rest returns true once the rule is at rest: all sources that it reads have synced, and it has
// performed what it has learned since the start. If it is still busy a minute after its sources
// have synced, rest returns all the same: some of its actions may fail again and again. rest
// returns false when ctx ends.
func (o *Orphans) rest(ctx context.Context) bool {
	var began time.Time
	for {
		if !o.hasResumed() {
			began = time.Time{}
		} else if began.IsZero() {
			began = o.clock.Now()
		}
		hasWaited := !began.IsZero() && o.clock.Since(began) >= maxRestWait
		if !began.IsZero() && (isIdle(o.rule.Lane()) || hasWaited) {
			return ctx.Err() == nil
		}
		select {
		case <-time.After(restPoll):
		case <-ctx.Done():
			return false
		}
	}
}

// hasResumed reports whether the rule follows its informers, everything that it reads has synced,
// and it is not paused.
func (o *Orphans) hasResumed() bool {
	r := o.rule
	hasNotSynced := func(s *source.Source) bool { return !s.HasSynced() }
	return r.View.HasSynced() && !slices.ContainsFunc(r.Others, hasNotSynced) &&
		!r.Lane().Paused() && !r.IsHeld()
}

// Look has the rule prune the orphans that it may, and returns what it found. If it fails, the rule
// has learned of some of them.
func (o *Orphans) Look(ctx context.Context) (f Found, err error) {
	all, isBusy, err := o.strays(ctx)
	if err != nil {
		return Found{}, err
	}
	exists := make(map[delta.Key]bool)
	departed := make(map[delta.Key]bool)
	var gone []delta.Key
	for _, s := range all {
		if _, asked := exists[s.source]; asked || !s.isKnown || !o.rule.Recipe.OnlyPrunes() {
			continue
		}
		if err := o.limit.Wait(ctx); err != nil {
			return Found{}, err
		}
		is, err := o.rule.Exists(ctx, o.rule.Plan.Source.Resource, s.source)
		if err != nil && !action.IsForbidden(err) {
			return Found{}, err
		}
		exists[s.source] = is || err != nil
		if !exists[s.source] {
			gone = append(gone, s.source)
		}
		if len(gone) == maxGone {
			maps.Copy(departed, o.rule.Depart(ctx, gone))
			gone = nil
		}
	}
	maps.Copy(departed, o.rule.Depart(ctx, gone))
	f = Found{Pruning: len(departed) > 0, IsBusy: isBusy}
	for _, s := range all {
		is, asked := exists[s.source]
		switch {
		case !asked || is:
			f.Left = append(f.Left, s)
		case !departed[s.source]: // it came meanwhile
			f.IsBusy = true
		}
	}
	return f, nil
}

// strays returns what the rule applied for objects that it does not select. It leaves out what the
// rule may be about to prune, and reports whether there is any.
func (o *Orphans) strays(ctx context.Context) (found []Stray, isBusy bool, err error) {
	p := o.rule.Recipe
	now := o.clock.Now()
	var marks map[string]delta.Key // of all objects that it selects; made if it is needed
	by := action.By{Rule: o.rule.Plan.Name, Former: o.rule.Plan.Former}
	for _, resource := range o.rule.Plan.Prune {
		hasActed := o.hasActed()
		applied, err := o.rule.Applied(ctx, by, resource, p.AllApplied())
		if action.IsNotServed(err) { // nobody knows what there is
			isBusy = true
			continue
		}
		if err != nil {
			return nil, false, err
		}
		for _, a := range applied {
			s := Stray{Resource: resource, Key: a.Key, mark: a.Labels[prepare.SourceLabel]}
			s.source, s.isKnown = p.SourceOf(a.Labels, a.Annotations)
			if s.isKnown {
				is, ok := o.rule.View.Get(s.source.Namespace, s.source.Name)
				if ok && p.Selects(is, now) {
					isBusy = !o.claim(s, hasActed) || isBusy
					continue
				}
			} else {
				if marks == nil {
					marks = o.marks(now)
				}
				if of, ok := marks[s.mark]; ok {
					s.source = of
					isBusy = !o.claim(s, hasActed) || isBusy
					continue
				}
			}
			if s.isKnown && o.spared.Has(s.source) {
				continue
			}
			if lane := o.rule.Lane(); s.isKnown && lane.Holds(s.source) || !s.isKnown && !isIdle(lane) {
				isBusy = true
				continue
			}
			found = append(found, s)
		}
	}
	return found, isBusy, nil
}

// claim notes for which object the rule has applied one. It returns false if it cannot do so now: the
// rule is busy with that object, and may be about to ask for less.
func (o *Orphans) claim(s Stray, hasActed func() bool) bool {
	at := targets.Target{Resource: s.Resource, Key: s.Key}
	return !o.rule.Lane().Holds(s.source) && o.rule.Claim(s.source, at, func() bool {
		return o.rule.Lane().Holds(s.source) || hasActed()
	})
}

// hasActed returns what reports whether the rule has acted since: what was listed may be pruned by
// then.
func (o *Orphans) hasActed() func() bool {
	before := o.rule.Lane().Ended()
	return func() bool { return o.rule.Lane().Ended() != before }
}

// marks returns the marks of all objects that the rule selects.
func (o *Orphans) marks(now time.Time) map[string]delta.Key {
	marks := make(map[string]delta.Key)
	for _, is := range o.rule.View.List("", nil) {
		if o.rule.Recipe.Selects(is, now) {
			marks[o.rule.Recipe.Mark(delta.KeyOf(is))] = delta.KeyOf(is)
		}
	}
	return marks
}

// report remembers what stays, for the rule's status, and logs it if logs is set.
func (o *Orphans) report(left []Stray, logs bool) {
	var names, marks, resources []string
	for _, s := range left {
		if len(names) < maxNamed {
			name := object.ResourceName(s.Resource) + " " + s.Key.String()
			if s.isKnown {
				name += " (for " + s.source.String() + ")"
			}
			names = append(names, name)
		}
		if !slices.Contains(marks, s.mark) && len(marks) <= maxMarks {
			marks = append(marks, s.mark)
		}
		if name := kubectlName(s.Resource); !slices.Contains(resources, name) {
			resources = append(resources, name)
		}
	}
	command := fmt.Sprintf("kubectl get %s -A -l ", strings.Join(resources, ","))
	all := o.rule.Recipe.AllApplied()
	if strings.Contains(all, " ") {
		all = "'" + all + "'"
	}
	if len(marks) <= maxMarks {
		all = fmt.Sprintf("'%s,%s in (%s)'", o.rule.Recipe.AllApplied(), prepare.SourceLabel, strings.Join(marks, ","))
	}
	plural := "objects"
	if len(left) == 1 {
		plural = "object"
	}
	text := fmt.Sprintf("leaves %d %s that it applied for what it does not select: %s%s",
		len(left), plural, command, all)
	o.left.Store(&text)
	if !logs {
		return
	}
	o.log.Warn("the rule has applied objects for source objects that it does not select: "+
		"informd leaves them, because another informd may have a rule of this name",
		"rule", o.rule.Plan.Name, "objects", len(left), "examples", strings.Join(names, ", "),
		"list", command+all)
}

// kubectlName returns a resource as kubectl takes it.
func kubectlName(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Version + "." + r.Group
}

// Reason says what the rule has left in place, or returns "".
func (o *Orphans) Reason() string {
	if text := o.left.Load(); text != nil {
		return *text
	}
	return ""
}
