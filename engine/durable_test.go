package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/plugins/handler"
)

// life is a series of daemons, one after the other, on one state directory.
type life struct {
	t            testing.TB
	server       *apistub.Server
	dir          string
	unsaid       string            // what no log line may hold, unless it is empty
	keepsNothing bool              // no daemon has a state
	ahead        atomic.Int64      // nanoseconds that the daemon's clock is ahead
	catchUpTurn  time.Duration     // see Options
	writes       *heldWrites       // if not nil, the daemon writes by it
	over         http.RoundTripper // if not nil, the daemon's requests go over it
	said         func(line string) // called with each line of the log, if not nil
}

// lifeClock is the clock of a life's daemon.
type lifeClock struct{ *life }

func (c lifeClock) Now() time.Time {
	return time.Now().Add(time.Duration(c.ahead.Load()))
}

func (c lifeClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func newLife(t testing.TB) *life {
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	server.Serve(secrets, "Secret", true)
	return &life{t: t, server: server, dir: filepath.Join(t.TempDir(), "state")}
}

func (l *life) put(name, size string) {
	l.server.Apply(configMaps, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"data":{"size":%q}}`, name, size))
}

func (l *life) delete(name string) { l.server.Delete(configMaps, "shop", name) }

// teller is a handler that records its events, and answers as a test says.
type teller struct {
	mu     sync.Mutex
	told   []string
	ids    []string
	answer func(handler.Event) error
}

func (h *teller) Ready(context.Context) error { return nil }

func (h *teller) Limit() (int, bool) { return 8, false }

func (h *teller) Grown() <-chan struct{} { return nil }

func (h *teller) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := fmt.Sprintf("%s %s %s %s→%s", ev.Rule, ev.Event, ev.Name, sizeIn(ev.Old), sizeIn(ev.Object))
	if ev.Payload != nil {
		text = fmt.Sprintf("%s %s %s %s", ev.Rule, ev.Event, ev.Name, ev.Payload)
	}
	if ev.Attempt > 1 {
		text += fmt.Sprintf(" #%d", ev.Attempt)
	}
	h.told, h.ids = append(h.told, text), append(h.ids, ev.ID)
	if h.answer != nil {
		return handler.Answer{}, h.answer(ev)
	}
	return handler.Answer{}, nil
}

func sizeIn(o []byte) string {
	_, size, _ := strings.Cut(string(o), `"size":"`)
	size, _, _ = strings.Cut(size, `"`)
	return size
}

// start starts a daemon. stop ends it, with everything on disk, and returns the recorded events,
// sorted.
func (l *life) start(manifests string, h *teller) (e *Engine, stop func() []string) {
	l.t.Helper()
	e, end := l.startWith(manifests, h)
	return e, func() []string {
		end()
		told := slices.Clone(h.told)
		slices.Sort(told)
		return told
	}
}

// startWith starts a daemon with any handler.
func (l *life) startWith(manifests string, h live.Handler) (e *Engine, stop func()) {
	l.t.Helper()
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(manifests)}})
	p, more := plan.Compile(c)
	if mistakes = append(mistakes, more...); len(mistakes) > 0 {
		l.t.Fatal(mistakes)
	}
	httpClient, err := rest.HTTPClientFor(l.server.Config())
	if err != nil {
		l.t.Fatal(err)
	}
	if l.writes != nil {
		httpClient = &http.Client{Transport: l.writes}
	}
	if l.over != nil {
		httpClient = &http.Client{Transport: l.over}
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(l.server.Config())
	if err != nil {
		l.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(testWriter{l.t, l.unsaid, l.said}, nil))
	var store *state.Store
	if !l.keepsNothing {
		store = l.open(log)
	}
	e, err = New(p, Cluster{l.server.Config(), httpClient, discoveryClient}, map[string]live.Handler{"record": h}, Options{
		Logger: log, State: store, Clock: lifeClock{l}, GoneAfter: 100 * time.Millisecond,
		catchUpTurn: l.catchUpTurn,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan error)
	go func() { done <- e.Run(ctx) }()
	return e, func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Fatal(err)
		}
	}
}

