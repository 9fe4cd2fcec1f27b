package engine

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/informd/informd/engine/admin"
)

// ruleThatWrites has a rule that recognizes what it changes, and one that receives everything.
var ruleThatWrites = mapSource + aRule("acts", ", actions: [{delete: {}, if: 'false'}]") + aRule("sees", ", delivery: every")

// status returns what the daemon says of a rule.
func status(e *Engine, rule string) (is admin.RuleStatus) {
	for _, r := range e.Status().Rules {
		if r.Name == rule {
			is = r
		}
	}
	return is
}

// waiting returns how many changes wait for a rule, in memory or in the state.
func waiting(e *Engine, rule string) int {
	queue := status(e, rule).Queue
	return queue.Waiting + queue.Away
}

// putNext changes the ConfigMap shop/a, and checks that this makes the version after at.
func (l *life) putNext(at, size string) (next string) {
	l.t.Helper()
	n, err := strconv.Atoi(at)
	if err != nil {
		l.t.Fatal(err)
	}
	o := l.server.Apply(configMaps, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"a"},"data":{"size":%q}}`, size))
	if next = strconv.Itoa(n + 1); o.GetResourceVersion() != next {
		l.t.Fatalf("the version after %s is %s", at, o.GetResourceVersion())
	}
	return next
}

// killed kills a daemon, once everything that it has recorded is on the disk. The next one begins
// with that.
func (l *life) killed(t *testing.T, e *Engine, stop func()) {
	t.Helper()
	if err := e.Written(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := copyOf(t, l.dir)
	stop()
	l.dir = dir
}

// A process that is killed right after a rule's write, before its informer has shown the change,
// does not make the rule react to its own change. The rule still receives what others change.
func TestOwnChangesAreKnownAfterAKill(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails  bool // the write is answered with an error
		puts   int  // changes of the object while no daemon runs; the first one is the write's
		expire bool // the API server has forgotten them
		want   []string
	}{
		"its own":                  {puts: 1, want: []string{"sees updated a 1→2"}},
		"its own, and another one": {puts: 2, want: []string{"acts updated a 2→3", "sees updated a 1→2", "sees updated a 2→3"}},
		"somebody else's":          {fails: true, puts: 1, want: []string{"acts updated a 1→2", "sees updated a 1→2"}},
		"its own, in a list":       {puts: 1, expire: true, want: []string{"sees updated a 1→2"}},
		"both, in a list":          {puts: 2, expire: true, want: []string{"acts updated a 1→3", "sees updated a 1→3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			l.put("a", "1")
			at := l.server.ResourceVersion()
			l.writes = holdWrites()
			e, stop := l.startWith(ruleThatWrites, &teller{})
			l.holds("the rules have received the object", func() bool {
				return status(e, "acts").Matches == 1 && status(e, "sees").Matches == 1 && isQuiet(e.Status())
			})
			end := l.writes.begin(t, e, "acts", at)
			if next, _ := strconv.Atoi(at); c.fails {
				end("")
			} else {
				end(strconv.Itoa(next + 1))
			}
			l.killed(t, e, stop)
			for n := range c.puts {
				at = l.putNext(at, strconv.Itoa(n+2))
			}
			if c.expire {
				l.server.Expire()
			}
			l.writes = nil
			l.expect(l.run(ruleThatWrites, new(teller), n(len(c.want))), c.want...)
		})
	}
}

// A change that waits, because nobody knew who made it, is the rule's own once its write has been
// answered. A process that is killed after that does not make the rule react to it.
func TestUnknownChangesAreKnownAfterAKill(t *testing.T) {
	t.Parallel()
	for _, isOwn := range []bool{true, false} {
		t.Run(fmt.Sprintf("own=%v", isOwn), func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			l.put("a", "1")
			at := l.server.ResourceVersion()
			l.writes = holdWrites()
			e, stop := l.startWith(ruleThatWrites, &teller{})
			l.holds("the rules have received the object", func() bool {
				return status(e, "acts").Matches == 1 && status(e, "sees").Matches == 1 && isQuiet(e.Status())
			})
			end := l.writes.begin(t, e, "acts", at)
			if err := e.SetPaused("acts", true); err != nil {
				t.Fatal(err)
			}
			at = l.putNext(at, "2")
			l.holds("the change waits", func() bool { return waiting(e, "acts") == 1 })
			if isOwn {
				end(at)
			} else {
				end("")
			}
			l.killed(t, e, stop)
			l.writes = nil
			h := &teller{}
			e, stop = l.startWith(ruleThatWrites, h)
			defer stop()
			l.holds("the change waits again", func() bool { return waiting(e, "acts") == 1 })
			if err := e.SetPaused("acts", false); err != nil {
				t.Fatal(err)
			}
			l.holds("nothing waits", func() bool { return isQuiet(e.Status()) && waiting(e, "acts") == 0 })
			h.mu.Lock()
			defer h.mu.Unlock()
			got := fmt.Sprint(h.told, status(e, "acts").Own)
			if want := map[bool]string{true: "[] 1", false: "[acts updated a 1→2] 0"}[isOwn]; got != want {
				t.Errorf("told and own: %s, want %s", got, want)
			}
		})
	}
}
