package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// inOrder returns the events that were delivered, and their ids, in order.
func (h *teller) inOrder() (told, ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.told), slices.Clone(h.ids)
}

// waiting returns how many deliveries of a rule wait, or -1 if it has not begun.
func (e *Engine) waiting(rule string) int {
	r := e.rule(rule)
	if r == nil {
		return -1
	}
	return r.Undelivered()
}

// A renamed rule goes on with what the rule of the former name had: nothing comes as Synced, what
// waits keeps its id, and the rule stays paused.
func TestRenamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		reloads  bool
		keepsNot bool
	}{{"restart", false, false}, {"reload", true, false}, {"reload without a state", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			l.keepsNothing = c.keepsNot
			l.put("a", "1")
			spec := ", delivery: every, when: event != 'synced'"
			former, renamed := mapSource+aRule("old", spec), mapSource+aRule("new", spec+", formerly: old")
			var isBad atomic.Bool
			isBad.Store(true)
			h := &teller{answer: func(ev handler.Event) error {
				if isBad.Load() && ev.Name == "dead" {
					return handler.Reject(errors.New("no"))
				}
				return nil
			}}
			e, stop := l.start(former, h)
			l.quiet(e)
			l.put("dead", "1")
			l.holds("a dead letter", func() bool { return e.Status().DeadLetters.Letters == 1 && !catchesUp(e) })
			if err := e.SetPaused("old", true); err != nil {
				t.Fatal(err)
			}
			l.put("a", "2")
			l.put("a", "3")
			l.holds("two wait", func() bool { return e.waiting("old") == 2 })
			if c.reloads {
				done, err := l.reload(e, renamed, h)
				if err != nil {
					t.Fatal(err)
				}
				if len(done.Renamed) != 1 || len(done.Added)+len(done.Gone)+len(done.Changed) > 0 {
					t.Errorf("%+v", done)
				}
			} else {
				stop()
				e, stop = l.start(renamed, h)
				l.holds("two wait still", func() bool { return e.waiting("new") == 2 })
			}
			if s := e.Status().Rules[0]; s.Name != "new" || !s.Paused || e.waiting("new") != 2 {
				t.Errorf("%s: paused %v, %d wait", s.Name, s.Paused, e.waiting("new"))
			}
			if !c.keepsNot { // once more, under the name that it has now, and the former one is another rule's
				stop()
				renamed = mapSource + aRule("new", spec) + aRule("old", ", when: 'false'")
				e, stop = l.start(renamed, h)
			}
			l.put("a", "4")
			l.holds("three wait", func() bool { return e.waiting("new") == 3 })
			isBad.Store(false)
			letters, _ := e.Letters()
			if len(letters) != 1 || letters[0].Rule != "new" || letters[0].Event().ID != letters[0].ID {
				t.Fatalf("letters: %+v", letters)
			}
			if err := e.RetryLetter(letters[0].ID); err != nil {
				t.Fatal(err)
			}
			if err := e.SetPaused("new", false); err != nil {
				t.Fatal(err)
			}
			l.holds("all is told", func() bool { told, _ := h.inOrder(); return len(told) == 5 })
			told, ids := h.inOrder()
			happenings, _, _, err := e.Happenings("new", 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range happenings {
				if x := &happenings[i]; x.Verdict == trail.Sent && !slices.Contains(ids, x.ID(x.Rule)) {
					t.Errorf("the trail has %s, and not one of %s", x.ID(x.Rule), ids)
				}
			}
			stop()
			var about []string
			for i, text := range told[1:] {
				rule, _, _ := strings.Cut(ids[i+1], "/")
				about = append(about, text+" by "+rule)
				if strings.Contains(text, "dead") && ids[i+1] != ids[0] {
					t.Errorf("the letter has the id %s, then %s", ids[0], ids[i+1])
				}
			}
			slices.Sort(about)
			expect(t, "told", about, "new added dead →1 #2 by old",
				"new updated a 1→2 by old", "new updated a 2→3 by old", "new updated a 3→4 by new")
		})
	}
}