// open opens the store. On a slow disk, the store of the daemon before releases the directory some
// time after that daemon has ended.
func (l *life) open(log *slog.Logger) *state.Store {
	l.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		store, err := state.Open(l.dir, state.Options{Logger: log})
		if err == nil {
			return store
		}
		if _, locked := errors.AsType[*state.LockedError](err); !locked || time.Now().After(deadline) {
			l.t.Fatal(err)
		}
	}
}

// patience is how long a test waits for something that must happen. Only a failing test uses it up.
const patience = 2 * time.Minute

// run runs a daemon until all sources are ready, until returns true, and what is due is delivered.
// It returns the recorded events, sorted.
func (l *life) run(manifests string, h *teller, until func(*Engine, []string) bool) []string {
	l.t.Helper()
	var since time.Time // until returned true
	told, held := l.attempt(manifests, h, patience, func(e *Engine, told []string) bool {
		status := e.Status()
		if slices.ContainsFunc(status.Sources, func(s admin.SourceStatus) bool { return !s.Ready }) {
			// A bookmark says that the server has sent everything. So a source that resumes need
			// not wait for a second of silence.
			l.server.Bookmark()
			return false
		}
		if since.IsZero() {
			if !until(e, told) {
				return false
			}
			since = time.Now()
		}
		// some tests leave deliveries that wait for ever
		if catchesUp(e) {
			return false
		}
		return isQuiet(e.Status()) || time.Since(since) > 200*time.Millisecond
	})
	if !held {
		l.t.Errorf("the condition never held; told %q", told)
	}
	return told
}

// attempt runs a daemon until until returns true, or until the time is over.
func (l *life) attempt(manifests string, h *teller, atMost time.Duration, until func(*Engine, []string) bool) (told []string, held bool) {
	l.t.Helper()
	e, stop := l.start(manifests, h)
	for deadline := time.Now().Add(atMost); !held && time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		h.mu.Lock()
		told = slices.Clone(h.told)
		h.mu.Unlock()
		held = until(e, told)
	}
	return stop(), held
}

type testWriter struct {
	t      testing.TB
	unsaid string
	said   func(line string)
}

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	if w.unsaid != "" && strings.Contains(string(p), w.unsaid) {
		w.t.Errorf("the log says %q", w.unsaid)
	}
	if w.said != nil {
		w.said(string(p))
	}
	return len(p), nil
}

// n waits for that many events.
func n(n int) func(*Engine, []string) bool {
	return func(_ *Engine, told []string) bool { return len(told) >= n }
}

func (l *life) expect(got []string, want ...string) {
	l.t.Helper()
	want = slices.Sorted(slices.Values(want)) // the tests of a table may share it
	if diff := cmp.Diff(want, got); diff != "" {
		l.t.Errorf("told (-want +got)\n%s", diff)
	}
}

