package engine

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/source"
)

// How a rule's orphans are looked for.
const (
	restPoll      = 500 * time.Millisecond // between questions whether the rule is at rest
	maxRestWait   = time.Minute            // then a look leaves out what the rule is busy with
	firstLookWait = 10 * time.Second       // after a look that failed; it doubles
	maxLookWait   = 10 * time.Minute
	lookAgain     = 30 * time.Minute // while some were left in place, or being pruned
	maxGone       = 500              // source objects that the rule hears of at once
	looksPerSec   = 50               // source objects looked for
	maxNamed      = 3                // orphans that a report names
	maxMarks      = 8                // source objects that a command lists by their labels
)

// orphans looks for objects that a rule with prune has applied for objects that it no longer
// selects. The rule normally hears of each object that it loses, and prunes. It does not if the
// state was lost, or if there is none, and the object went meanwhile.
//
// It looks after a start, in the background, when the rule is at rest, and again until it finds
// nothing. An orphan whose source object does not exist in the cluster is pruned: the rule hears
// that this object is deleted, in order with all that it hears of it later. Before it prunes, the
// preparer makes sure that the object still does not exist.
//
// An orphan whose source object exists may belong to another informd with a rule of the same name,
// which selects other objects. It stays, and is reported. So does an orphan whose source object may
// not be read. So does one of a rule that does more than prune on a deletion, because the object's
// last state is not known. What the rule has spared is none: see spared.
type orphans struct {
	rule   *runningRule
	engine *Engine
	limit  *rate.Limiter
	end    func()                 // ends its run; nil before that
	left   atomic.Pointer[string] // what stays, for operators; nil if nothing does
}

// stray is an object that the rule applied for one that it does not select.
type stray struct {
	resource schema.GroupVersionResource
	key      delta.Key
	mark     string
	source   delta.Key // for which it was applied
	isKnown  bool      // source is known
}

// findings are the result of one look.
type findings struct {
	left    []stray // what stays in place
	pruning bool    // the rule hears of source objects that are gone
	isBusy  bool    // the rule was busy with some, which were not judged
}