// Timers, counts and gathered changes go on under the new name, and so does the membership of
// Secrets.
func TestRenamedGoesOnInTime(t *testing.T) {
	t.Parallel()
	for _, reloads := range []bool{false, true} {
		t.Run(map[bool]string{false: "restart", true: "reload"}[reloads], func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			manifests := func(name, formerly string) string {
				of := func(rule, spec string) string {
					if formerly != "" {
						spec += ", formerly: " + formerly + rule
					}
					return aRule(name+rule, spec)
				}
				secretsToo := strings.Replace(strings.TrimPrefix(secretSource, oneHandler), "{name: maps}", "{name: secrets}", 1)
				return mapSource + "---" + secretsToo + of("lasts", `, where: object.metadata.name == "a", for: 10m`) +
					of("counts", `, when: event == "updated", count: {times: 2, within: 1h}`) +
					of("gathers", `, when: event == "updated", group: {wait: 30m}`) +
					strings.Replace(of("secret", `, where: object.data.size == "1"`), "source: maps", "source: secrets", 1)
			}
			h := new(teller)
			e, stop := l.start(manifests("old-", ""), h)
			l.settled(e)
			l.put("a", "1")
			l.put("b", "1")
			l.secret("s", "1")
			l.await(h, 1)
			l.holds("a waits", func() bool { return pendingOf(e, "old-lasts") == 1 })
			l.pass(e, 6*time.Minute)
			l.put("b", "2")
			l.holds("a change is gathered", func() bool { return e.waiting("old-gathers") == 1 })
			if reloads {
				if done, err := l.reload(e, manifests("new-", "old-"), h); err != nil || len(done.Renamed) != 4 {
					t.Fatal(done, err)
				}
			} else {
				stop()
				e, stop = l.start(manifests("new-", "old-"), h)
			}
			l.holds("a waits still", func() bool { return pendingOf(e, "new-lasts") == 1 })
			l.holds("a change is gathered still", func() bool { return e.waiting("new-gathers") == 1 })
			l.put("b", "3")
			l.secret("s", "2")
			l.await(h, 3)
			l.pass(e, 5*time.Minute)
			l.await(h, 4)
			told := stop()
			var about []string
			for _, text := range told {
				about = append(about, strings.Join(strings.Fields(text)[:3], " "))
			}
			slices.Sort(about)
			expect(t, "told", about, "old-secret added s", "new-secret deleted s", "new-counts updated b",
				"new-lasts added a")
		})
	}
}

func pendingOf(e *Engine, rule string) int {
	for _, r := range e.Status().Rules {
		if r.Name == rule {
			return r.Pending
		}
	}
	return -1
}

// A dead letter of a rule that looks up Secrets is recorded again when the rule is renamed. Its
// payload does not reach the disk.
func TestRenamedLettersHoldNoSecrets(t *testing.T) {
	t.Parallel()
	for _, reloads := range []bool{false, true} {
		t.Run(map[bool]string{false: "restart", true: "reload"}[reloads], func(t *testing.T) {
			t.Parallel()
			const value = "c2VjcmV0IG9mIHRoZSB0ZXN0"
			l := newLife(t)
			l.putSecret("a", value)
			l.put("a", "1")
			manifests := func(name, spec string) string { return attachSources + aRule(name, revealing+spec) }
			h := &teller{answer: func(handler.Event) error { return handler.Reject(errors.New("no")) }}
			e, stop := l.start(manifests("old", ""), h)
			l.holds("a dead letter", func() bool { return e.Status().DeadLetters.Letters == 1 && !catchesUp(e) })
			if reloads {
				if _, err := l.reload(e, manifests("new", ", formerly: old"), h); err != nil {
					t.Fatal(err)
				}
			} else {
				stop()
				e, stop = l.start(manifests("new", ", formerly: old"), h)
				l.settled(e)
			}
			if letters, _ := e.Letters(); len(letters) != 1 || letters[0].Rule != "new" {
				t.Errorf("letters: %+v", letters)
			}
			stop()
			l.nowhere(value)
		})
	}
}