const mapSource = oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps}
`

func aRule(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: %s}\nspec: {source: maps, handler: record%s}\n", name, spec)
}

func TestRestartDeliversMissedChanges(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	for _, name := range []string{"a", "b", "c"} {
		l.put(name, "1")
	}
	rules := mapSource + aRule("all", "")
	l.expect(l.run(rules, new(teller), n(3)), "all synced a →1", "all synced b →1", "all synced c →1")
	l.put("a", "2")
	l.delete("b")
	l.put("d", "1")
	lists := l.server.Requests().WatchLists[configMaps]
	l.expect(l.run(rules, new(teller), n(3)), "all updated a 1→2", "all deleted b →1", "all added d →1")
	if got := l.server.Requests().WatchLists[configMaps]; got != lists {
		t.Errorf("%d more lists", got-lists)
	}
	l.delete("d")
	l.server.Expire()
	l.put("c", "2")
	l.server.Expire()
	l.expect(l.run(rules, new(teller), n(2)), "all updated c 1→2", "all deleted d →1")
	l.expect(l.run(rules, new(teller), n(0)))
}

func TestNewAndChangedRules(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "2")
	l.put("c", "3")
	before := mapSource + aRule("all", "") + aRule("some", `, where: object.data.size != "3"`)
	l.expect(l.run(before, new(teller), n(5)), "all synced a →1", "all synced b →2", "all synced c →3", "some synced a →1", "some synced b →2")
	l.put("a", "4") // it stays inside of some rules, whatever that means
	l.put("d", "1") // this never existed
	after := mapSource + aRule("all", "") + aRule("some", `, where: object.data.size != "2"`) + aRule("other", `, where: object.data.size == "3"`)
	l.expect(l.run(after, new(teller), n(7)),
		"all updated a 1→4", "all added d →1",
		"some deleted b →2", "some synced a →4", "some synced c →3", "some added d →1",
		"other synced c →3")
	l.put("c", "2")
	l.expect(l.run(after, new(teller), n(3)), "all updated c 3→2", "some deleted c →3", "other deleted c →3")
}

// An object that left a rule because it is gone, or replaced, also counts as deleted.
func TestChangedRuleReceivesDeletions(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "1")
	l.run(mapSource+aRule("r", ""), new(teller), n(2))
	l.delete("a")
	l.delete("b")
	l.put("b", "2")
	l.expect(l.run(mapSource+aRule("r", `, where: object.data.size == "2"`), new(teller), n(3)),
		"r deleted a →1", "r deleted b →1", "r added b →2")
}

func TestRuleThatReturnsIsNew(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	all, other := mapSource+aRule("all", ""), mapSource+aRule("other", "")
	l.run(all, new(teller), n(1))
	l.expect(l.run(other, new(teller), n(1)), "other synced a →1")
	l.put("a", "2")
	l.expect(l.run(all, new(teller), n(1)), "all synced a →2")
}

func TestUnwatchedObjectsAreForgotten(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	maps := mapSource + aRule("all", "")
	l.run(maps, new(teller), n(1))
	l.run(secretSource+aRule("all", ""), new(teller), n(0))
	store := l.open(nil)
	ids, err := store.Informers()
	if err != nil || len(ids) != 1 || !strings.Contains(ids[0], "secrets") {
		t.Errorf("the state has informers %q, %v; want one of secrets", ids, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestWaitingDeliveriesSurvive(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	rules := strings.Replace(mapSource, "attempts: 2", "attempts: 0", 1) + aRule("all", "") + aRule("each", ", delivery: every")
	busy := &teller{answer: func(handler.Event) error { return errors.New("not now") }}
	l.run(rules, busy, n(4)) // two attempts of each
	l.put("a", "2")
	busy.told = nil
	// in rule all, each waiting event has become the newer state
	l.run(rules, busy, func(e *Engine, told []string) bool {
		return n(4)(e, told) && slices.ContainsFunc(told, func(text string) bool { return strings.HasPrefix(text, "all synced a →2") })
	})
	slices.Sort(busy.ids)
	ids := slices.Compact(busy.ids)
	h := &teller{}
	told := l.run(rules, h, n(3))
	for i, text := range told {
		told[i], _, _ = strings.Cut(text, " #")
	}
	l.expect(told, "all synced a →2", "each synced a →1", "each updated a 1→2")
	for _, id := range h.ids {
		// in rule each, the second event of each object has never had its turn
		if !slices.Contains(ids, id) && !strings.HasPrefix(id, "each/") {
			t.Errorf("%s is new: %q", id, ids)
		}
	}
	l.expect(l.run(rules, new(teller), n(0)))
}

// The log says that waiting deliveries are kept once that is known. It never is on a disk that
// takes no writes.
func TestWhatIsNotWrittenIsNotSaidToBeKept(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.dir, l.unsaid = "/sys/informd", "are kept for the next start" // nobody can make a folder there
	l.put("a", "1")
	rules := strings.Replace(mapSource, "attempts: 2", "attempts: 0", 1) + aRule("all", "")
	busy := &teller{answer: func(handler.Event) error { return errors.New("not now") }}
	e, stop := l.start(rules, busy)
	for deadline := time.Now().Add(patience); e.Status().Rules[0].Queue.Delayed == 0 && time.Now().Before(deadline); {
		time.Sleep(2 * time.Millisecond)
	}
	if e.Status().IsStopping {
		t.Error("it is stopping before it has to")
	}
	if told := stop(); len(told) == 0 || !e.Status().IsStopping {
		t.Errorf("told %q; stopping: %v", told, e.Status().IsStopping)
	}
	if _, _, err := e.Reload(t.Context(), planOf(t, rules), map[string]live.Handler{"record": busy}); !errors.Is(err, admin.ErrStopping) {
		t.Errorf("a reload at the end: %v", err)
	}
}

func TestDeadLettersSurvive(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "1")
	rules := mapSource + aRule("all", "")
	refuse := &teller{answer: func(ev handler.Event) error { return handler.Reject(errors.New("never " + ev.Name)) }}
	l.run(rules, refuse, func(e *Engine, _ []string) bool { return e.Status().DeadLetters.Letters == 2 })
	h, retried := new(teller), false
	l.expect(l.run(rules, h, func(e *Engine, told []string) bool {
		letters, err := e.Letters()
		if err != nil || !retried && len(letters) != 2 {
			t.Fatal(letters, err)
		}
		retried = true
		for _, letter := range letters {
			if letter.Key.Name == "b" {
				if letter.Reason != "rejected: never b" || letter.Attempts != 1 {
					t.Errorf("the letter of b is %+v", letter)
				}
				continue
			}
			if err := e.RetryLetter(letter.ID); err != nil {
				t.Fatal(err)
			}
		}
		return len(told) == 1
	}), "all synced a →1 #2")
	l.run(rules, new(teller), func(e *Engine, _ []string) bool {
		letters, _ := e.Letters()
		if len(letters) != 1 || letters[0].Key.Name != "b" {
			t.Errorf("the letters are %v", letters)
		}
		return true
	})
}

// A request that comes after the last write, while the rest of the daemon still ends, is refused:
// the next run would not know of it.
func TestARequestAfterTheLastWriteIsRefused(t *testing.T) {
	l := newLife(t)
	l.put("a", "1")
	rules := mapSource + aRule("all", "")
	refuse := &teller{answer: func(handler.Event) error { return handler.Reject(errors.New("never")) }}
	e, stop := l.start(rules, refuse)
	for e.Status().DeadLetters.Letters == 0 { // nothing announces a letter
		time.Sleep(time.Millisecond)
	}
	letter := awaitLetters(t, e, 1)[0]
	stop()
	for what, err := range map[string]error{
		"retry": e.RetryLetter(letter.ID), "drop": e.DropLetter(letter.ID), "pause": e.SetPaused("all", true),
	} {
		if err == nil || !strings.HasSuffix(err.Error(), "informd is stopping: try again when it has restarted") {
			t.Errorf("%s: %v", what, err)
		}
	}
	l.run(rules, new(teller), func(e *Engine, _ []string) bool {
		if letters, err := e.Letters(); len(letters) != 1 || err != nil || e.Status().Rules[0].Paused {
			t.Errorf("letters %v, %v; paused: %v", letters, err, e.Status().Rules[0].Paused)
		}
		return true
	})
}

func TestPauseSurvives(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := mapSource + aRule("all", "")
	pause := func(paused bool) func(*Engine, []string) bool {
		return func(e *Engine, _ []string) bool {
			if err := e.SetPaused("all", paused); err != nil {
				t.Fatal(err)
			}
			return true
		}
	}
	l.run(rules, new(teller), pause(true))
	l.put("a", "1")
	l.expect(l.run(rules, new(teller), func(e *Engine, _ []string) bool {
		s := e.Status().Rules[0]
		return s.Paused && s.Queue.Waiting+s.Queue.Away == 1
	}))
	h := new(teller)
	l.expect(l.run(rules, h, func(e *Engine, told []string) bool { return pause(false)(e, told) && len(told) == 1 }), "all added a →1")
}

func TestKeptFieldsMayGrow(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "1")
	l.put("c", "1")
	needed := func(payload string) string {
		return strings.Replace(mapSource, "configmaps}", "configmaps, keep: needed}", 1) +
			aRule("r", ", where: object.metadata.name != nil, payload: "+payload)
	}
	l.run(needed("object.metadata.name"), new(teller), n(3))
	l.put("a", "2")
	l.delete("b")
	more := needed("object.data.size")
	l.expect(l.run(more, new(teller), n(2)), `r synced a "2"`, `r deleted b null`)
	l.put("c", "2")
	l.expect(l.run(more, new(teller), n(1)), `r updated c "2"`)
	l.put("c", "3")
	l.expect(l.run(needed("[old.data.size, object.data.size]"), new(teller), n(1)), `r updated c ["2","3"]`)
}

const secretSource = oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/secrets}
`

