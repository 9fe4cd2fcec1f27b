package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// made is a Preparer that makes what a test says.
type made struct {
	delivery.Prepared
	err error
}

func (m made) Prepare(_ context.Context, d delivery.Draft) (delivery.Prepared, error) {
	p := m.Prepared
	p.Delta = d.Delta
	return p, m.err
}

func (made) IsConfidential() bool { return false }

// What people read of an attempt is what has been done: the trail, the result and the log.
func TestTrailSaysWhatHasBeenDone(t *testing.T) {
	acts := actsOf(handler.Action{Verb: "patch"})
	prunes := &delivery.Acts{Pieces: []delivery.Piece{{Actions: acts.Actions()}}, Prunes: true, OnlyPrunes: true}
	refused := handler.Reject(errors.New("no"))
	for name, c := range map[string]struct {
		hears  error  // what a handler answers, if the rule has one
		alone  bool   // it has none
		isDry  bool   // informd runs dry
		acts   bool   // it has actions of its own
		makes  made   // what is made of them, or of the event
		do     error  // what comes of the actions
		trail  string // of the change's attempts
		result map[Result]int
		log    string
	}{
		"a handler acknowledges": {trail: "sent done", result: map[Result]int{Done: 1}, log: "delivered"},
		"a handler rejects":      {hears: refused, trail: "sent reject", result: map[Result]int{Rejected: 1}},
		"an event that cannot be made was not rejected by its handler": {
			makes: made{err: refused}, trail: "unmade", result: map[Result]int{Rejected: 1},
		},
		"actions": {
			alone: true, acts: true, makes: made{Prepared: delivery.Prepared{Acts: acts}},
			trail: "acts acted", result: map[Result]int{Done: 1}, log: "actions performed",
		},
		"no action": {
			alone: true, acts: true, trail: "idle", result: map[Result]int{Idle: 1}, log: "no action to perform",
		},
		"no action but prune": {
			alone: true, acts: true, makes: made{Prepared: delivery.Prepared{Acts: prunes}},
			trail: "acts pruned", result: map[Result]int{Done: 1}, log: "pruned, without other actions",
		},
		"actions that fail for good": {
			alone: true, acts: true, makes: made{Prepared: delivery.Prepared{Acts: acts}}, do: refused,
			trail: "acts reject", result: map[Result]int{Rejected: 1},
		},
		"actions that cannot be made": {
			alone: true, acts: true, makes: made{err: refused}, trail: "unmade", result: map[Result]int{Rejected: 1},
		},
		"a handler and actions": {
			acts: true, makes: made{Prepared: delivery.Prepared{Acts: acts}},
			trail: "sent done acts acted", result: map[Result]int{Done: 1}, log: "delivered, actions performed",
		},
		"a handler and no action": {
			acts: true, trail: "sent done idle", result: map[Result]int{Done: 1}, log: "delivered, no action to perform",
		},
		"a handler in a dry run": {isDry: true, trail: "tried", result: map[Result]int{Done: 1}, log: "dry run: nothing was done"},
		"actions in a dry run": {
			isDry: true, alone: true, acts: true, makes: made{Prepared: delivery.Prepared{Acts: acts}},
			trail: "tried", result: map[Result]int{Done: 1}, log: "dry run: nothing was done",
		},
		"no action in a dry run": {
			isDry: true, alone: true, acts: true, trail: "idle", result: map[Result]int{Idle: 1}, log: "no action to perform",
		},
		"nothing to deliver any more": {
			acts: true, alone: true, makes: made{Prepared: delivery.Prepared{Nothing: true}},
			trail: "outdated", result: map[Result]int{},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &recorder{answer: func(context.Context, handler.Event) error { return c.hears }}
			to := Recipient{Handler: h, IsDry: c.isDry}
			if c.alone {
				to.Handler = nil
			}
			results := make(map[Result]int)
			var mu sync.Mutex
			var log bytes.Buffer
			d := New(to, NewLetterBox(LetterBoxOptions{}), Options{
				Logger:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				Actor:   &actor{do: func(context.Context, *handler.Event, []handler.Action) error { return c.do }},
				ActsDry: c.isDry,
				Attempted: func(a Attempt) {
					mu.Lock()
					defer mu.Unlock()
					results[a.Result]++
				},
			})
			attempts := trail.New(new(trail.Counter), 100)
			l := d.Lane("r", pods, LaneOptions{
				Attempts: attempts, Preparer: c.makes, ActsItself: c.acts, Attaches: true,
			})
			stop := start(t, d)
			l.Offer(added("web", "u", 1))
			pass(time.Second)
			stop()
			equal(t, name+": trail", saysOf(attempts), c.trail)
			equal(t, name+": results", results, c.result)
			logged := ""
			for _, m := range regexp.MustCompile(`level=DEBUG msg="?([^"\n]*?)"? handler|level=DEBUG msg="?([^"\n]*?)"? rule`).FindAllStringSubmatch(log.String(), -1) {
				if logged != "" {
					logged += ", "
				}
				logged += m[1] + m[2]
			}
			equal(t, name+": log", logged, c.log)
		})
	}
}

// saysOf returns what a trail says of shop/web.
func saysOf(of *trail.Trail) (all string) {
	for i, e := range of.Of(delta.Key{Namespace: "shop", Name: "web"}) {
		if i > 0 {
			all += " "
		}
		all += e.Verdict.String()
	}
	return all
}

