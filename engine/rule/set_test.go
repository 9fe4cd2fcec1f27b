package rule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

func mustObject(t testing.TB, text string) *object.Object {
	t.Helper()
	o, err := object.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// watching is a Lookup that records which states it decodes.
type watching struct {
	everything
	decoded []*object.Object
}

func (w *watching) Old(o *object.Object) any { return w.Tree(o) }

func (w *watching) Tree(o *object.Object) any {
	if o != nil && !slices.Contains(w.decoded, o) {
		w.decoded = append(w.decoded, o)
	}
	return w.everything.Tree(o)
}

// rulesOf makes a rule of each text. The text is a where, and after a | a when.
func rulesOf(t testing.TB, texts ...string) []*Rule {
	t.Helper()
	rules := make([]*Rule, len(texts))
	for i, text := range texts {
		where, when, _ := strings.Cut(text, "|")
		rules[i] = &Rule{
			Name: text, Events: delta.All,
			Where: compile(t, strings.TrimSpace(where), expr.Where), When: compile(t, strings.TrimSpace(when), expr.When),
		}
	}
	return rules
}

// numbered returns n texts, each with its number inserted.
func numbered(n int, text string) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf(text, i)
	}
	return texts
}

func found(s *Set, d delta.Delta, look Lookup) (rules []int) {
	s.Each(d, look, func(i int, _ *Rule) { rules = append(rules, i) })
	return rules
}

