package source

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/informd/informd/integration/apistub"
)

// ahead is a clock that a test can advance.
type ahead struct {
	clock.PassiveClock
	by atomic.Int64
}

func newAhead() *ahead { return &ahead{PassiveClock: clock.RealClock{}} }

func (a *ahead) pass(d time.Duration) { a.by.Add(int64(d)) }

func (a *ahead) Now() time.Time { return a.PassiveClock.Now().Add(time.Duration(a.by.Load())) }

func (a *ahead) Since(t time.Time) time.Duration { return a.Now().Sub(t) }

// A watch that breaks each time makes the source failing, although each list succeeds. Changes still
// come, with the lists. When a watch lasts, the source is well again.
func TestWatchesThatBreak(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*apistub.Server){
		"garbage": func(s *apistub.Server) { s.Garbage(pods, "<html>") },
		"an ERROR event": func(s *apistub.Server) {
			s.Garbage(pods, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":500,"message":"no"}}`+"\n")
		},
		"history that is gone": func(s *apistub.Server) { s.Expire() },
		"a large event":        func(s *apistub.Server) { s.Garbage(pods, `{"`+strings.Repeat("x", maxFrame+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s, i, e, lines := serving(t, true, body("a", 1))
			s.tuning.calm = 500 * time.Millisecond
			reading := 5 * time.Second
			if name == "a large event" { // to read it takes a busy machine seconds
				s.tuning.calm, reading = 20*time.Second, 20*time.Second
			}
			run(t, s)
			e.expect(t, "synced a 1")
			failing := func() bool { state, _ := i.State(); return state == Failing }
			harmed, last := 0, time.Time{} // which watch, and when
			await(t, "trouble", func() bool {
				n := server.Requests().Watches[pods]
				isNew := n > harmed || time.Since(last) > reading // the last may have hit the one before
				if isNew && server.Watches(pods) > 0 {
					harmed, last = n, time.Now()
					harm(server)
				}
				return failing()
			})
			if _, reason := i.State(); !strings.Contains(reason, "break again and again") {
				t.Errorf("the reason is %q", reason)
			}
			awaitState(t, i, Synced)
			server.Apply(pods, body("a", 2))
			e.expect(t, "updated a 1→2")
			if n := lines.count("break again and again"); n != 1 {
				t.Errorf("that is logged %d times, want once", n)
			}
		})
	}
}

// etcd is restored from a backup while informd runs: objects that were made since are gone, and
// others are as they were. The informer finds that when it opens its watch again.
func TestRestoredUnderARunningInformer(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, e, lines := serving(t, watchList, body("a", 1), body("b", 1))
		run(t, s)
		e.expectAll(t, "synced a 1", "synced b 1")
		server.AwaitWatches(pods, 1)
		backup := server.ResourceVersion()
		server.Apply(pods, body("a", 2))
		server.Apply(pods, body("ghost", 1))
		server.Delete(pods, "shop", "b")
		e.expect(t, "updated a 1→2", "added ghost 1", "deleted b 1")
		server.Restore(backup)
		e.expectAll(t, "updated a 2→1", "deleted ghost 1", "added b 1")
		awaitState(t, i, Synced)
		server.AwaitWatches(pods, 1)
		server.Apply(pods, body("a", 3))
		e.expect(t, "updated a 1→3")
		e.silent(t)
		if n := lines.count("restored from a backup"); n != 1 {
			t.Errorf("that is logged %d times, want once", n)
		}
	})
}

// A second outage within a minute of the first is logged once the limit of lines ends, if it lasts.
func TestOutageThatOutlastsTheLimitOfLines(t *testing.T) {
	t.Parallel()
	server, s, i, e, lines := serving(t, true, body("a", 1))
	ahead := newAhead()
	s.reach.clock, s.sayer.clock = ahead, ahead
	run(t, s)
	e.expect(t, "synced a 1")
	refused := func(*http.Request) *metav1.Status {
		return &metav1.Status{Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized, Message: "who?"}
	}
	for outage := 1; outage <= 2; outage++ {
		server.Fail(refused)
		server.DropWatches()
		awaitState(t, i, Failing)
		if outage == 1 {
			server.Fail(nil)
			awaitState(t, i, Synced)
		}
	}
	if n := lines.count("waiting for the API server"); n != 1 {
		t.Errorf("two outages within a minute are logged %d times", n)
	}
	ahead.pass(time.Minute)
	await(t, "the second outage in the log", func() bool { return lines.count("waiting for the API server") == 2 })
	server.Fail(nil)
	await(t, "its end in the log", func() bool { return lines.count("answers again") == 2 })
}

// So is the trouble of one source that comes again within a minute, and stays.
func TestTroubleThatOutlastsTheLimitOfLines(t *testing.T) {
	t.Parallel()
	lines, ahead := &log{}, newAhead()
	logger := slog.New(slog.NewTextHandler(lines, nil))
	h := newHealth(logger, newSayer(logger, ahead), "s")
	h.listing()
	h.listed(1)
	h.trouble(Failing, "no answer from 10.0.0.1", true)
	h.well()
	for range 3 {
		h.trouble(Failing, "no answer from 10.0.0.2", true)
	}
	if n := lines.count("source is failing"); n != 1 {
		t.Errorf("trouble that came twice within a minute is logged %d times", n)
	}
	ahead.pass(time.Minute)
	for range 3 {
		h.trouble(Failing, "no answer from 10.0.0.3", true)
	}
	if n := lines.count("source is failing"); n != 2 {
		t.Errorf("trouble that stays is logged %d times", n)
	}
}
