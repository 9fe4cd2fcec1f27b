package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/preview"
	"github.com/informd/informd/engine/source"
)

func planOf(t testing.TB, manifests string) *plan.Plan {
	t.Helper()
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(manifests)}})
	p, more := plan.Compile(c)
	if mistakes = append(mistakes, more...); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	return p
}

// reload reloads, and waits until rules have learned everything.
func (l *life) reload(e *Engine, manifests string, h live.Handler) (Reloaded, error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	done, ended, err := e.Reload(ctx, planOf(l.t, manifests), map[string]live.Handler{"record": h})
	if err == nil {
		ended()
		err = e.work().AwaitFollowing(ctx)
	}
	return done, err
}

// catchesUp reports whether a rule catches up, or may have to once the state is loaded.
func catchesUp(e *Engine) bool {
	return !e.phase.Loaded.Load() || slices.ContainsFunc(e.work().Intakes, (*intake.Intake).CatchesUp)
}

// quiet waits until everything is ready and delivered.
func (l *life) quiet(e *Engine) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		status := e.Status()
		isBehind := func(s admin.SourceStatus) bool { return !s.Ready || s.Pending > 0 }
		if !catchesUp(e) && !slices.ContainsFunc(status.Sources, isBehind) && isQuiet(e.Status()) {
			return
		}
		l.server.Bookmark()
	}
	l.t.Fatal("it never is quiet")
}

// since returns the events that were delivered since it was last called.
func (h *teller) since() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := h.told
	h.told = nil
	slices.Sort(told)
	return told
}

func (l *life) awaitTold(h *teller, n int) (told []string) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); len(told) < n && time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		told = append(told, h.since()...)
	}
	slices.Sort(told)
	return told
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want)) // the tests of a table share it
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A reload means to each rule what a restart means. Rules that stay learn nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		before, after string
		want          []string // events of the reload
		then          []string // when small grows to 5, and large shrinks to 6
	}{
		{
			"new rule", aRule("stays", ""), aRule("stays", "") + aRule("new", ", where: int(object.data.size) > 5"),
			[]string{"new synced large →9"},
			[]string{"stays updated small 1→5", "stays updated large 9→6", "new updated large 9→6"},
		},
		{
			"where", aRule("r", ", where: int(object.data.size) > 5"), aRule("r", ", where: int(object.data.size) < 5"),
			[]string{"r deleted large →9", "r synced small →1"},
			[]string{"r deleted small →1"},
		},
		{
			"wider", aRule("r", ", where: int(object.data.size) > 5"), aRule("r", ", where: int(object.data.size) > 0"),
			[]string{"r synced large →9", "r synced small →1"},
			[]string{"r updated large 9→6", "r updated small 1→5"},
		},
		{
			"when", aRule("r", ", when: int(object.data.size) > 5"), aRule("r", ", when: int(object.data.size) < 6"),
			nil, []string{"r updated small 1→5"},
		},
		{
			"payload", aRule("r", ""), aRule("r", ", payload: object.data.size"),
			nil, []string{`r updated small "5"`, `r updated large "6"`},
		},
		{"gone", aRule("stays", "") + aRule("gone", ""), aRule("stays", ""), nil, []string{"stays updated small 1→5", "stays updated large 9→6"}},
		{
			"order", aRule("a", "") + aRule("b", ""), aRule("b", "") + aRule("a", ""),
			nil, []string{"a updated small 1→5", "a updated large 9→6", "b updated small 1→5", "b updated large 9→6"},
		},
		{
			"another source", aRule("r", ""),
			aRule("r", "") + "---\napiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: more}\n" +
				"spec: {resource: v1/configmaps, labelSelector: 'a=b'}\n" + strings.ReplaceAll(aRule("other", ""), "source: maps", "source: more"),
			nil, []string{"r updated small 1→5", "r updated large 9→6"},
		},
	} {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprint(c.name, kept), func(t *testing.T) {
				t.Parallel()
				l := newLife(t)
				l.keepsNothing = !kept
				l.put("small", "1")
				l.put("large", "9")
				h := &teller{}
				e, stop := l.startWith(mapSource+c.before, h)
				defer func() { stop() }()
				l.quiet(e)
				lists := l.server.Requests().WatchLists[configMaps]
				h.since()
				preview, err := e.Preview(t.Context(), planOf(t, mapSource+c.after))
				if err != nil {
					t.Fatal(err)
				}
				done, err := l.reload(e, mapSource+c.after, h)
				if err != nil {
					t.Fatal(err)
				}
				l.quiet(e)
				told := h.since()
				expect(t, "told by the reload", told, c.want...)
				checkPreview(t, preview, done, told)
				if n := l.server.Requests().WatchLists[configMaps] - lists; n > strings.Count(c.after, "kind: Source") {
					t.Errorf("%d lists", n)
				}
				l.put("small", "5")
				l.put("large", "6")
				expect(t, "told afterwards", l.awaitTold(h, len(c.then)), c.then...)
				l.quiet(e)
				expect(t, "more", h.since())
				if !kept {
					return
				}
				stop()
				stop = func() {}
				e, stop = l.startWith(mapSource+c.after, h)
				l.quiet(e)
				expect(t, "told after a restart", h.since())
			})
		}
	}
}