// A rule about itself alone goes on with its schedule when it is renamed. A moment that was missed
// comes once.
func TestRenamedScheduleGoesOn(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"restart", "reload", "reload and restart"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			l, h := newLife(t), new(teller)
			alone := func(name, spec string) string {
				return strings.Replace(mapSource+aRule(name, daily+spec), "source: maps, ", "", 1)
			}
			renamed := alone("new", ", formerly: old")
			l.at(0, 7, 0)
			e, stop := l.start(alone("old", ""), h)
			l.settled(e)
			l.pass(e, 2*time.Hour)
			l.await(h, 1)
			want := 1
			if strings.HasPrefix(way, "reload") {
				if _, err := l.reload(e, renamed, h); err != nil {
					t.Fatal(err)
				}
				l.pass(e, time.Minute)
			}
			if strings.HasSuffix(way, "restart") {
				stop()
				l.at(1, 9, 0) // a moment was missed
				e, stop = l.start(renamed, h)
				want++
				l.await(h, want)
				l.settled(e)
			}
			l.pass(e, 24*time.Hour)
			want++
			l.await(h, want)
			if told := stop(); len(told) != want {
				t.Errorf("told %q, want %d", told, want)
			}
		})
	}
}

// followed waits until rules know all changes, and nothing is due.
func (l *life) followed(e *Engine) {
	l.t.Helper()
	l.holds("all changes are known, and nothing is due", func() bool {
		l.server.Bookmark()
		now, status, version := e.parts.Clock.Now(), e.Status(), l.server.ResourceVersion()
		isBehind := func(s admin.SourceStatus) bool {
			return !s.Ready || s.Pending > 0 || s.ResourceVersion != version
		}
		isDue := func(r admin.RuleStatus) bool {
			return r.Pending > 0 && !r.NextDue.After(now) ||
				!r.Paused && r.Queue.Waiting+r.Queue.Away+r.Queue.InFlight > 0
		}
		return !catchesUp(e) &&
			!slices.ContainsFunc(status.Sources, isBehind) && !slices.ContainsFunc(status.Rules, isDue)
	})
}