func TestSetFindsRules(t *testing.T) {
	state := func(version int, app, phase string) *object.Object {
		return mustObject(t, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"web","uid":"u","resourceVersion":"%d","labels":{"app":%q,"a/b":"c"}},"status":{"phase":%q}}`, version, app, phase))
	}
	web, db := state(1, "web", "Pending"), state(2, "db", "Running")
	updated := delta.Delta{Type: delta.Updated, Object: db, Old: web}
	added := delta.Delta{Type: delta.Added, Object: db}
	gone := delta.Delta{Type: delta.Deleted, Object: db, Old: web}
	const (
		nothing = "nothing"
		one     = "the new state"
		both    = "both states"
	)
	for _, c := range []struct {
		why     string
		d       delta.Delta
		decoded string
		rules   []string // a leading * marks those that Each must find
	}{
		{"a rule without a where or when is always found", updated, nothing, []string{"*"}},
		{"so is one that requires nothing", updated, nothing, []string{`* object.status.phase != "Failed"`, `*| old.status.phase == "Failed"`, `* object.a == "x" or object.b == "y"`}},
		{"a namespace needs no decoding", updated, nothing, []string{`* object.metadata.namespace == "shop"`, `object.metadata.namespace == "pay"`, `* object.metadata.namespace in ["pay", "shop"]`}},
		{"nor does a name", updated, nothing, []string{`* object.metadata.name == "web"`, `object.metadata.name in ["db", "x"]`}},
		{"in another namespace no rule needs labels", updated, nothing, []string{`object.metadata.namespace == "pay" and object.metadata.labels.app == "web"`}},
		{"in its own they tell many rules apart", updated, both, append(
			numbered(20, `object.metadata.namespace == "shop" and object.metadata.labels.app == "cache-%d"`),
			`* object.metadata.namespace == "shop" and object.metadata.labels.app == "web"`,
		)},
		{"but to tell few apart decoding the old state costs too much", updated, nothing, []string{
			`* object.metadata.namespace == "shop" and object.metadata.labels.app == "cache"`,
			`* object.metadata.name == "web" and object.metadata.labels.app == "cache"`,
		}},
		{"a field that all rules ask for tells nothing apart", added, one, []string{
			`object.kind == "Pod" and object.metadata.labels.app == "web"`,
			`* object.kind == "Pod" and object.metadata.labels.app == "db"`,
		}},
		{"a where is about either state", updated, both, []string{`* object.metadata.labels.app == "web"`, `* object.metadata.labels.app == "db"`, `object.metadata.labels.app == "cache"`}},
		{"also of what is gone", gone, both, []string{`* object.metadata.labels.app == "web"`, `object.metadata.labels.app == "cache"`}},
		{"there is one state of what is added", added, one, []string{`object.metadata.labels.app == "web"`, `* object.metadata.labels.app == "db"`}},
		{"a when without a where sees the new state", updated, one, []string{`| object.status.phase == "Pending"`, `*| object.status.phase == "Running"`}},
		{"a when behind a where may see the old one, when the object leaves the where", updated, both, []string{
			`*! object.metadata.labels.x | object.status.phase == "Pending"`, `*! object.metadata.labels.x | object.status.phase == "Running"`,
			`! object.metadata.labels.x | object.status.phase == "Failed"`,
		}},
		{"keys with dots and slashes", updated, both, []string{`* object.metadata.labels["a/b"] == "c"`, `object.metadata.labels["a/b"] == "d"`}},
		{"a contradiction is never true", updated, nothing, []string{`object.metadata.labels.app == "web" and object.metadata.labels.app == "db"`}},
		{"an absent field is not a string", updated, both, []string{`object.spec.nodeName == "n"`, `object.metadata.annotations.x.y in ["n"]`}},
		{"a field of a string fails, which its author wants to hear of", updated, both, []string{`* object.status.phase.reason == "x"`, `object.status.reason.x == "x"`}},
	} {
		t.Run(c.why, func(t *testing.T) {
			var texts []string
			var want []int
			for i, r := range c.rules {
				text, ok := strings.CutPrefix(r, "*")
				if ok {
					want = append(want, i)
				}
				texts = append(texts, text)
			}
			look := new(watching)
			got := found(NewSet(rulesOf(t, texts...)), c.d, look)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("found (-want +got)\n%s", diff)
			}
			decoded := nothing
			switch {
			case len(look.decoded) == 2:
				decoded = both
			case slices.Contains(look.decoded, c.d.Object):
				decoded = one
			case len(look.decoded) == 1:
				decoded = "the old state"
			}
			if decoded != c.decoded {
				t.Errorf("decoded %s, want %s", decoded, c.decoded)
			}
		})
	}
}

// What a Set asks of an object must not depend on how many rules the Set has, whatever the rules
// have in common.
func TestManyRules(t *testing.T) {
	labels := numbered(1000, `"app-%d":"on"`)
	few := mustObject(t, `{"metadata":{"namespace":"shop","name":"few","labels":{"app-7":"on","app":"7"}},"status":"odd"}`)
	many := mustObject(t, `{"metadata":{"namespace":"shop","name":"many","labels":{`+strings.Join(labels, ",")+`}},"status":{"phase":"7"}}`)
	values, some := strings.Join(numbered(1500, `"%d"`), ", "), strings.Join(numbered(500, `"%d"`), ", ")
	for _, c := range []struct {
		why       string
		rules     []string
		few, many int // how many rules Each finds
	}{
		{"one label, a value each", numbered(1000, `object.metadata.labels.app == "%d"`), 1, 0},
		{"a label each", numbered(1000, `object.metadata.labels["app-%d"] == "on"`), 1, 1000},
		{"a namespace each", numbered(1000, `object.metadata.namespace == "team-%d"`), 0, 0},
		{"a name each, in one namespace", numbered(1000, `object.metadata.namespace == "shop" and object.metadata.name == "%d"`), 0, 0},
		{"a name each, in overlapping namespaces", numbered(1000, `object.metadata.namespace in ["shop", "team-%[1]d"] and object.metadata.name == "%[1]d"`), 0, 0},
		{"one value for all", numbered(1000, `object.metadata.labels.app == "7" and object.n > %d`), 1000, 0},
		{"many values each", numbered(50, `object.metadata.labels.app in [`+values+`, "also-%d"]`), 50, 0},
		{"all contradict themselves", numbered(1000, `object.metadata.labels.app == "7" and object.metadata.labels.app == "not-%d"`), 0, 0},
		{"one value for all, and another field", numbered(1000, `object.metadata.labels.app == "7" and object.metadata.name == "web-%d"`), 0, 0},
		{"one value for all, and another label", append(
			numbered(1000, `object.metadata.labels["app-7"] == "on" and object.metadata.labels.app == "%d"`), `object.metadata.labels["app-7"] == "on"`,
		), 2, 1},
		{"one namespace for all, and a label", numbered(1000, `object.metadata.namespace == "shop" and object.metadata.labels.app == "%d"`), 1, 0},
		{"a window of a few values each, and one of two values", numbered(1000, `object.metadata.labels.app in ["%[1]d", "1%[1]d"] and object.metadata.labels["app-7"] in ["on", "off"] and object.metadata.namespace in ["a", "shop"]`), 1, 0},
		{"more values than a Set copies a rule for", numbered(20, `object.metadata.labels.app in [`+some+`, "also-%[1]d"] and object.metadata.labels["app-7"] in [`+some+`, "also-%[1]d", "x"]`), 20, 0},
		{"a field that is none on one of the objects", numbered(1000, `object.status.phase == "%d"`), 1000, 1},
		{"old alone tells nothing", numbered(1000, `| old.metadata.labels.app == "%d"`), 1000, 1000},
	} {
		t.Run(c.why, func(t *testing.T) {
			s := NewSet(rulesOf(t, c.rules...))
			for o, want := range map[*object.Object]int{few: c.few, many: c.many} {
				for range 2 {
					if got := found(s, delta.Delta{Type: delta.Added, Object: o}, everything{}); len(got) != want {
						t.Errorf("the Set finds %d rules for %s, want %d", len(got), o.Name(), want)
					}
				}
			}
		})
	}
}

// The old state of a change was the new state of the change before. The Set remembers which rules
// it found then, and does not decode the old state again.
func TestSetRemembers(t *testing.T) {
	web := mustObject(t, `{"metadata":{"name":"a","uid":"u","resourceVersion":"1","labels":{"tier":"web"}}}`)
	db := mustObject(t, `{"metadata":{"name":"a","uid":"u","resourceVersion":"2","labels":{"tier":"db"}}}`)
	none := mustObject(t, `{"metadata":{"name":"a","uid":"u","resourceVersion":"3"}}`)
	s := NewSet(rulesOf(t, `object.metadata.labels.tier == "web"`, `object.metadata.labels.tier == "db"`))
	for _, c := range []struct {
		d       delta.Delta
		want    []int
		decoded []*object.Object
	}{
		{delta.Delta{Type: delta.Added, Object: web}, []int{0}, []*object.Object{web}},
		{delta.Delta{Type: delta.Updated, Old: web, Object: db}, []int{0, 1}, []*object.Object{db}},
		{delta.Delta{Type: delta.Synced, Object: db, Round: 1}, []int{1}, []*object.Object{db}},
		{delta.Delta{Type: delta.Updated, Old: db, Object: none}, []int{1}, []*object.Object{none}},
		{delta.Delta{Type: delta.Deleted, Old: none, Object: web}, []int{0}, []*object.Object{web}},
		// the Set never saw web as a new state
		{delta.Delta{Type: delta.Updated, Old: web, Object: db}, []int{0, 1}, []*object.Object{db, web}},
		{delta.Delta{Type: delta.Deleted, Old: db, Object: db}, []int{1}, []*object.Object{db}},
	} {
		look := &watching{}
		var found []int
		s.Each(c.d, look, func(i int, _ *Rule) { found = append(found, i) })
		if !slices.Equal(found, c.want) || !slices.Equal(look.decoded, c.decoded) {
			t.Errorf("%v of %s: found %v, want %v; decoded %v, want %v", c.d.Type, c.d.Object.JSON(), found, c.want, look.decoded, c.decoded)
		}
	}
	if n := len(s.before.states); n > 0 {
		t.Errorf("the Set still remembers %d deleted objects", n)
	}
}
