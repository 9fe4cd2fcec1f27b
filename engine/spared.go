package engine

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
)

// How long a prune waits for a resource that was withdrawn.
const (
	pruneAfter   = time.Hour
	askWithdrawn = time.Minute      // between questions while nobody knows
	askElsewhere = 10 * time.Minute // while another version has the resource
)

// spared are objects for which a rule does not prune yet. Their resource was withdrawn: nobody has
// deleted them one by one, and whoever reinstalls it may bring them back. So the rule hears of the
// deletion at once, and prunes an hour later, if the object has not come back and the resource is
// still gone or served again. The state keeps the hour. There are at most as many as the rule had
// objects.
type spared struct {
	engine *Engine
	poke   chan struct{} // capacity 1; signals that there is more

	// mu guards the fields below. It is taken within the state's cut, before memory.mu and the
	// state's own locks.
	mu   sync.Mutex
	rule *runningRule // as it is now
	due  map[delta.Key]time.Time
}

// newSpared returns what a rule spares; nil if it does not prune. old is the rule before, or nil.
func (e *Engine) newSpared(r, old *runningRule) *spared {
	switch {
	case len(r.Prune) == 0:
		return nil
	case old != nil && old.spared != nil:
		return old.spared
	}
	return &spared{
		engine: e, rule: r, poke: make(chan struct{}, 1), due: make(map[delta.Key]time.Time),
	}
}

// sparedNote returns the name of the note that says when a rule prunes for an object.
func sparedNote(key delta.Key) string { return sparedPrefix + key.Namespace + "/" + key.Name }

const sparedPrefix = "prune "

// restore takes up what the run before has spared. It is called before the rule runs.
func (s *spared) restore(notes map[noteID][]byte) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, value := range notes {
		name, ok := strings.CutPrefix(id.name, sparedPrefix)
		seconds, err := strconv.ParseInt(string(value), 10, 64)
		if !ok || id.rule != s.rule.id || err != nil {
			continue
		}
		namespace, name, _ := strings.Cut(name, "/")
		s.due[delta.Key{Namespace: namespace, Name: name}] = time.Unix(seconds, 0)
	}
}

// add spares what the rule applied for an object, for a while. If it does already, the earlier
// moment counts.
func (s *spared) add(key delta.Key, wait time.Duration) {
	defer s.engine.begin()()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.due[key]; ok {
		return
	}
	s.put(key, s.engine.clock.Now().Add(wait))
}

// put sets when the rule prunes for an object. s.mu is held, within a cut.
func (s *spared) put(key delta.Key, at time.Time) {
	s.due[key] = at
	if store := s.engine.store; store != nil && !s.rule.memory.ended() {
		value := strconv.AppendInt(nil, at.Unix(), 10)
		store.PutNote(state.Note{Rule: s.rule.id, Name: sparedNote(key), Value: value})
	}
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// forget spares an object no more. It is called within a cut.
func (s *spared) forget(key delta.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.due, key)
	if s.engine.store != nil {
		s.engine.store.DeleteNote(s.rule.id, sparedNote(key))
	}
}

// has reports whether the rule does not prune for an object yet. The receiver may be nil.
func (s *spared) has(key delta.Key) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.due[key]
	return ok
}

// succeed makes another rule take the place of the one before: to, or nil if it does not prune. It
// is called within a cut. The receiver may be nil.
func (s *spared) succeed(to *runningRule) {
	if s == nil {
		return
	}
	if to.spared == s {
		s.mu.Lock()
		s.rule = to
		s.mu.Unlock()
		return
	}
	for key := range s.due { // nobody adds any more
		s.forget(key)
	}
}

