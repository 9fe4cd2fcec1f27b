package rule

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// shelf finds the same objects under every value of every index. Like a cache, it decodes each only
// when asked for it. The object called nil decodes to nil.
type shelf struct {
	everything
	objects  []*object.Object
	searches *int
	decoded  *int
}

func (s shelf) ByIndex(_, _ string) expr.Found {
	if s.searches != nil {
		*s.searches++
	}
	bucket := object.BucketOf(s.objects)
	return expr.Found{Len: bucket.Len(), Trees: func(yield func(any) bool) {
		for o := range bucket.All() {
			if s.decoded != nil {
				*s.decoded++
			}
			var tree any
			if o.Name() != "nil" {
				tree = s.Tree(o)
			}
			if !yield(tree) {
				return
			}
		}
	}}
}

func (s shelf) Lookup(_, _, _ string) expr.Found { return s.ByIndex("", "") }

// atOnce evaluates without pieces: it makes each list as a whole, and then all actions from it.
func (a *Actions) atOnce(d delta.Delta, items any, look Lookup) (steps []Step, err error) {
	env := environment(d, look, a.IsScheduled)
	if items != nil {
		env.Given = map[string]any{Items: items}
	}
	if steps, err = a.allAtOnce(d, env); err == nil {
		return steps, nil
	}
	return nil, past(err, d, env, func(env *expr.Env) error {
		_, err := a.allAtOnce(d, *env)
		return err
	})
}

func (a *Actions) allAtOnce(d delta.Delta, env expr.Env) (steps []Step, err error) {
	e := evaluation{walker: &Walker{change: d, isWhole: true, most: bounds{actions: 1 << 20, bytes: 1 << 30}}, env: env, room: maxActionBytes}
	e.env.Budget = &expr.Budget{Steps: actionSteps, Memory: actionMemory}
	made := 0
	for i := range a.Each {
		t := &a.Each[i]
		if !a.AsksFor(t, d.Type) {
			continue
		}
		e.env.Item, e.piece = nil, Piece{}
		elements := []any{nil}
		if t.ForEach != nil {
			if elements, err = t.ForEach.Elements(&e.env); err != nil {
				return nil, at(t.Label, at("forEach", err))
			}
		}
		for _, e.env.Item = range elements {
			if err := e.one(t); err != nil {
				return nil, at(t.Label, err)
			}
			if made+len(e.piece.Actions) > maxActions {
				return nil, at(t.Label, errMany)
			}
		}
		if made += len(e.piece.Actions); len(e.piece.Actions) > 0 {
			steps = append(steps, Step{t.Label, e.piece.Actions})
		}
	}
	return steps, nil
}

const hidden = "hunter2hunter2"

