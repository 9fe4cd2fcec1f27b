package rule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// match asks whether a rule selects a change, and as what. If the payload fails, the match is
// Undecided, and whoever decides it reports why.
func (r *Rule) match(d delta.Delta, look Lookup) (m Match, ok bool, err error) {
	m, ok, err = r.Member(d, look)
	if !ok {
		return Match{}, false, err
	}
	m, ok, failure := r.Decide(m.Delta, look)
	if m.Undecided {
		return m, ok, err
	}
	return m, ok, errors.Join(err, failure)
}

// pod returns a state of one pod with this resourceVersion, phase and label tier.
func pod(t testing.TB, version int, phase, tier string) *object.Object {
	t.Helper()
	o, err := object.FromJSON(fmt.Appendf(nil,
		`{"metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"%d","labels":{"tier":%q}},"status":{"phase":%q}}`,
		version, tier, phase))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// everything decodes whole objects, and finds one object in any index.
type everything struct {
	indexed *object.Object
	now     time.Time
}

func (e everything) Now() time.Time { return e.now }

func (e everything) Old(o *object.Object) any { return e.Tree(o) }

func (e everything) Tree(o *object.Object) any {
	if o == nil {
		return nil
	}
	var all object.Paths
	all.Add()
	return o.Decode(&all)
}

func (e everything) ByIndex(_, _ string) expr.Found {
	return expr.Found{Len: 1, Trees: slices.Values([]any{e.Tree(e.indexed)})}
}

func (e everything) Lookup(_, _, _ string) expr.Found { return e.ByIndex("", "") }

func compile(t testing.TB, text string, scope expr.Scope) *expr.Program {
	t.Helper()
	if text == "" {
		return nil
	}
	p, err := expr.Compile(text, expr.Options{Scope: scope, Indexes: []string{"byTier"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMembership(t *testing.T) {
	in1, in2, in3 := pod(t, 1, "Running", "web"), pod(t, 2, "Running", "web"), pod(t, 3, "Failed", "web")
	out1, out2 := pod(t, 1, "Running", "db"), pod(t, 4, "Running", "db")
	for name, c := range map[string]struct {
		in   delta.Delta
		want string // kind and resourceVersion; "" for no match
	}{
		"added inside":                 {delta.Delta{Type: delta.Added, Object: in1}, "added 1"},
		"added outside":                {delta.Delta{Type: delta.Added, Object: out1}, ""},
		"synced inside":                {delta.Delta{Type: delta.Synced, Object: in1}, "synced 1"},
		"changed inside":               {delta.Delta{Type: delta.Updated, Object: in2, Old: in1}, "updated 2"},
		"changed outside":              {delta.Delta{Type: delta.Updated, Object: out2, Old: out1}, ""},
		"came in":                      {delta.Delta{Type: delta.Updated, Object: in2, Old: out1}, "added 2"},
		"went out, last state inside":  {delta.Delta{Type: delta.Updated, Object: out2, Old: in1}, "deleted 1"},
		"deleted inside, final state":  {delta.Delta{Type: delta.Deleted, Object: in3, Old: in1}, "deleted 3"},
		"deleted outside":              {delta.Delta{Type: delta.Deleted, Object: out2, Old: out1}, ""},
		"went out with its last state": {delta.Delta{Type: delta.Deleted, Object: out2, Old: in1}, "deleted 1"},
		"came in with its last state":  {delta.Delta{Type: delta.Deleted, Object: in3, Old: out1}, ""},
		"deleted, nothing known":       {delta.Delta{Type: delta.Deleted, Object: in3}, "deleted 3"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Rule{Where: compile(t, `object.metadata.labels.tier == "web"`, expr.Where), Events: delta.All}
			m, ok, err := r.match(c.in, everything{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if ok {
				got = m.Delta.Type.String() + " " + m.Delta.Object.ResourceVersion()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if ok && m.Delta.Type == delta.Updated != (m.Delta.Old != nil) {
				t.Errorf("a match that is %v has old %v", m.Delta.Type, m.Delta.Old)
			}
		})
	}
}

func TestOnlyEventsOfTheRuleMatch(t *testing.T) {
	r := &Rule{Where: compile(t, `object.metadata.labels.tier == "web"`, expr.Where), Events: delta.SetOf(delta.Deleted)}
	left := delta.Delta{Type: delta.Updated, Object: pod(t, 2, "Running", "db"), Old: pod(t, 1, "Running", "web")}
	if _, ok, _ := r.match(left, everything{}); !ok {
		t.Error("an update that leaves the where is a deletion to the rule")
	}
	r.Events = delta.SetOf(delta.Updated)
	if _, ok, _ := r.match(left, everything{}); ok {
		t.Error("an update that leaves the where is no update to the rule")
	}
}

func TestWhenSeesTheChange(t *testing.T) {
	failed := delta.Delta{Type: delta.Updated, Object: pod(t, 2, "Failed", "web"), Old: pod(t, 1, "Running", "web")}
	for text, want := range map[string]bool{
		`object.status.phase == "Failed" and old.status.phase != "Failed"`: true,
		`event == "updated"`:                              true,
		`old == nil`:                                      false,
		`now() == time("2026-01-02T03:04:05Z")`:           true,
		`len(byIndex("byTier", "web")) == 1`:              true,
		`byIndex("byTier", "web")[0].status.phase == nil`: false,
	} {
		r := &Rule{When: compile(t, text, expr.When), Events: delta.All}
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		if _, got, err := r.match(failed, everything{failed.Object, now}); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	gone := delta.Delta{Type: delta.Deleted, Object: failed.Object, Old: failed.Old}
	r := &Rule{When: compile(t, "old == nil", expr.When), Events: delta.All}
	if _, ok, err := r.match(gone, everything{}); !ok || err != nil {
		t.Errorf("old is nil unless updated: %v, %v", ok, err)
	}
}

// failing compares a string with an int, which fails.
const failing = `object.status.phase > 5`

// A change whose payload fails is selected, and the failure must be reported.
func TestFailingExpressionDoesNotMatch(t *testing.T) {
	added := delta.Delta{Type: delta.Added, Object: pod(t, 1, "Running", "web")}
	for field, r := range map[string]*Rule{
		"where":   {Where: compile(t, failing, expr.Where)},
		"when":    {When: compile(t, failing, expr.When)},
		"payload": {Payload: &Template{Members: []Member{{Name: "x", Value: &Template{Program: compile(t, failing, expr.Payload)}}}}},
	} {
		r.Events = delta.All
		m, ok, err := r.match(added, everything{})
		if field == "payload" && ok && m.Undecided && err == nil {
			m, ok, err = r.Decide(m.Delta, everything{})
		}
		if ok != (field == "payload") || m.Undecided != ok || err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: matches %v, undecided %v, error %v", field, ok, m.Undecided, err)
		}
	}
}

func TestWhereThatFailsOnTheOldStateIsOutside(t *testing.T) {
	text := `object.metadata.labels.tier == "db" ? object.status.phase > 5 : true`
	r := &Rule{Where: compile(t, text, expr.Where), Events: delta.All}
	m, ok, err := r.match(delta.Delta{Type: delta.Updated, Object: pod(t, 2, "Running", "web"), Old: pod(t, 1, "Running", "db")},
		everything{})
	if !ok || m.Delta.Type != delta.Added || err != nil { // it was an error when the state was new
		t.Errorf("matches %v as %v, error %v; want added, and no error", ok, m.Delta.Type, err)
	}
	m, ok, err = r.match(delta.Delta{Type: delta.Deleted, Object: pod(t, 1, "Running", "db")}, everything{})
	if ok || err != nil {
		t.Errorf("the deletion matches %v as %v, error %v; want neither", ok, m.Delta.Type, err)
	}
}

func TestWhereThatFailsOnBothStatesFailsOnce(t *testing.T) {
	r := &Rule{Where: compile(t, failing, expr.Where), Events: delta.All}
	change := delta.Delta{Type: delta.Updated, Object: pod(t, 2, "Running", "web"), Old: pod(t, 1, "Running", "web")}
	_, ok, err := r.match(change, everything{})
	if ok || err == nil || strings.Count(err.Error(), "where") != 1 {
		t.Errorf("matches %v, error %q; want the failure, once", ok, err)
	}
}

func TestPayload(t *testing.T) {
	program := func(text string) *Template { return &Template{Program: compile(t, text, expr.Payload), KeepNil: true} }
	payload := &Template{Members: []Member{
		{Name: "pod", Value: program("object.metadata.name")},
		{Name: "html", Value: program(`"<&>"`)},
		{Name: "absent", Value: program("object.spec.nodeName")},
		{Name: "list", Value: &Template{Items: []*Template{program("1 + 1"), {Members: []Member{}}}}},
		{Name: "labels", Value: program("object.metadata.labels")},
	}}
	r := &Rule{Payload: payload, Events: delta.All}
	m, ok, err := r.match(delta.Delta{Type: delta.Added, Object: pod(t, 1, "Running", "web")}, everything{})
	if !ok || err != nil {
		t.Fatalf("matches %v, error %v", ok, err)
	}
	want := `{"pod":"web","html":"<&>","absent":null,"list":[2,{}],"labels":{"tier":"web"}}`
	if string(m.Payload) != want || !json.Valid(m.Payload) {
		t.Errorf("payload %s, want %s", m.Payload, want)
	}
}

func TestPayloadOfAMergedChange(t *testing.T) {
	r := &Rule{Payload: &Template{Program: compile(t, `event + ": " + old.status.phase + " to " + object.status.phase`, expr.Payload)}}
	if !r.Payload.ReadsChange() {
		t.Error("the payload reads old and event")
	}
	merged := delta.Delta{Type: delta.Updated, Object: pod(t, 3, "Failed", "web"), Old: pod(t, 1, "Pending", "web")}
	if payload, err := r.Remerge(merged, everything{}); string(payload) != `"updated: Pending to Failed"` || err != nil {
		t.Errorf("payload %s, error %v", payload, err)
	}
	if (&Template{Program: compile(t, "object", expr.Payload)}).ReadsChange() || (*Template)(nil).ReadsChange() {
		t.Error("a payload of the object alone, or none, does not depend on the change")
	}
}

func TestPaths(t *testing.T) {
	r := &Rule{
		Where:   compile(t, `object.metadata.labels["a.b/c"] == "x"`, expr.Where),
		When:    compile(t, `old.status.phase == "x"`, expr.When),
		Payload: &Template{Items: []*Template{{Program: compile(t, "map(object.spec.containers, .image)", expr.Payload)}}},
	}
	want := "metadata.labels.a.b/c spec.containers[].image status.phase"
	if got := r.Paths().String(); got != want {
		t.Errorf("paths %q, want %q", got, want)
	}
}

// Most rules match few changes. A rule that does not match must not allocate.
func TestMismatchAllocatesNothing(t *testing.T) {
	d := delta.Delta{Type: delta.Updated, Object: pod(t, 2, "Failed", "web"), Old: pod(t, 1, "Running", "web")}
	look := &decoded{everything: everything{}, trees: map[*object.Object]any{d.Object: everything{}.Tree(d.Object), d.Old: everything{}.Tree(d.Old)}}
	for why, r := range map[string]*Rule{
		"where": {Where: compile(t, `object.metadata.labels.tier == "db"`, expr.Where), Events: delta.All},
		"when":  {When: compile(t, `object.status.phase == "Running" and old.status.phase in ["Failed"]`, expr.When), Events: delta.All},
		"event": {Where: compile(t, `object.metadata.labels.tier == "web"`, expr.Where), Events: delta.SetOf(delta.Added)},
		"both":  {Where: compile(t, `object.metadata.labels.tier == "web"`, expr.Where), When: compile(t, `event == "added"`, expr.When), Events: delta.All},
	} {
		least := 1.0
		for range 100 { // a pool may be empty now and then, and often is with the race detector
			least = min(least, testing.AllocsPerRun(1, func() {
				if _, ok, err := r.match(d, look); ok || err != nil {
					t.Errorf("%s: the rule matches or fails: %v", why, err)
				}
			}))
		}
		if least > 0 {
			t.Errorf("%s: got %v allocations, want none", why, least)
		}
	}
}

// decoded is a Lookup whose objects are already decoded.
type decoded struct {
	everything
	trees map[*object.Object]any
}

func (d *decoded) Tree(o *object.Object) any { return d.trees[o] }
func (d *decoded) Old(o *object.Object) any  { return d.trees[o] }
