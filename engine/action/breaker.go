package action

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// How rules that chase each other are slowed: a change that is this many of informd's own deep waits for the first delay,
// which doubles with each further one.
const (
	slowDepth  = 8
	firstSlow  = time.Second
	longest    = 5 * time.Minute
	waitWrites = 5 * time.Second // for answers to requests, at most
	logEvery   = time.Minute
	maxChases  = 1024 // past it, those that were found first are forgotten
)

// Breaker slows down rules that react to each other's changes, or to their own, without end. Nothing is dropped. It is
// safe for concurrent use.
type Breaker struct {
	writes *Writes
	now    func() time.Time
	log    *slog.Logger

	mu     sync.Mutex
	chases map[string]*chase // by the names of their rules
}

// chase is a set of rules that react to each other.
type chase struct {
	rules    []string // sorted
	resource string
	key      string
	depth    int
	next     time.Time // when the change that is held up goes on
	until    time.Time // when it is forgotten, if nothing new comes
	log      *rate.Limiter
}

// NewBreaker makes a Breaker for the changes that writes knows of. A nil logger is legal.
func NewBreaker(writes *Writes, now func() time.Time, log *slog.Logger) *Breaker {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Breaker{writes: writes, now: now, log: log, chases: make(map[string]*chase)}
}

// Delay is for how long an event is to be held back before the rule's handler is told: 0 unless it is in consequence of
// eight changes of informd's own, each of which led to the next; then a second, and twice that for each further change, up
// to five minutes, give or take a tenth. It waits for requests under way that may have made the change, for a few seconds
// at most.
func (b *Breaker) Delay(ctx context.Context, rule string, ev *handler.Event) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, waitWrites)
	defer cancel()
	cause, known := b.writes.causeOf(ctx, ev)
	if !known || cause.Depth < slowDepth {
		return 0
	}
	delay := longest
	if doublings := cause.Depth - slowDepth; doublings < 9 { // 2^9 seconds are more than the longest
		delay = min(firstSlow<<doublings, longest)
	}
	delay += time.Duration((rand.Float64() - 0.5) / 5 * float64(delay))
	b.remember(rule, cause, ev, delay)
	return delay
}

func (b *Breaker) remember(rule string, cause Cause, ev *handler.Event, delay time.Duration) {
	rules := append([]string{rule}, cause.Chain...)
	slices.Sort(rules)
	rules = slices.Compact(rules)
	name, now := strings.Join(rules, " "), b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire(now)
	c := b.chases[name]
	if c == nil {
		c = &chase{rules: rules, log: rate.NewLimiter(rate.Every(logEvery), 1)}
		b.chases[name] = c
	}
	c.resource, c.key = object.ResourceName(resourceOf(ev.Resource)), delta.Key{Namespace: ev.Namespace, Name: ev.Name}.String()
	c.depth, c.next, c.until = cause.Depth, now.Add(delay), now.Add(2*delay)
	if c.log.AllowN(now, 1) {
		b.log.Warn("rules chase each other through the cluster, and are slowed",
			"rules", rules, "resource", c.resource, "key", c.key, "depth", c.depth, "delay", delay.Round(time.Millisecond))
	}
}

// expire forgets chases that have ended. One that was logged a moment ago is kept as long as not to be logged again.
func (b *Breaker) expire(now time.Time) {
	for name, c := range b.chases {
		if now.After(c.until) && c.log.TokensAt(now) >= 1 {
			delete(b.chases, name)
		}
	}
	for len(b.chases) >= maxChases {
		delete(b.chases, oldestOf(b.chases))
	}
}

func oldestOf(chases map[string]*chase) (oldest string) {
	var at time.Time
	for name, c := range chases {
		if oldest == "" || c.next.Before(at) {
			oldest, at = name, c.next
		}
	}
	return oldest
}

// Chasing says that the rule is being slowed, with which others and over what, or nothing. It is so said until twice the
// last delay has passed without a further one.
func (b *Breaker) Chasing(rule string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	var deepest *chase
	for _, c := range b.chases {
		if !now.After(c.until) && slices.Contains(c.rules, rule) && (deepest == nil || cmp.Compare(c.depth, deepest.depth) > 0) {
			deepest = c
		}
	}
	if deepest == nil {
		return ""
	}
	who := "rules " + strings.Join(deepest.rules[:len(deepest.rules)-1], ", ") + " and " + deepest.rules[len(deepest.rules)-1] + " chase each other"
	if len(deepest.rules) == 1 {
		who = "rule " + rule + " chases itself"
	}
	text := fmt.Sprintf("slowed: %s through the cluster on %s %s, %d writes deep", who, deepest.resource, deepest.key, deepest.depth)
	if left := deepest.next.Sub(now); left > 0 {
		text += fmt.Sprintf("; next in %v", max(left.Round(time.Second), time.Second))
	}
	return text
}