// template returns a random action. Some fail for some elements or changes.
func (c *chance) template(t *testing.T, label string) (of ActionTemplate) {
	o := options
	o.Given = map[string][]string{Items: nil}
	values := []string{"x", "${object.n}", "${object.secret}", "${event}", `${lookup(\"nodes.byName\", \"x\")[1].n}`, "${toJSON(items)}", "${now()}", "${object.metadata.labels.app}", "${int(object.text)}", "${old.n}"}
	conditions := []string{`event != "updated"`, `len(lookup("nodes.byName", "x")) > 2`, `int(object.text) > 3`, `object.metadata.namespace == "shop"`, "object.n", "true"}
	of.Label = label
	if c.of(4) > 0 {
		each := o
		each.Scope = expr.ForEach
		list := pick(c, `lookup("nodes.byName", object.metadata.name)`, `byIndex("byTier", event)`, `lookup("nodes.byName", object.no)`, `filter(lookup("nodes.byName", "x"), .n > 1)`,
			"object.list", "1..7", "object.no", `[1, nil, "a", {"n": 4}]`, `lookup("nodes.byName", "y")`, `byIndex("byTier", "z")`, pick(c, `lookup("nodes.byName", object.metadata)`, "object.metadata"), "items", `take(byIndex("byTier", "x"), 3)`, `lookup("nodes.byName", int(object.text))`)
		p, err := expr.Compile(list, each)
		if err != nil {
			t.Fatal(err)
		}
		of.ForEach, o.Item = p, p
		values = append(values, "${item}", "${item.n}", "${toJSON(item)}", "${toJSON(item)}", "${item.metadata.name}", "${len(filter(1..500, # > 3))}")
		conditions = append(conditions, "item.n > 1", "item != nil", "toJSON(item) contains \"1\"", "item.n", "int(item.text) > 0")
	}
	if c.of(2) > 0 {
		when := o
		when.Scope = expr.When
		p, err := expr.Compile(pick(c, conditions...), when)
		if err != nil {
			t.Fatal(err)
		}
		of.If = p
	}
	value := func() string {
		return `"` + pick(c, pick(c, values...), "a ${toJSON(items)}", "${object.n}", "x") + `"`
	}
	name := func() string {
		return `"a` + pick(c, pick(c, values...), "${event}", "", "${now()}", "${toJSON(object.n)}") + `"`
	}
	if of.ForEach != nil {
		own := value
		value = func() string { return pick(c, own(), `"${toJSON(item)}"`, `"${item}"`) }
	}
	switch of.Verb = pick(c, "apply", "apply", "patch", "delete", "event"); of.Verb {
	case "apply":
		of.Resource, of.Elsewhere = mapResource, true
		of.Object = templated(t, fmt.Sprintf(`{"metadata":{"name":%s,"namespace":"shop"},"data":{"a":%s,"b":[%s]}}`, name(), value(), value()), o)
	case "patch":
		of.PatchType, of.Patch = handler.MergePatch, templated(t, fmt.Sprintf(`{"a":%s}`, value()), o)
	case "delete":
		of.Name = templated(t, name(), o)
	case "event":
		of.Reason, of.Message = templated(t, name(), o), templated(t, value(), o)
	}
	return of
}

