package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/plugins/handler"
)

const anotherSource = `---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: others}
spec: {resource: v1/secrets}
`

// A command that comes while a reload replaces the rule by another one of its name acts on that.
func TestCommandWhileARuleIsReplaced(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	var e *Engine
	var commanded atomic.Bool
	l.said = func(line string) {
		if !strings.Contains(line, "the rule is about another resource now") {
			return
		}
		commanded.Store(true)
		if err := e.SetPaused("r", true); err != nil {
			t.Error(err)
		}
		if _, err := e.RetryRule("r", ""); err == nil || !strings.Contains(err.Error(), "paused") {
			t.Errorf("retry: %v, want one that says paused", err)
		}
		if err := e.SetPaused("gone", true); !errors.Is(err, admin.ErrNotFound) {
			t.Errorf("pause of a rule that is gone: %v", err)
		}
	}
	before := mapSource + anotherSource + aRule("gone", "") + aRule("r", "")
	after := mapSource + anotherSource + strings.ReplaceAll(aRule("r", ""), "maps", "others")
	e, stop := l.startWith(before, h)
	l.quiet(e)
	if _, err := l.reload(e, after, h); err != nil {
		t.Fatal(err)
	}
	if s := e.Status().Rules[0]; !commanded.Load() || !s.Paused {
		t.Errorf("commanded: %v; paused: %v", commanded.Load(), s.Paused)
	}
	stop()
	l.said = nil
	e, stop = l.startWith(after, h)
	defer stop()
	l.quiet(e)
	if !e.Status().Rules[0].Paused {
		t.Error("the rule is not paused after a restart")
	}
}

// What a command has acknowledged beside reloads holds for the plan that is in force afterwards, and
// after a restart.
func TestCommandsBesideReloads(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	const objects = 20
	for n := range objects {
		l.put(fmt.Sprint("m", n), "1")
	}
	l.put("dead", "1")
	var heard atomic.Int64 // events about dead
	h := &teller{answer: func(ev handler.Event) error {
		if ev.Name != "dead" {
			return nil
		}
		heard.Add(1)
		return handler.Reject(errors.New("no"))
	}}
	variants := []string{
		"", ", payload: 1", ", group: {wait: 1s}", ", delivery: every", ", payload: 2",
		`, where: object.data.size != "2"`, ", when: event != 'added'", ", count: {times: 2, within: 1h}, when: event == 'updated' || event == 'synced'",
	}
	plain := mapSource + aRule("r", "") + aRule("other", ", when: 'false'")
	e, stop := l.startWith(plain, h)
	l.quiet(e)
	var reloads sync.WaitGroup
	isOver := make(chan struct{})
	reloads.Go(func() {
		name, former := "r", ""
		for {
			select {
			case <-isOver:
				if name != "r" {
					former = ", formerly: " + name
				}
				if _, err := l.reload(e, mapSource+aRule("r", former), h); err != nil {
					t.Error(err)
				}
				return
			default:
			}
			spec := variants[rand.IntN(len(variants))]
			if rand.IntN(8) == 0 {
				name, former = map[string]string{"r": "renamed", "renamed": "r"}[name], ", formerly: "+name
			}
			if _, err := l.reload(e, mapSource+aRule(name, spec+former)+aRule("other", ", when: 'false'"), h); err != nil {
				t.Error(err)
			}
		}
	})
	paused, resyncs := false, 0
	on := func(command func(rule string) error) error { // whatever the rule's name is
		for {
			err := command("r")
			if errors.Is(err, admin.ErrNotFound) {
				err = command("renamed")
			}
			if !errors.Is(err, admin.ErrNotFound) {
				return err
			}
		}
	}
	isPaused := func() bool {
		for _, s := range e.Status().Rules {
			if s.Name != "other" {
				return s.Paused
			}
		}
		return !paused
	}
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		switch rand.IntN(4) {
		case 0:
			if err := on(func(rule string) error { _, err := e.RetryRule(rule, ""); return err }); (err != nil) != paused {
				t.Errorf("retry of a rule, paused: %v: %v", paused, err)
			}
		case 1:
			n := 0
			err := on(func(rule string) (err error) { n, err = e.Resync(t.Context(), rule); return err })
			switch {
			case err == nil && n != objects+1:
				t.Errorf("%d objects were resynced, want %d", n, objects+1)
			case err == nil:
				resyncs++
			}
		case 2:
			letters, err := e.Letters()
			if err != nil || len(letters) == 0 || paused {
				continue
			}
			before := heard.Load()
			if err := e.RetryLetter(letters[0].ID); err != nil {
				if !errors.Is(err, admin.ErrNotFound) { // a resync may have replaced it
					t.Error(err)
				}
				continue
			}
			l.holds("the letter is delivered", func() bool { return heard.Load() > before })
		default:
			paused = !paused
			if err := on(func(rule string) error { return e.SetPaused(rule, paused) }); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 { // the reload at hand may be over meanwhile
			if is := isPaused(); is != paused {
				t.Fatalf("the rule is paused: %v, want %v", is, paused)
			}
			time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
		}
	}
	close(isOver)
	reloads.Wait()
	if is := isPaused(); is != paused || resyncs == 0 {
		t.Errorf("in the end, the rule is paused: %v, want %v; %d resyncs", is, paused, resyncs)
	}
	stop()
	e, stop = l.startWith(mapSource+aRule("r", ""), h)
	defer stop()
	l.holds("the source is ready", func() bool { return e.Status().Sources[0].Ready })
	if is := e.Status().Rules[0].Paused; is != paused {
		t.Errorf("after a restart, the rule is paused: %v, want %v", is, paused)
	}
}
