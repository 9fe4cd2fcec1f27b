package orphans

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/source"
)

// How long a prune waits for a resource that was withdrawn.
const (
	pruneAfter   = time.Hour
	askWithdrawn = time.Minute      // between questions while nobody knows
	askElsewhere = 10 * time.Minute // while another version has the resource
)

// Spared are objects for which a rule does not prune yet. Their resource was withdrawn: nobody has
// deleted them one by one, and whoever reinstalls it may bring them back. So the rule learns of the
// deletion at once, and prunes an hour later, if the object has not come back and the resource is
// still gone or served again. The state keeps the hour. There are at most as many as the rule had
// objects. It is safe for concurrent use; the methods that say so take nil, which spares nothing.
type Spared struct {
	log   *slog.Logger
	clock clock.PassiveClock
	notes Notes
	poke  chan struct{} // capacity 1; signals that more is spared

	// mu guards the fields below. It is taken within the state's cut, before memory.mu of the
	// engine and the state's own locks.
	mu   sync.Mutex
	rule *Rule // as it is now
	due  map[delta.Key]time.Time
}

// Notes keeps what is spared over restarts.
type Notes interface {
	// Begin begins a cut, and end ends it: see [state.Store.Begin].
	Begin() (end func())
	Put(rule, name string, value []byte) // within a cut
	Delete(rule, name string)            // within a cut
}

// Spare returns what a rule spares: nothing yet.
func Spare(rule *Rule, notes Notes, log *slog.Logger, clock clock.PassiveClock) *Spared {
	return &Spared{
		rule: rule, notes: notes, log: log, clock: clock,
		poke: make(chan struct{}, 1), due: make(map[delta.Key]time.Time),
	}
}

// sparedNote returns the name of the note that says when a rule prunes for an object.
func sparedNote(key delta.Key) string { return sparedPrefix + key.Namespace + "/" + key.Name }

const sparedPrefix = "prune "

// Restore restores what the run before has spared, from all of its notes of the rule by name. It is
// called before the rule runs. The receiver may be nil.
func (s *Spared) Restore(notes iter.Seq2[string, []byte]) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, value := range notes {
		name, ok := strings.CutPrefix(name, sparedPrefix)
		seconds, err := strconv.ParseInt(string(value), 10, 64)
		if !ok || err != nil {
			continue
		}
		namespace, name, _ := strings.Cut(name, "/")
		s.due[delta.Key{Namespace: namespace, Name: name}] = time.Unix(seconds, 0)
	}
}

// Add spares what the rule applied for an object, for a while. If it does already, the earlier
// moment counts.
func (s *Spared) Add(key delta.Key, wait time.Duration) {
	defer s.notes.Begin()()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.due[key]; ok {
		return
	}
	s.put(key, s.clock.Now().Add(wait))
}

// put sets when the rule prunes for an object. s.mu is held, within a cut.
func (s *Spared) put(key delta.Key, at time.Time) {
	s.due[key] = at
	if !s.rule.IsGone() {
		s.notes.Put(s.rule.ID, sparedNote(key), strconv.AppendInt(nil, at.Unix(), 10))
	}
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// forget no longer spares an object. It is called within a cut.
func (s *Spared) forget(key delta.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.due, key)
	s.notes.Delete(s.rule.ID, sparedNote(key))
}

// Has reports whether the rule does not prune for an object yet. The receiver may be nil.
func (s *Spared) Has(key delta.Key) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.due[key]
	return ok
}

// Succeed makes another rule take the place of the one before. to is what that rule spares: the
// receiver, or nil if it does not prune. Succeed is called within a cut. The receiver may be nil.
func (s *Spared) Succeed(rule *Rule, to *Spared) {
	if s == nil {
		return
	}
	if to == s {
		s.mu.Lock()
		s.rule = rule
		s.mu.Unlock()
		return
	}
	for key := range s.due { // nobody adds any more
		s.forget(key)
	}
}

