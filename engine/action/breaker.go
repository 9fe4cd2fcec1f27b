package action

import (
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

// How the Breaker slows down rules that chase each other. A change that follows slowDepth changes
// of informd's own waits for firstSlow. The delay doubles with each further change.
const (
	slowDepth  = 8
	firstSlow  = time.Second
	longest    = 5 * time.Minute
	waitWrites = 5 * time.Second // the longest wait for answers to requests
	logEvery   = time.Minute
	maxChases  = 1024 // beyond it, the oldest are forgotten
)

// Breaker slows down rules that react without end to each other's changes, to their own, or to
// somebody else who undoes them. It drops nothing. It is safe for concurrent use.
type Breaker struct {
	writes *Writes
	now    func() time.Time
	log    *slog.Logger

	mu     sync.Mutex
	chases map[string]*chase // by the names of their rules; guarded by mu
}

// chase is a set of rules that react to each other.
type chase struct {
	rules    []string // sorted
	resource string
	key      string
	depth    int
	next     time.Time // when the delayed change goes on
	until    time.Time // when to forget the chase, unless it continues
	log      *rate.Limiter
}

// NewBreaker makes a Breaker for the changes that writes knows. A nil logger logs nothing.
func NewBreaker(writes *Writes, now func() time.Time, log *slog.Logger) *Breaker {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Breaker{writes: writes, now: now, log: log, chases: make(map[string]*chase)}
}

// Delay returns how long to hold an event back before the rule's handler receives it. It returns 0
// unless the event follows eight changes of informd's own, each of which caused the next. Then it
// is a second, doubled with each further change up to five minutes, give or take a tenth. The same
// holds for somebody else's change of an object, once somebody else has undone the rule's write to it
// eight times in a row, each within a minute. Delay waits up to 5s for pending requests that may have
// made the change.
func (b *Breaker) Delay(ctx context.Context, rule string, ev *handler.Event) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, waitWrites)
	defer cancel()
	cause, known := b.writes.causeOf(ctx, ev)
	if !known {
		return jitter(b.writes.reversals.delay(b.now(), rule, ev))
	}
	if cause.Depth < slowDepth {
		return 0
	}
	delay := jitter(delayAt(cause.Depth))
	c, mayLog := b.remember(rule, cause, ev, delay)
	if mayLog { // not within remember: Status asks Chasing, which must not wait for the log
		b.log.Warn("rules chase each other through the cluster, and are slowed",
			"rules", c.rules, "resource", c.resource, "key", c.key,
			"depth", c.depth, "delay", delay.Round(time.Millisecond))
	}
	return delay
}

// delayAt returns the delay after so many changes in a row, slowDepth or more.
func delayAt(depth int) time.Duration {
	if doublings := depth - slowDepth; doublings < 9 { // 2^9 seconds exceed the longest delay
		return min(firstSlow<<doublings, longest)
	}
	return longest
}

// jitter returns a delay, give or take a tenth.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)/5*float64(d))
}

// remember notes a delayed change. It returns a copy of the chase that the change belongs to, and
// whether that may be logged.
func (b *Breaker) remember(
	rule string, cause Cause, ev *handler.Event, delay time.Duration,
) (of chase, mayLog bool) {
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
	c.resource = object.ResourceName(resourceOf(ev.Resource))
	c.key = delta.Key{Namespace: ev.Namespace, Name: ev.Name}.String()
	c.depth, c.next, c.until = cause.Depth, now.Add(delay), now.Add(2*delay)
	return *c, c.log.AllowN(now, 1)
}

// expire forgets chases that have ended. It keeps one whose log line is so recent that it must not
// be repeated. The caller holds mu.
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

// Chasing says that the rule is slowed, over what and with which other rules, or that somebody else
// undoes what it writes, or returns "". It says the former until twice the last delay has passed
// without a further one. A chase of which hasRule knows a rule no more goes on with the delay that is
// under way, and then ends.
func (b *Breaker) Chasing(rule string, hasRule func(name string) bool) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	var deepest *chase
	isGone := func(name string) bool { return !hasRule(name) }
	for _, c := range b.chases {
		isOver := now.After(c.until) ||
			now.After(c.next) && slices.ContainsFunc(c.rules, isGone)
		if isOver || !slices.Contains(c.rules, rule) {
			continue
		}
		if deepest == nil || c.depth > deepest.depth {
			deepest = c
		}
	}
	if deepest == nil {
		return b.writes.reversals.undone(now, rule)
	}
	who := "rule " + rule + " chases itself"
	if last := len(deepest.rules) - 1; last > 0 {
		others := strings.Join(deepest.rules[:last], ", ")
		who = fmt.Sprintf("rules %s and %s chase each other", others, deepest.rules[last])
	}
	if slices.ContainsFunc(deepest.rules, isGone) {
		left := max(deepest.next.Sub(now).Round(time.Second), time.Second)
		return fmt.Sprintf("slowed: the rule that it chased through the cluster is gone; next in %v", left)
	}
	text := fmt.Sprintf("slowed: %s through the cluster on %s %s, %d writes deep",
		who, deepest.resource, deepest.key, deepest.depth)
	if left := deepest.next.Sub(now); left > 0 {
		text += fmt.Sprintf("; next in %v", max(left.Round(time.Second), time.Second))
	}
	return text
}