// An object that came and went while it waited is not delivered, and the trail says so.
func TestTrailOfWhatCancelledOut(t *testing.T) {
	for name, o := range map[string]LaneOptions{
		"in the queue": {}, "in a group": {Gathering: &Gathering{By: "all", Of: allInOne, Wait: time.Minute}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var h recorder
			d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{})
			o.Changes = trail.New(new(trail.Counter), 100)
			l := d.Lane("r", pods, o)
			start(t, d)
			defer func() { l.Close() }()
			l.Pause()
			l.Offer(added("web", "u", 1))
			l.Offer(deleted("web", "u", 2))
			l.Resume()
			pass(time.Hour)
			equal(t, name+": events", h.ids(), nil)
			equal(t, name+": trail", saysOf(o.Changes), "void")
		})
	}
}

// A change counts as a match once it is certain that the rule has not made it, and once only.
func TestOwnChangesAreNoMatches(t *testing.T) {
	for name, c := range map[string]struct {
		offer func(w *writes, l *Lane)
		want  []string
	}{
		"those of others": {
			func(_ *writes, l *Lane) { l.Offer(versioned(updated("web", "u", 2))) }, []string{"2"},
		},
		"those that nobody asks about": {
			func(_ *writes, l *Lane) { l.Offer(updated("web", "u", 2)) }, []string{"2"},
		},
		"those that are decided later": {
			func(_ *writes, l *Lane) {
				m := updated("web", "u", 2)
				m.Undecided = true
				l.Offer(m)
			}, nil,
		},
		"own ones": {
			func(w *writes, l *Lane) {
				w.begin("web")
				w.end("web", 2)
				l.Offer(versioned(updated("web", "u", 2)))
			}, nil,
		},
		"those that turn out to be own": {
			func(w *writes, l *Lane) {
				w.begin("web")
				l.Offer(versioned(updated("web", "u", 2)))
				pass(time.Second)
				w.end("web", 2)
			}, nil,
		},
		"those that turn out to be another's": {
			func(w *writes, l *Lane) {
				w.begin("web")
				l.Offer(versioned(updated("web", "u", 2)))
				pass(time.Second)
				w.end("web", 9)
			}, []string{"2"},
		},
		"those that merge before that turns out": {
			func(w *writes, l *Lane) {
				l.Pause()
				w.begin("web")
				l.Offer(versioned(updated("web", "u", 2)))
				l.Offer(versioned(updated("web", "u", 3)))
				w.end("web", 2)
				l.Offer(versioned(updated("web", "u", 4)))
				l.Resume()
			}, []string{"3", "4"},
		},
	} {
		for _, isGroup := range []bool{false, true} {
			var mu sync.Mutex
			var matched []string
			decides := preparer{decide: func(d delta.Delta) (rule.Match, bool) { return rule.Match{Delta: d}, true }}
			o := LaneOptions{Preparer: decides, Matched: func(d delta.Delta) {
				mu.Lock()
				defer mu.Unlock()
				matched = append(matched, d.Object.ResourceVersion())
			}}
			if isGroup {
				o.Gathering = &Gathering{By: "all", Of: allInOne, Wait: 2 * time.Second}
			}
			received(t, o, func(w *writes, l *Lane) {
				c.offer(w, l)
				pass(time.Minute)
			})
			slices.Sort(matched)
			equal(t, fmt.Sprint(name, ", in groups: ", isGroup), matched, c.want)
		}
	}
}

// The age of a group's event is that of its oldest change, wherever it is shown: in the status, in the
// trail, and in the dead letter. So is that of a dead letter that is retried.
func TestAgeCountsFromTheOldestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := NewLetterBox(LetterBoxOptions{})
		h := &recorder{answer: func(context.Context, handler.Event) error {
			time.Sleep(5 * time.Second)
			return handler.Reject(errors.New("no"))
		}}
		d := New(Recipient{Handler: h}, box, Options{})
		attempts := trail.New(new(trail.Counter), 100)
		l := d.Lane("r", pods, LaneOptions{
			Attempts: attempts, Gathering: &Gathering{By: "all", Of: allInOne, Wait: time.Minute},
		})
		start(t, d)
		defer func() { l.Close() }()
		began := time.Now()
		l.Offer(grouped(added("web", "u", 1)))
		pass(30 * time.Second)
		l.Offer(grouped(updated("web", "u", 2)))
		l.Offer(grouped(added("db", "v", 3)))
		pass(33 * time.Second)
		equal(t, "age in the status", l.Stats().OldestAge, 63*time.Second)
		pass(10 * time.Second)
		of := attempts.Of(delta.Key{Namespace: "shop", Name: "db"})
		equal(t, "latency", of[len(of)-1].Latency, 65*time.Second)
		letter := box.List()[0]
		equal(t, "of the letter", letter.Since.Sub(began), 0)
		l.Redrive(letter)
		pass(time.Second)
		equal(t, "age of a retried letter", l.Stats().OldestAge, time.Since(began))
		pass(10 * time.Second)
		equal(t, "of the letter, dead again", box.List()[0].Since.Sub(began), 0)
	})
}

func grouped(m rule.Match) rule.Match {
	m.Group = allInOne(m.Delta)
	return m
}