// checkPreview compares a preview with what the reload did.
func checkPreview(t *testing.T, v preview.Changes, done Reloaded, told []string) {
	t.Helper()
	in, out, lists := 0, 0, false
	var is Reloaded
	for _, r := range v.Rules {
		in, out, lists = in+r.In, out+r.Out, lists || r.Lists
		switch r.Change {
		case preview.Added:
			is.Added = append(is.Added, r.Name)
		case preview.Gone:
			is.Gone = append(is.Gone, r.Name)
		default:
			is.Changed = append(is.Changed, r.Name)
		}
		is.Dropped += r.Dropped
		if r.AppliesLater {
			is.AppliesLater = append(is.AppliesLater, r.Name)
		}
	}
	if isUntold := len(done.Changed) > 0 && len(told) == 0; isUntold != (len(done.AppliesLater) > 0) {
		t.Errorf("changed %q, told %q, untold %q", done.Changed, told, done.AppliesLater)
	}
	if diff := cmp.Diff(done, is); diff != "" {
		t.Errorf("the preview was wrong (-reload +preview):\n%s", diff)
	}
	synced := strings.Count(strings.Join(told, " "), " synced ")
	if !lists && (in != synced || out != len(told)-synced) {
		t.Errorf("the preview has %d come in and %d fall out; told %q", in, out, told)
	}
	if began := len(v.Begun) > 0; began != lists {
		t.Errorf("informers %q begin; a rule says that they list: %v", v.Begun, lists)
	}
}