// run looks until it finds nothing, or ctx ends.
func (o *orphans) run(ctx context.Context) {
	logged := 0
	for wait := firstLookWait; o.rest(ctx); {
		found, err := o.look(ctx)
		pause := lookAgain
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			o.engine.log.Warn("could not look for what the rule applied and no longer wants: "+
				"informd tries again", "rule", o.rule.Name, "error", err, "after", wait)
			pause, wait = wait, min(2*wait, maxLookWait)
		case len(found.left) == 0:
			o.left.Store(nil)
			logged = 0
			if !found.pruning && !found.isBusy {
				return
			}
		default:
			n := len(found.left)
			o.report(found.left, n != logged)
			logged = n
		}
		if err == nil && found.isBusy {
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
// performed what it was told since the start. If it is still busy a minute after its sources have
// synced, rest returns all the same: some of its actions may fail again and again. rest returns
// false when ctx ends.
func (o *orphans) rest(ctx context.Context) bool {
	var began time.Time
	for {
		if !o.hasResumed() {
			began = time.Time{}
		} else if began.IsZero() {
			began = o.engine.clock.Now()
		}
		hasWaited := !began.IsZero() && o.engine.clock.Since(began) >= maxRestWait
		if !began.IsZero() && (isIdle(o.rule.lane) || hasWaited) {
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
func (o *orphans) hasResumed() bool {
	r := o.rule
	hasNotSynced := func(s *source.Source) bool { return !s.HasSynced() }
	if !r.view.HasSynced() || slices.ContainsFunc(r.others, hasNotSynced) ||
		r.waits.Load() > 0 || r.lane.Paused() {
		return false
	}
	isResuming := false
	for _, in := range o.engine.work().intakes {
		if slices.Contains(in.rules, r) {
			in.informer.Visit(func(iter.Seq[*object.Object]) {
				isResuming = isResuming || in.latest().learns.isCatchingUp()
			})
		}
	}
	return !isResuming
}

// look has the rule prune the orphans that it may, and returns what it found. If it fails, the rule
// has heard of some of them.
func (o *orphans) look(ctx context.Context) (f findings, err error) {
	all, isBusy, err := o.strays(ctx)
	if err != nil {
		return findings{}, err
	}
	exists := make(map[delta.Key]bool)
	told := make(map[delta.Key]bool)
	var gone []delta.Key
	for _, s := range all {
		if _, asked := exists[s.source]; asked || !s.isKnown || !o.rule.preparer.OnlyPrunes() {
			continue
		}
		if err := o.limit.Wait(ctx); err != nil {
			return findings{}, err
		}
		is, err := o.engine.acting.executor.Exists(ctx, o.rule.Source.Resource, s.source)
		if err != nil && !action.IsForbidden(err) {
			return findings{}, err
		}
		exists[s.source] = is || err != nil
		if !exists[s.source] {
			gone = append(gone, s.source)
		}
		if len(gone) == maxGone {
			maps.Copy(told, o.depart(gone))
			gone = nil
		}
	}
	maps.Copy(told, o.depart(gone))
	f = findings{pruning: len(told) > 0, isBusy: isBusy}
	for _, s := range all {
		is, asked := exists[s.source]
		switch {
		case !asked || is:
			f.left = append(f.left, s)
		case !told[s.source]: // it came meanwhile
			f.isBusy = true
		}
	}
	return f, nil
}

// strays returns what the rule applied for objects that it does not select. It leaves out what the
// rule may be about to prune, and reports whether there is any.
func (o *orphans) strays(ctx context.Context) (found []stray, isBusy bool, err error) {
	p := o.rule.preparer
	now := p.clock.Now()
	var marks map[string]bool // of all objects that it selects; made if it is needed
	by := action.By{Rule: o.rule.Name, Former: o.rule.Former}
	for _, resource := range o.rule.Prune {
		applied, err := o.engine.acting.executor.Applied(ctx, by, resource, p.AllApplied())
		if err != nil {
			return nil, false, err
		}
		for _, a := range applied {
			s := stray{resource: resource, key: a.Key, mark: a.Labels[prepare.SourceLabel]}
			s.source, s.isKnown = p.SourceOf(a.Labels, a.Annotations)
			if s.isKnown {
				is, ok := p.view.Get(s.source.Namespace, s.source.Name)
				if ok && p.Selects(is, now) {
					continue
				}
			} else {
				if marks == nil {
					marks = o.marks(now)
				}
				if marks[s.mark] {
					continue
				}
			}
			if s.isKnown && o.rule.spared.has(s.source) {
				continue
			}
			if lane := o.rule.lane; s.isKnown && lane.Holds(s.source) || !s.isKnown && !isIdle(lane) {
				isBusy = true
				continue
			}
			found = append(found, s)
		}
	}
	return found, isBusy, nil
}

// isIdle reports whether a lane has nothing to deliver.
func isIdle(l *dispatch.Lane) bool {
	stats := l.Stats()
	return stats.Waiting+stats.Away+stats.InFlight == 0
}

// marks returns the marks of all objects that the rule selects.
func (o *orphans) marks(now time.Time) map[string]bool {
	marks := make(map[string]bool)
	for _, is := range o.rule.view.List("", nil) {
		if o.rule.preparer.Selects(is, now) {
			marks[o.rule.preparer.Mark(keyOf(is))] = true
		}
	}
	return marks
}

// depart tells the rule that objects are deleted which do not exist in the cluster. It returns
// those that it told: an object that the informer knows came meanwhile.
func (o *orphans) depart(gone []delta.Key) (told map[delta.Key]bool) {
	told = make(map[delta.Key]bool, len(gone))
	byIntake := make(map[*intake][]delta.Key)
	for _, key := range gone {
		in, _ := o.engine.intakeFor(o.rule, key)
		byIntake[in] = append(byIntake[in], key)
	}
	for in, keys := range byIntake {
		in.informer.Visit(func(known iter.Seq[*object.Object]) {
			in := in.latest()
			came := make(map[delta.Key]bool, len(keys))
			for _, key := range keys {
				came[key] = false
			}
			for is := range known {
				if _, asked := came[keyOf(is)]; asked {
					came[keyOf(is)] = true
				}
			}
			for _, key := range keys {
				if !came[key] {
					in.missed(slices.Index(in.rules, o.rule), key)
					told[key] = true
				}
			}
		})
	}
	return told
}

// missed tells a rule that an object is deleted of which nothing but its name is known. It is
// called between two steps.
func (in *intake) missed(i int, key delta.Key) {
	d := in.rules[i].preparer.orphaned(key)
	in.record.pace()
	in.change.Reset()
	in.change.Matches = append(in.change.Matches, evaluate.Match{
		Rule: i, Match: rule.Match{Delta: d},
	})
	in.commit(&in.change, d.Object)
}

// orphaned returns the deletion of an object of which nothing but its name is known. Its mark
// stands in for the uid, so that the event has an id of its own.
func (p *preparer) orphaned(key delta.Key) delta.Delta {
	last := object.FromIdentity(key.Namespace, key.Name, p.Mark(key), "")
	return delta.Delta{Type: delta.Deleted, Object: last}
}

// isOrphaned reports whether orphaned made d. While it waited, the object may have come, perhaps
// for another informd.
func (p *preparer) isOrphaned(d delta.Delta) bool {
	return d.Type == delta.Deleted && len(p.rule.Prune) > 0 && d.Object.UID() == p.Mark(d.Key())
}

// report remembers what stays, for the rule's status, and logs it if logs is set.
func (o *orphans) report(left []stray, logs bool) {
	var names, marks, resources []string
	for _, s := range left {
		if len(names) < maxNamed {
			name := object.ResourceName(s.resource) + " " + s.key.String()
			if s.isKnown {
				name += " (for " + s.source.String() + ")"
			}
			names = append(names, name)
		}
		if !slices.Contains(marks, s.mark) && len(marks) <= maxMarks {
			marks = append(marks, s.mark)
		}
		if name := kubectlName(s.resource); !slices.Contains(resources, name) {
			resources = append(resources, name)
		}
	}
	command := fmt.Sprintf("kubectl get %s -A -l ", strings.Join(resources, ","))
	all := o.rule.preparer.AllApplied()
	if strings.Contains(all, " ") {
		all = "'" + all + "'"
	}
	if len(marks) <= maxMarks {
		all = fmt.Sprintf("'%s,%s in (%s)'", o.rule.preparer.AllApplied(), prepare.SourceLabel, strings.Join(marks, ","))
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
	o.engine.log.Warn("the rule has applied objects for source objects that it does not select: "+
		"informd leaves them, because another informd may have a rule of this name",
		"rule", o.rule.Name, "objects", len(left), "examples", strings.Join(names, ", "),
		"list", command+all)
}

// kubectlName returns a resource as kubectl takes it.
func kubectlName(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Version + "." + r.Group
}

// reason says what the rule has left in place, or returns "". The receiver may be nil.
func (o *orphans) reason() string {
	if o == nil {
		return ""
	}
	if text := o.left.Load(); text != nil {
		return *text
	}
	return ""
}