func TestSecretsAreNotWritten(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	put := func(name, size, value string) {
		l.server.Apply(secrets, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"data":{"size":%q,"value":%q}}`, name, size, value))
	}
	const value = "SSBhbSBhIHNlY3JldA=="
	for _, name := range []string{"a", "b", "c", "d"} {
		put(name, "1", value)
	}
	rules := strings.Replace(secretSource, "attempts: 2", "attempts: 0", 1) +
		aRule("all", "") + aRule("ones", `, where: object.data.size == "1"`) + aRule("values", `, payload: object.data.value`)
	stuck := &teller{answer: func(ev handler.Event) error {
		switch {
		case ev.Name == "d" && ev.Rule == "all":
			return handler.Reject(errors.New("I do not like " + value))
		case ev.Name == "c":
			return errors.New("not now, " + value)
		}
		return nil
	}}
	l.run(rules, stuck, func(e *Engine, told []string) bool { return len(told) >= 12 && e.Status().DeadLetters.Letters == 1 })
	l.nowhere(value)
	put("a", "2", value)
	l.server.Delete(secrets, "shop", "b")
	h := new(teller)
	told := l.run(rules, h, n(9))
	for i, text := range told {
		told[i], _, _ = strings.Cut(text, " #")
	}
	l.expect(told,
		"all synced a →2", "all deleted b →", "all synced c →1",
		"ones deleted a →", "ones deleted b →", "ones synced c →1",
		fmt.Sprintf("values synced a %q", value), "values deleted b null", fmt.Sprintf("values synced c %q", value))
	l.nowhere(value)
	l.expect(l.run(rules, new(teller), n(0)))
	// The letter is filled again.
	l.expect(l.run(rules, new(teller), func(e *Engine, told []string) bool {
		letters, _ := e.Letters()
		for _, letter := range letters {
			if strings.Contains(letter.Reason, value) {
				t.Error("its reason was kept")
			}
			if err := e.RetryLetter(letter.ID); err != nil {
				t.Fatal(err)
			}
		}
		return len(told) == 1
	}), "all synced d →1 #2")
}

// A rule's deliveries of secrets come from the kept records, even after the rule has changed.
func TestMembershipOfSecretsSurvivesChangesOfRules(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	put := func(name, size string) {
		l.server.Apply(secrets, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"data":{"size":%q}}`, name, size))
	}
	put("a", "1")
	put("b", "2")
	rule := func(size string) string {
		return secretSource + aRule("r", fmt.Sprintf(`, where: object.data.size == %q, resync: 1h`, size)) + aRule("every", ", where: object.data.size != nil")
	}
	l.expect(l.run(rule("1"), new(teller), n(3)), "r synced a →1", "every synced a →1", "every synced b →2")
	l.expect(l.run(rule("2"), new(teller), n(2)), "r deleted a →", "r synced b →2")
	l.expect(l.run(rule("2"), new(teller), n(0)))
	l.server.Delete(secrets, "shop", "a")
	l.server.Delete(secrets, "shop", "b")
	l.expect(l.run(rule("2"), new(teller), n(3)), "r deleted b →", "every deleted a →", "every deleted b →")
}

// nowhere checks that no file of the state holds the text.
func (l *life) nowhere(text string) {
	l.t.Helper()
	files := 0
	err := filepath.WalkDir(l.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(content), text) {
			l.t.Errorf("%s holds the text", path)
		}
		return err
	})
	if err != nil || files == 0 {
		l.t.Error(files, err)
	}
}