// What a preview says is what people read before they reload.
func TestPreviewInWords(t *testing.T) {
	t.Parallel()
	const reaps = "---\napiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: reaps}\nspec:\n  source: maps\n  when: false\n  actions:\n" +
		"  - delete: {}\n  - apply: {resource: apps/v1/deployments, object: {metadata: {name: a, namespace: shop}}}\n  - delete: {resource: v1/pods, name: a, namespace: shop}\n  - event: {reason: Gone, message: m}\n"
	alone := "---\napiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: ticks}\nspec: {schedule: {cron: '0 * * * *'}, handler: record, payload: now()}\n"
	narrow := strings.Replace(mapSource, "v1/configmaps", "v1/configmaps, namespaces: [shop], labelSelector: 'a=b', fieldSelector: 'metadata.name=a'", 1)
	for _, c := range []struct {
		name          string
		before, after string
		want          []string
	}{
		{"only the handler", mapSource + aRule("r", ""), strings.Replace(mapSource, "attempts: 2", "attempts: 3", 1) + aRule("r", ""), []string{"handler record"}},
		{"the handler and the rule", mapSource + aRule("r", ""), strings.Replace(mapSource, "attempts: 2", "attempts: 3", 1) + aRule("r", ", when: false"),
			[]string{"r changes: the change applies to each object when that changes next; to apply it to all now: informd rule resync r", "handler record"}},
		{"what a new rule does", mapSource + aRule("r", ""), mapSource + aRule("r", "") + reaps,
			[]string{"reaps is new: 1 object comes in (synced); it deletes v1/configmaps, applies apps/v1/deployments, deletes v1/pods, writes Events about v1/configmaps"}},
		{"what a changed rule does in addition", mapSource + aRule("r", "") + strings.Replace(reaps, "  - delete: {}\n", "", 1), mapSource + aRule("r", "") + reaps,
			[]string{"reaps changes: it deletes v1/configmaps; the change applies to each object when that changes next; to apply it to all now: informd rule resync reaps"}},
		{"a selection", mapSource + aRule("r", ""), narrow + aRule("r", ""), []string{
			"begins v1/configmaps in namespace shop, label selector a=b, field selector metadata.name=a", "ends v1/configmaps",
			"r changes with a source that it reads: all objects that its source lists come in (synced)",
		}},
		{"a rule without a source", mapSource + aRule("r", ""), mapSource + aRule("r", "") + alone, []string{"ticks is new"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			l.put("a", "1")
			h := &teller{}
			e, stop := l.startWith(c.before, h)
			defer stop()
			l.quiet(e)
			v, err := e.Preview(t.Context(), planOf(t, c.after))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range v.Begun {
				got = append(got, "begins "+s.String())
			}
			for _, s := range v.Ended {
				got = append(got, "ends "+s.String())
			}
			for _, r := range v.Rules {
				got = append(got, r.Name+" "+r.String())
			}
			for _, name := range v.Handlers.Changed {
				got = append(got, "handler "+name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			done, err := l.reload(e, c.after, h)
			if isListed := slices.ContainsFunc(v.Rules, func(r preview.Rule) bool { return r.Change == preview.Changed }); err != nil || isListed != (len(done.Changed) > 0) {
				t.Errorf("the reload has changed %q, %v", done.Changed, err)
			}
		})
	}
}

// What waits for a rule that changes is delivered as it is, to the rule as it is now; what waits for
// a rule that is gone is dropped.
func TestReloadKeepsWhatWaits(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	h := &teller{}
	before := mapSource + aRule("changes", ", delivery: every") + aRule("goes", ", delivery: every")
	e, stop := l.startWith(before, h)
	defer stop()
	l.quiet(e)
	for _, rule := range []string{"changes", "goes"} {
		if err := e.SetPaused(rule, true); err != nil {
			t.Fatal(err)
		}
	}
	l.put("a", "1")
	l.put("a", "2")
	l.put("a", "3")
	for e.Status().Rules[0].Queue.Waiting < 3 || e.Status().Rules[1].Queue.Waiting < 3 {
		time.Sleep(time.Millisecond)
	}
	second := &teller{}
	done, err := l.reload(e, mapSource+aRule("changes", ", delivery: every, when: object.data.size != '4'"), second)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Reloaded{Changed: []string{"changes"}, AppliesLater: []string{"changes"}, Gone: []string{"goes"}, Dropped: 3}, done); diff != "" {
		t.Error(diff)
	}
	l.put("a", "4")
	if err := e.SetPaused("changes", false); err != nil {
		t.Fatal(err)
	}
	expect(t, "told the old handler", h.since())
	expect(t, "told the new one", l.awaitTold(second, 3), "changes added a →1", "changes updated a 1→2", "changes updated a 2→3")
}

// A rule whose source selects others now learns what it no longer selects.
func TestReloadOfSelection(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"in","labels":{"a":"b"}},"data":{"size":"1"}}`)
	l.put("out", "2")
	h := &teller{}
	e, stop := l.startWith(mapSource+aRule("r", ""), h)
	defer func() { stop() }()
	l.quiet(e)
	expect(t, "at first", h.since(), "r synced in →1", "r synced out →2")
	narrow := strings.Replace(mapSource, "v1/configmaps", "v1/configmaps, labelSelector: 'a=b'", 1) + aRule("r", "")
	if _, err := l.reload(e, narrow, h); err != nil {
		t.Fatal(err)
	}
	expect(t, "narrower", l.awaitTold(h, 2), "r deleted out →2", "r synced in →1")
	l.quiet(e)
	if _, err := l.reload(e, mapSource+aRule("r", ""), h); err != nil {
		t.Fatal(err)
	}
	expect(t, "wider again", l.awaitTold(h, 2), "r synced in →1", "r synced out →2")
	l.quiet(e)
	stop()
	e, stop = l.startWith(mapSource+aRule("r", ""), h)
	l.quiet(e)
	expect(t, "after a restart", h.since())
}

// A reload may have a source keep more of its objects. Its other rules learn nothing of that, and
// each change that came meanwhile once.
func TestReloadKeepsMore(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	for _, name := range []string{"a", "b"} {
		l.put(name, "1")
	}
	narrow := strings.Replace(mapSource, "configmaps}", "configmaps, keep: needed}", 1) +
		aRule("names", ", delivery: every, payload: object.metadata.name")
	wide := narrow + aRule("ones", `, delivery: every, where: object.data.size == "1", payload: object.data.size`)
	h := new(teller)
	e, stop := l.start(narrow, h)
	l.quiet(e)
	p, err := e.Preview(t.Context(), planOf(t, wide))
	if err != nil || len(p.Widened) != 1 || len(p.Begun) != 0 || len(p.Rules) != 1 || !p.Rules[0].Lists {
		t.Errorf("%+v, %v", p, err)
	}
	if done, err := l.reload(e, wide, h); err != nil || len(done.Added) != 1 || len(done.Changed) != 0 {
		t.Fatal(done, err)
	}
	l.quiet(e)
	l.put("a", "2")
	l.await(h, 6)
	l.quiet(e)
	if _, err := l.reload(e, narrow, h); err != nil { // nothing has to be listed for less
		t.Fatal(err)
	}
	l.expect(stop(), `names synced a "a"`, `names synced b "b"`, `ones synced a "1"`, `ones synced b "1"`,
		`ones deleted a "1"`, `names updated a "a"`)
	l.put("b", "2") // of which less was recorded than is kept from now on
	l.expect(l.run(wide, new(teller), n(1)), `names synced b "b"`)
}

// A reload that waits for a source to keep more says in which state the source is, changes nothing if
// it gives up, and ends with the run.
func TestReloadKeepsMoreInVain(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	narrow := strings.Replace(mapSource, "configmaps}", "configmaps, keep: needed}", 1) +
		aRule("names", ", payload: object.metadata.name")
	wide := narrow + aRule("sizes", ", payload: object.data.size")
	h := new(teller)
	e, stop := l.start(narrow, h)
	l.quiet(e)
	l.server.Fail(forbid("/configmaps"))
	l.server.DropWatches()
	for deadline := time.Now().Add(patience); e.Status().Sources[0].State != source.Forbidden; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the source is not forbidden")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, _, err := e.Reload(ctx, planOf(t, wide), map[string]live.Handler{"record": h})
	if err == nil || !strings.Contains(err.Error(), "(it is forbidden: ") {
		t.Errorf("got %v", err)
	}
	if n := len(e.Status().Rules); n != 1 {
		t.Errorf("%d rules", n)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := e.Reload(t.Context(), planOf(t, wide), map[string]live.Handler{"record": h})
		ended <- err
	}()
	stop()
	if err := <-ended; !errors.Is(err, admin.ErrStopping) {
		t.Errorf("a reload when the run ends: %v", err)
	}
}
