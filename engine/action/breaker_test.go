package action

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// game has rules that react to each other's changes of one object.
type game struct {
	writes *Writes
	event  handler.Event
	moves  int
}

func newGame(writes *Writes) *game {
	return &game{writes: writes, event: handler.Event{
		Event: handler.Updated, Resource: handler.Resource(pods), Namespace: "shop", Name: "web-0", ResourceVersion: "0",
	}}
}

// move makes the rule change the object in response to the last change.
func (g *game) move(t *testing.T, rule string) {
	cause, _ := g.writes.causeOf(t.Context(), &g.event)
	g.moves++
	to := fmt.Sprint(g.moves)
	g.writes.Begin(pods, web0, rule, cause)(g.event.ResourceVersion, to)
	g.event.ResourceVersion = to
}

// stuckLog is a log whose reader has stopped reading, until it is closed.
type stuckLog struct{ closed chan struct{} }

func (stuckLog) Enabled(context.Context, slog.Level) bool { return true }
func (s stuckLog) WithAttrs([]slog.Attr) slog.Handler     { return s }
func (s stuckLog) WithGroup(string) slog.Handler          { return s }

func (s stuckLog) Handle(context.Context, slog.Record) error {
	<-s.closed
	return nil
}

// The status says who is slowed even if the log cannot be written.
func TestAChaseThatIsBeingLoggedHoldsUpNoStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := stuckLog{make(chan struct{})}
		writes := NewWrites()
		b, g := NewBreaker(writes, time.Now, slog.New(log)), newGame(writes)
		for range 8 {
			g.move(t, "ping")
		}
		go b.Delay(t.Context(), "ping", &g.event)
		synctest.Wait()
		if b.Chasing("ping", hasAll) == "" {
			t.Error("nobody knows of the chase")
		}
		close(log.closed)
	})
}

func TestRulesThatChaseEachOtherAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		writes := NewWrites()
		b, g, rules := NewBreaker(writes, time.Now, slog.New(slog.NewTextHandler(&log, nil))), newGame(writes), []string{"ping", "pong"}
		for i := range 30 {
			delay := b.Delay(t.Context(), rules[i%2], &g.event)
			want := time.Duration(0)
			if i >= 8 { // the event is that of change i
				want = min(time.Second<<(i-8), 5*time.Minute)
			}
			if delay < want-want/10 || delay > want+want/10 {
				t.Fatalf("before change %d: %v, want %v", i+1, delay, want)
			}
			if slowed := b.Chasing("ping", hasAll) != ""; slowed != (i >= 8) {
				t.Fatalf("before change %d: slowed is %v, want %v", i+1, slowed, i >= 8)
			}
			if i == 12 {
				want := "slowed: rules ping and pong chase each other through the cluster on v1/pods shop/web-0, 12 writes deep; next in "
				for _, rule := range rules {
					if got := b.Chasing(rule, hasAll); !strings.HasPrefix(got, want) {
						t.Errorf("%s is %q, want %q", rule, got, want)
					}
				}
				if got := b.Chasing("other", hasAll); got != "" {
					t.Errorf("a rule outside the chase is %q", got)
				}
			}
			time.Sleep(delay)
			g.move(t, rules[i%2])
		}
		if n := strings.Count(log.String(), "rules chase each other"); n < 2 || n > 30-8-5 {
			t.Errorf("%d lines in the log:\n%s", n, &log)
		}
		// Somebody else's change ends the chase. Chasing still reports it while the last delay
		// makes it likely to go on.
		g.event.ResourceVersion = "theirs"
		if d := b.Delay(t.Context(), "ping", &g.event); d != 0 {
			t.Errorf("somebody else's change waits for %v", d)
		}
		hasPong := func(name string) bool { return name == "pong" }
		if got := b.Chasing("pong", hasPong); !strings.HasPrefix(got, "slowed: the rule that it chased through the cluster is gone; next in ") {
			t.Errorf("once ping is gone: %q", got)
		}
		if b.Chasing("pong", hasAll) == "" {
			t.Error("Chasing is empty before twice the delay has passed")
		}
		time.Sleep(5*time.Minute + 40*time.Second)
		if got := b.Chasing("pong", hasPong); got != "" {
			t.Errorf("once ping is gone, and the delay over: %q", got)
		}
		time.Sleep(7 * time.Minute)
		if got := b.Chasing("pong", hasAll); got != "" {
			t.Errorf("long after: %q", got)
		}
	})
}

func TestRuleThatChasesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes := NewWrites()
		b, g := NewBreaker(writes, time.Now, nil), newGame(writes)
		for range 8 {
			g.move(t, "r")
		}
		if d := b.Delay(t.Context(), "r", &g.event); d == 0 {
			t.Error("not slowed")
		}
		if got := b.Chasing("r", hasAll); !strings.HasPrefix(got, "slowed: rule r chases itself through the cluster on v1/pods shop/web-0, 8 writes deep") {
			t.Error(got)
		}
	})
}

// The watch may show a change before the API server answers the request that made it.
func TestDelayWaitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes := NewWrites()
		b, g := NewBreaker(writes, time.Now, nil), newGame(writes)
		for range 7 {
			g.move(t, "r")
		}
		cause, _ := writes.causeOf(t.Context(), &g.event)
		end := writes.Begin(pods, web0, "r", cause)
		g.event.ResourceVersion = "8"
		time.AfterFunc(time.Second, func() { end("7", "8") })
		if b.Delay(t.Context(), "r", &g.event) == 0 {
			t.Error("not slowed")
		}
		// A request without an answer delays the rule only for some seconds.
		never := writes.Begin(pods, web0, "r", cause)
		defer never("", "")
		began := time.Now()
		b.Delay(t.Context(), "r", &g.event)
		if took := time.Since(began); took > waitWrites {
			t.Errorf("Delay took %v", took)
		}
	})
}

func TestChasesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes := NewWrites()
		b, g := NewBreaker(writes, time.Now, nil), newGame(writes)
		for range 8 {
			g.move(t, "r")
		}
		for i := range 2 * maxChases {
			b.Delay(t.Context(), fmt.Sprint("rule-", i), &g.event)
		}
		if n := len(b.chases); n > maxChases {
			t.Errorf("the breaker holds %d chases, want at most %d", n, maxChases)
		}
	})
}

// hasAll says that no rule is gone.
func hasAll(string) bool { return true }