// node returns the text of an object.
func (c *chance) node(name, namespace string, version int) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q,"labels":{"app":"a"}},"n":%s,"list":[%s],"text":%s,"secret":%q,"v":%d}`,
		name, namespace, pick(c, "1", "2", "3", "null", `"`+hidden+`"`), pick(c, "1,2,3", `{"n":2},{"n":3}`, `null,"a"`, ""), pick(c, `"5"`, `"x"`, "7"), hidden, version)
}

// FuzzWalk makes rules, changes and caches from data. Walk and Evaluate must give the same result as
// atOnce, which evaluates everything in one go. All bounds are small, so walks have many pieces.
func FuzzWalk(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(randomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkWalk(t, data) })
}

// checkWalk also returns what the rule gave, and in how many pieces.
func checkWalk(t *testing.T, data []byte) (steps []Step, pieces int, failure error) {
	c := &chance{data}
	a := &Actions{Prune: c.of(4) == 1, Deleted: c.of(3) > 0}
	for i := range 1 + c.of(3) {
		a.Each = append(a.Each, c.template(t, fmt.Sprintf("actions[%d]", i)))
	}
	d := delta.Delta{Type: pick(c, delta.Added, delta.Updated, delta.Deleted, delta.Synced), Object: mustObject(t, c.node("a", "shop", 2))}
	if d.Type == delta.Updated {
		d.Old = mustObject(t, c.node("a", "shop", 1))
	}
	var items any
	if c.of(2) == 1 {
		items = []any{map[string]any{"event": "added"}, nil, map[string]any{"n": int64(3)}}
	}
	decoded := 0
	look := shelf{everything: everything{now: time.Unix(1e9, 0).UTC()}, decoded: &decoded}
	for i := range c.of(20) {
		look.objects = append(look.objects, mustObject(t, c.node(pick(c, fmt.Sprintf("n%02d", i), fmt.Sprintf("n%02d", i), "nil"), fmt.Sprintf("s%02d", i), i)))
	}

	steps, failure = a.atOnce(d, items, look)
	got, err := a.Evaluate(d, items, look)
	compare := func(how string, got []Step, err error) {
		t.Helper()
		if diff := cmp.Diff(steps, got); diff != "" || fmt.Sprint(failure) != fmt.Sprint(err) || IsPast(failure) != IsPast(err) {
			t.Fatalf("%s: error %v (past: %v), want %v (past: %v)\n(-at once +%[1]s)\n%[6]s", how, err, IsPast(err), failure, IsPast(failure), diff)
		}
	}
	compare("Evaluate", got, err)
	if err != nil && strings.Contains(err.Error(), hidden) {
		t.Fatalf("the error quotes a value: %v", err)
	}

	w := a.Walker(d, items, look)
	w.most.actions, w.most.bytes = 1+c.of(5), pick(c, 1<<20, 100, 200)
	w.most.budget.Steps = pick(c, actionSteps, 20_000)
	seen := collect(t, w, nil, &err)
	compare("Walk", joinedPieces(seen, err), err)
	var again error
	if diff := cmp.Diff(seen, collect(t, w, nil, &again)); diff != "" || fmt.Sprint(again) != fmt.Sprint(err) {
		t.Fatalf("a second walk gives another result, error %v, before %v\n%s", again, err, diff)
	}
	if err == nil { // in two walks of some of the templates each
		isEvent := func(t *ActionTemplate) bool { return t.Verb == handler.ActionEvent }
		changes := collect(t, w, func(t *ActionTemplate) bool { return !isEvent(t) }, &err)
		events := collect(t, w, isEvent, &again)
		if len(changes)+len(events) != len(seen) || err != nil || again != nil {
			t.Fatalf("%d and %d pieces of %d, errors %v and %v", len(changes), len(events), len(seen), err, again)
		}
	}
	if len(seen) > 0 { // an error of visit ends the walk at once
		stop, calls, at := errors.New("stop"), 0, c.of(len(seen))
		err := w.Walk(nil, func(p Piece) error {
			if calls++; calls == at+1 {
				return stop
			}
			return nil
		})
		if err != stop || calls != at+1 {
			t.Fatalf("visit stopped at its call %d, but was called %d times; error %v", at+1, calls, err)
		}
	}
	return steps, len(seen), failure
}

// collect returns the pieces of one walk, and checks each against the bounds.
func collect(t *testing.T, w *Walker, of func(*ActionTemplate) bool, err *error) (pieces []Piece) {
	t.Helper()
	*err = w.Walk(of, func(p Piece) error {
		size := 0
		for _, a := range p.Actions {
			size += len(a.Object) + len(a.Patch)
		}
		if n := len(p.Actions); n > w.most.actions || n > 1 && p.Size > w.most.bytes || p.Size < size {
			t.Fatalf("%d actions of %d bytes, Size %d, want at most %d of %d", n, size, p.Size, w.most.actions, w.most.bytes)
		}
		if last := len(pieces) - 1; last >= 0 && pieces[last].Ends != (pieces[last].Label < p.Label) {
			t.Fatalf("%s, which ends: %v, before %s", pieces[last].Label, pieces[last].Ends, p.Label)
		}
		pieces = append(pieces, p)
		return nil
	})
	if last := len(pieces) - 1; *err == nil && last >= 0 && !pieces[last].Ends {
		t.Fatal("the last piece does not end its template")
	}
	return pieces
}

// joinedPieces makes steps of pieces, unless there was an error.
func joinedPieces(pieces []Piece, err error) (steps []Step) {
	isNew := true
	for _, p := range pieces {
		if err != nil {
			break
		}
		if isNew {
			steps = append(steps, Step{Label: p.Label})
		}
		steps[len(steps)-1].Actions = append(steps[len(steps)-1].Actions, p.Actions...)
		isNew = p.Ends
	}
	return steps
}

// FuzzWalk is useful only if enough rules give actions, in several pieces.
func TestGeneratedWalks(t *testing.T) {
	var gave, failed, past, several int
	const n = 300
	for seed := range uint64(n) {
		steps, pieces, err := checkWalk(t, randomBytes(seed))
		switch {
		case err != nil:
			failed++
			if IsPast(err) {
				past++
			}
		case len(steps) > 0:
			gave++
			if pieces > len(steps)+2 {
				several++
			}
		}
	}
	t.Logf("of %d rules %d gave actions, %d of them in several pieces; %d failed, %d of them on a past text", n, gave, several, failed, past)
	if gave < n/5 || several < n/10 || failed < n/10 || past < 1 {
		t.Errorf("of %d rules %d gave actions, %d of them in several pieces; %d failed, %d of them on a past text", n, gave, several, failed, past)
	}
}