// A rule that is renamed and also changes learns what it would learn if it had kept its name.
func TestRenamedWithAnotherEdit(t *testing.T) {
	t.Parallel()
	for _, edit := range []struct{ name, before, after string }{
		{"nothing", "", ""},
		{"where", `, where: object.data.size != "2"`, `, where: object.data.size != "1"`},
		{"when", "", `, when: object.data.size != "9"`},
		{"payload", `, payload: object.data.size`, `, payload: object.metadata.name`},
		{"delivery", "", ", delivery: every"},
		{"for", `, where: object.data.size == "1", for: 10m`, `, where: object.data.size == "1", for: 5m`},
		{"no for", `, where: object.data.size == "1", for: 10m`, `, where: object.data.size == "1"`},
		{"count", `, when: event == "updated", count: {times: 2, within: 1h}`, `, when: event == "updated", count: {times: 3, within: 1h}`},
		{"same count", `, when: event == "updated", count: {times: 2, within: 1h}`, `, when: event == "updated", count: {times: 2, within: 1h}, payload: object.data.size`},
		{"no group", `, when: event == "updated", group: {wait: 30m}`, `, when: event == "updated"`},
		{"group", `, when: event == "updated"`, `, when: event == "updated", group: {wait: 30m}`},
		{"another group", `, when: event == "updated", group: {wait: 30m}`, `, when: event == "updated", group: {by: object.data.size, wait: 20m}`},
		{"a smaller source", "", ", source: some"},
		{"another resource", "", ", source: theirs"},
	} {
		for _, reloads := range []bool{false, true} {
			t.Run(fmt.Sprint(edit.name, ", reloads ", reloads), func(t *testing.T) {
				t.Parallel()
				var got [2][]string
				for i, name := range []string{"old", "new"} {
					l, h := newLife(t), new(teller)
					of := func(name, spec string) string {
						sources := mapSource + "---\napiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: some}\n" +
							"spec: {resource: v1/configmaps, labelSelector: tier=web}\n" +
							"---\napiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: theirs}\nspec: {resource: v1/secrets}\n"
						rule := aRule(name, spec)
						if strings.Contains(spec, "source: ") {
							rule = strings.Replace(rule, "source: maps, ", "", 1)
						}
						return sources + rule
					}
					after := of(name, edit.after)
					if name != "old" {
						after = of(name, edit.after+", formerly: old")
					}
					l.put("a", "1")
					l.put("b", "2")
					l.putSecret("s", "x")
					e, stop := l.start(of("old", edit.before), h)
					l.followed(e)
					if err := e.SetPaused("old", true); err != nil {
						t.Fatal(err)
					}
					l.put("a", "3")
					l.put("b", "4")
					l.put("c", "1")
					l.followed(e)
					if reloads {
						if _, err := l.reload(e, after, h); err != nil {
							t.Fatal(err)
						}
					} else {
						stop()
						e, stop = l.start(after, h)
						l.followed(e)
					}
					if err := e.SetPaused(name, false); err != nil && edit.name != "another resource" {
						t.Fatal(err)
					}
					l.followed(e)
					l.put("a", "1")
					l.followed(e)
					l.put("b", "5")
					l.followed(e)
					l.pass(e, 11*time.Minute)
					l.followed(e)
					l.put("b", "6")
					l.followed(e)
					l.put("b", "7")
					l.followed(e)
					l.put("b", "8")
					l.followed(e)
					got[i] = append(got[i], fmt.Sprint(e.Status().Rules[0].Gathered, " gathered"))
					for _, text := range stop() {
						_, text, _ = strings.Cut(text, " ")
						got[i] = append(got[i], text)
					}
					slices.Sort(got[i])
				}
				expect(t, "told", got[1], got[0]...)
				if len(got[0]) < 2 && !strings.Contains(edit.after, "group") {
					t.Error("nothing was told")
				}
			})
		}
	}
}

// A rule about Secrets that was renamed, and another one that has its former name, do not share what
// keeps Secrets from the disk.
func TestFormerNameOfARuleAboutSecretsIsTaken(t *testing.T) {
	t.Parallel()
	const value = "c2VjcmV0IG9mIHRoZSB0ZXN0"
	l := newLife(t)
	secretsToo := strings.Replace(strings.TrimPrefix(secretSource, oneHandler), "{name: maps}", "{name: secrets}", 1)
	about := func(name, spec string) string {
		return strings.Replace(aRule(name, ", delivery: every, payload: object.data"+spec), "source: maps", "source: secrets", 1)
	}
	h := new(teller)
	e, stop := l.start(mapSource+"---"+secretsToo+about("a", ""), h)
	l.settled(e)
	stop()
	e, stop = l.start(mapSource+"---"+secretsToo+about("b", ", formerly: a"), h)
	l.settled(e)
	stop()
	e, stop = l.start(mapSource+"---"+secretsToo+aRule("a", "")+about("b", ""), h)
	l.settled(e)
	stop()
	e, stop = l.start(mapSource+"---"+secretsToo+aRule("a", "")+about("b", ""), h)
	l.settled(e)
	if err := e.SetPaused("b", true); err != nil {
		t.Fatal(err)
	}
	l.putSecret("s", value)
	l.holds("a delivery waits", func() bool { return e.waiting("b") == 1 })
	stop()
	l.nowhere(value)
}
