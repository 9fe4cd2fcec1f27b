package resume

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/object"
)

const pods, nodes = "v1/pods", "v1/nodes"

func TestDecide(t *testing.T) {
	cut := Cut{
		Rules: map[string]Memory{
			"kept":    {Name: "kept", Resource: pods, Seen: map[string]string{"all pods": ""}},
			"edited":  {Name: "edited", Resource: pods, Seen: map[string]string{"all pods": `object.kind == "a"`}},
			"widened": {Name: "widened", Resource: pods, Seen: map[string]string{"pods in shop": ""}},
			"moved":   {Name: "moved", Resource: nodes, Seen: map[string]string{"all nodes": ""}},
			"removed": {Name: "removed", Resource: pods, Seen: map[string]string{"all pods": ""}},
			"foreign": {Name: "foreign", Resource: pods, Seen: map[string]string{"all pods": "of another language ("}},
		},
		Informers: []string{"all pods", "pods in shop", "all nodes"},
	}
	planned := []Memory{
		{Name: "kept", Resource: pods, Seen: map[string]string{"all pods": ""}},
		{Name: "edited", Resource: pods, Seen: map[string]string{"all pods": `object.kind == "b"`}},
		{Name: "widened", Resource: pods, Seen: map[string]string{"all pods": ""}},
		{Name: "moved", Resource: pods, Seen: map[string]string{"all pods": ""}},
		{Name: "fresh", Resource: pods, Seen: map[string]string{"all pods": ""}},
		{Name: "foreign", Resource: pods, Seen: map[string]string{"all pods": "true"}},
	}
	d := Decide(planned, []string{"all pods"}, cut)

	if diff := cmp.Diff([]Gone{{"moved", true}, {"removed", false}}, d.Gone); diff != "" {
		t.Errorf("rules that are gone (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"pods in shop", "all nodes"}, d.Unwatched); diff != "" {
		t.Errorf("informers that nobody watches (-want +got)\n%s", diff)
	}
	for _, test := range []struct {
		rule     string
		standing Standing
		recorded bool
		why      string
	}{
		{"kept", Known, true, "it has seen the informer with the same where"},
		{"edited", Changed, true, "its where is another"},
		{"widened", New, false, "it has seen another informer only"},
		{"moved", New, false, "what was recorded is about another resource"},
		{"fresh", New, false, "nothing was recorded of it"},
		{"foreign", New, true, "its where cannot be compiled any more"},
	} {
		if v := d.At(test.rule, "all pods"); v.Standing != test.standing || v.Recorded != test.recorded {
			t.Errorf("%s: %v, recorded %v; want %v, %v: %s", test.rule, v.Standing, v.Recorded, test.standing, test.recorded, test.why)
		}
	}
	if len(cut.Rules) != 6 {
		t.Error("Decide changed the cut")
	}
}

func TestMembership(t *testing.T) {
	o, err := object.FromJSON([]byte(`{"kind":"a","metadata":{"namespace":"shop","name":"web"}}`))
	if err != nil {
		t.Fatal(err)
	}
	d := Decide(nil, nil, Cut{Rules: map[string]Memory{}})
	if d.At("any", "all pods").Before.Has(o, false, nil) {
		t.Error("a rule that has seen nothing had an object inside")
	}
	for _, test := range []struct {
		where      string
		isIdentity bool
		names      []string
		want       bool
		why        string
	}{
		{"", false, nil, true, "no where: every object is inside"},
		{"", true, nil, true, "also where only identities are kept"},
		{`object.kind == "a"`, false, nil, true, "where holds"},
		{`object.kind == "b"`, false, []string{"r"}, false, "where decides, not the names"},
		{`object.kind == "a"`, true, nil, false, "of an identity the names decide, not where"},
		{`object.kind == "a"`, true, []string{"q", "r"}, true, "it is named"},
		{`object.kind > 5`, false, nil, false, "a where that fails is not inside"},
	} {
		m, err := membershipOf("r", test.where)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Has(o, test.isIdentity, test.names); got != test.want {
			t.Errorf("where %q, identity %v, names %v: %v, want %v: %s", test.where, test.isIdentity, test.names, got, test.want, test.why)
		}
	}
}

// A rule that was catching up may have had inside what satisfies the where before, or the one that it
// was to see.
func TestCatchingUp(t *testing.T) {
	one, two := `object.data.size == "1"`, `object.data.size == "2"`
	obj := func(size string) *object.Object {
		o, err := object.FromJSON([]byte(`{"metadata":{"name":"a"},"data":{"size":"` + size + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, c := range []struct {
		was     string
		hasSeen bool
		now     string
		has     []string // of the sizes 1, 2 and 3
	}{
		{"", false, one, []string{"1"}},
		{"", false, "", []string{"1", "2", "3"}},
		{one, true, two, []string{"1", "2"}},
		{one, true, one, []string{"1"}},
		{"", true, two, []string{"1", "2", "3"}},
		{CatchingUp("", false, one), true, two, []string{"1", "2"}},
		{CatchingUp(one, true, two), true, two, []string{"1", "2"}},
		{CatchingUp("", false, one), true, one, []string{"1"}},
	} {
		text := CatchingUp(c.was, c.hasSeen, c.now)
		d := Decide([]Memory{{Name: "r", Seen: map[string]string{"i": c.now}}}, []string{"i"},
			Cut{Rules: map[string]Memory{"r": {Name: "r", Seen: map[string]string{"i": text}}}, Informers: []string{"i"}})
		v := d.At("r", "i")
		if v.Standing != Changed {
			t.Errorf("%q: the rule is %v", text, v.Standing)
		}
		var has []string
		for _, size := range []string{"1", "2", "3"} {
			if v.Before.Has(obj(size), false, nil) {
				has = append(has, size)
			}
		}
		if !slices.Equal(has, c.has) {
			t.Errorf("%q: it has %v, want %v", text, has, c.has)
		}
	}
}

// A rule that returns to an informer while it still learns that it has left it counts as Changed,
// whatever it was catching up with.
func TestLeaving(t *testing.T) {
	t.Parallel()
	const where = `object.kind == "A"`
	for _, was := range []string{where, CatchingUp("", false, where), CatchingUp(where, true, ""), Leaving(where)} {
		text := Leaving(was)
		cut := Cut{Rules: map[string]Memory{"r": {Name: "r", Seen: map[string]string{"i": text}}}, Informers: []string{"i"}}
		v := Decide([]Memory{{Name: "r", Seen: map[string]string{"i": where}}}, []string{"i"}, cut).At("r", "i")
		if v.Standing != Changed || !v.Before.Seen() {
			t.Errorf("%q: %+v", text, v)
		}
	}
}