// Count returns for how many objects the rule does not prune yet, and when it does next. The
// receiver may be nil.
func (s *Spared) Count() (n int, next time.Time) {
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

// maxNap bounds how long Run sleeps, because the clock may be set.
const maxNap = 30 * time.Second

// Run prunes what is due until ctx ends, once it is known what the rule's source has.
func (s *Spared) Run(ctx context.Context) {
	s.mu.Lock()
	informers := s.rule.View.Informers()
	s.mu.Unlock()
	if !source.WaitUntilSettled(ctx, informers...) {
		return
	}
	for ctx.Err() == nil {
		next := s.Prune(ctx)
		var nap <-chan time.Time
		if !next.IsZero() {
			nap = time.After(min(max(next.Sub(s.clock.Now()), 0), maxNap))
		}
		select {
		case <-nap:
		case <-s.poke:
		case <-ctx.Done():
		}
	}
}

// Prune has the rule prune for the objects that are due, and returns when something is due again;
// zero means never.
func (s *Spared) Prune(ctx context.Context) (next time.Time) {
	s.mu.Lock()
	rule, now := s.rule, s.clock.Now()
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
		if wait == 0 && rule.Offer(key, func() { s.forget(key) }) {
			continue
		}
		wait = cmp.Or(wait, askWithdrawn)
		end := s.notes.Begin()
		s.mu.Lock()
		s.put(key, now.Add(wait))
		s.mu.Unlock()
		end()
	}
	_, next = s.Count()
	return next
}

// judge returns how long the rule has to wait with a prune that is due; 0 means that it may prune.
// asked has what was found out about informers.
func (s *Spared) judge(
	ctx context.Context, rule *Rule, key delta.Key, asked map[*source.Informer]time.Duration,
) (wait time.Duration) {
	if rule.Lane().Holds(key) {
		return askWithdrawn
	}
	informer := informerOf(rule.View, key)
	if wait, ok := asked[informer]; ok {
		return wait
	}
	wait = pauseOf(ctx, informer)
	asked[informer] = wait
	if wait == askElsewhere {
		s.log.Warn("the rule does not prune for objects that another version of their "+
			"resource may have: name that version in the source", "rule", rule.Plan.Name,
			"source", rule.Plan.Source.Name)
	}
	return wait
}

// pauseOf returns how long to wait until an object that the informer does not know counts as gone;
// 0 means that it does.
func pauseOf(ctx context.Context, i *source.Informer) (wait time.Duration) {
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

// Prepare prepares the prune of a deletion that [Rule.Late] made, for a rule. While it
// waited, the object may have come back, or its source may have trouble.
func (s *Spared) Prepare(ctx context.Context, rule *Rule, d delta.Delta) (delivery.Prepared, error) {
	key, recipe := d.Key(), rule.Recipe
	if o, ok := rule.View.Get(key.Namespace, key.Name); ok && recipe.Selects(o, s.clock.Now()) {
		return delivery.Prepared{Nothing: true}, nil
	}
	if err := recipe.Unserved(nil); err != nil {
		return delivery.Prepared{}, err
	}
	if wait := pauseOf(ctx, informerOf(rule.View, key)); wait > 0 {
		if ctx.Err() != nil {
			return delivery.Prepared{}, ctx.Err()
		}
		s.Add(key, wait)
		return delivery.Prepared{Nothing: true}, nil
	}
	acts := &delivery.Acts{
		Pieces: []delivery.Piece{PruneOf(rule.Plan.Prune, recipe.PruneBy(key))},
		Prunes: true, OnlyPrunes: true,
	}
	return delivery.Prepared{Delta: d, Acts: acts}, nil
}

// PruneOf returns the piece that deletes what a label selector selects and the pieces before it do
// not apply.
func PruneOf(resources []schema.GroupVersionResource, labelSelector string) delivery.Piece {
	var piece delivery.Piece
	for _, resource := range resources {
		piece.Actions = append(piece.Actions, action.Prune(resource, labelSelector))
	}
	return piece
}

// Spares reports whether a rule must not prune now for a change: the object's resource was
// withdrawn. It is spared from now on. The receiver may be nil.
func (s *Spared) Spares(rule *Rule, d delta.Delta) bool {
	if s == nil || d.Type != delta.Deleted {
		return false
	}
	if state, _ := informerOf(rule.View, d.Key()).State(); state != source.NotServed {
		return false
	}
	s.Add(d.Key(), pruneAfter)
	return true
}

// Reason says what the rule spares, or returns "". The receiver may be nil.
func (s *Spared) Reason() string {
	n, next := s.Count()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("prunes for %d objects of a resource that was withdrawn from %s on",
		n, next.UTC().Format(time.TimeOnly))
}