// count returns for how many objects the rule does not prune yet, and when it does next.
func (s *spared) count() (n int, next time.Time) {
	if s == nil {
		return 0, next
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.due {
		if n++; next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return n, next
}

// maxNap bounds how long run sleeps, because the clock may be set.
const maxNap = 30 * time.Second

// run prunes what is due until ctx ends, once it is known what the rule's source has.
func (s *spared) run(ctx context.Context) {
	s.mu.Lock()
	informers := s.rule.view.Informers()
	s.mu.Unlock()
	if !source.WaitUntilSettled(ctx, informers...) {
		return
	}
	for ctx.Err() == nil {
		next := s.prune(ctx)
		var nap <-chan time.Time
		if !next.IsZero() {
			nap = time.After(min(max(next.Sub(s.engine.clock.Now()), 0), maxNap))
		}
		select {
		case <-nap:
		case <-s.poke:
		case <-ctx.Done():
		}
	}
}

// prune has the rule prune for what is due, and returns when something is due again; zero means
// never.
func (s *spared) prune(ctx context.Context) (next time.Time) {
	s.mu.Lock()
	rule, now := s.rule, s.engine.clock.Now()
	var due []delta.Key
	for key, at := range s.due {
		if !at.After(now) {
			due = append(due, key)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(due, func(a, b delta.Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	elsewhere := make(map[*source.Informer]time.Duration) // what was found out in this call
	for _, key := range due {
		if ctx.Err() != nil {
			break
		}
		wait := s.judge(ctx, rule, key, elsewhere)
		if wait == 0 {
			s.offer(rule, key)
			continue
		}
		end := s.engine.begin()
		s.mu.Lock()
		s.put(key, now.Add(wait))
		s.mu.Unlock()
		end()
	}
	_, next = s.count()
	return next
}

// judge returns how long the rule has to wait with a prune that is due; 0 means that it may prune.
// asked has what was found out about informers.
func (s *spared) judge(
	ctx context.Context, rule *runningRule, key delta.Key, asked map[*source.Informer]time.Duration,
) (wait time.Duration) {
	in, _ := s.engine.intakeFor(rule, key)
	if in == nil || rule.lane.Holds(key) {
		return askWithdrawn
	}
	if wait, ok := asked[in.informer]; ok {
		return wait
	}
	wait = rule.preparer.isGone(ctx, in.informer)
	asked[in.informer] = wait
	if wait == askElsewhere {
		s.engine.log.Warn("the rule does not prune for objects that another version of their "+
			"resource may have: name that version in the source", "rule", rule.Name,
			"source", rule.Source.Name)
	}
	return wait
}

// isGone returns how long to wait until an object that the informer does not know counts as gone; 0
// means that it does.
func (p *preparer) isGone(ctx context.Context, i *source.Informer) (wait time.Duration) {
	state, _ := i.State()
	switch {
	case state == source.Synced && i.HasSynced():
		return 0
	case state != source.NotServed || i.HasSynced(): // it may know more soon, or keeps objects
		return askWithdrawn
	}
	switch isGone, err := i.IsGone(ctx); {
	case err != nil:
		return askWithdrawn
	case !isGone:
		return askElsewhere
	}
	return 0
}

// offer has the rule prune for an object, unless that has come back, and spares it no more.
func (s *spared) offer(rule *runningRule, key delta.Key) {
	in, _ := s.engine.intakeFor(rule, key)
	if in == nil { // the rule is gone
		return
	}
	in.informer.Visit(func(iter.Seq[*object.Object]) {
		in := in.latest()
		in.record.pace()
		defer s.engine.begin()()
		if o, ok := rule.view.Get(key.Namespace, key.Name); !ok || !rule.preparer.Selects(o, in.clock.Now()) {
			d := rule.preparer.late(key)
			rule.stamp(&d)
			rule.lane.OfferActions(d)
		}
		s.forget(key)
	})
}

// late returns the deletion of an object that has been spared. Its mark stands in for the uid, so
// that the event has an id of its own.
func (p *preparer) late(key delta.Key) delta.Delta {
	last := object.FromIdentity(key.Namespace, key.Name, lateMark+p.Mark(key), "")
	return delta.Delta{Type: delta.Deleted, Object: last}
}

const lateMark = "withdrawn-"

// isLate reports whether late made d.
func (p *preparer) isLate(d delta.Delta) bool {
	return d.Type == delta.Deleted && len(p.rule.Prune) > 0 &&
		d.Object.UID() == lateMark+p.Mark(d.Key())
}

// prepareLate prepares the prune for an object that has been spared. While it waited, the object may
// have come back, or its source may have trouble.
func (p *preparer) prepareLate(ctx context.Context, d delivery.Draft) (delivery.Prepared, error) {
	key := d.Delta.Key()
	if o, ok := p.view.Get(key.Namespace, key.Name); ok && p.Selects(o, p.clock.Now()) {
		return delivery.Prepared{Nothing: true}, nil
	}
	if err := p.Unserved(nil); err != nil {
		return delivery.Prepared{}, err
	}
	if wait := p.isGone(ctx, p.informerOf(key)); wait > 0 {
		if ctx.Err() != nil {
			return delivery.Prepared{}, ctx.Err()
		}
		p.spared.add(key, wait)
		return delivery.Prepared{Nothing: true}, nil
	}
	var steps []action.Step
	for _, resource := range p.rule.Prune {
		steps = append(steps, pruneStep(resource, p.PruneBy(key)))
	}
	return delivery.Prepared{Delta: d.Delta, Actions: action.Join(steps), OnlyPrunes: true}, nil
}

// informerOf returns the informer of the rule's source that watches the key's namespace.
func (p *preparer) informerOf(key delta.Key) *source.Informer {
	informers := p.view.Informers()
	at := slices.IndexFunc(informers, func(i *source.Informer) bool {
		of := i.Selection().Namespace
		return of == "" || of == key.Namespace
	})
	return informers[max(at, 0)]
}

// spares reports whether the rule must not prune now for a change: the object's resource was
// withdrawn. The rule does so later.
func (p *preparer) spares(d delta.Delta) bool {
	if d.Type != delta.Deleted || p.spared == nil {
		return false
	}
	key := d.Key()
	if state, _ := p.informerOf(key).State(); state != source.NotServed {
		return false
	}
	p.spared.add(key, pruneAfter)
	return true
}

// reason says what the rule spares, or returns "". The receiver may be nil.
func (s *spared) reason() string {
	n, next := s.count()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("prunes for %d objects of a resource that was withdrawn from %s on",
		n, next.UTC().Format(time.TimeOnly))
}

// restoreSpared takes up what rules spared in the run before.
func (e *Engine) restoreSpared(notes map[noteID][]byte) {
	for _, r := range e.work().rules {
		r.spared.restore(notes)
	}
}
