package evaluate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/timing"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const head = `
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: log}
spec: {builtin: log}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps, indexes: {size: object.data.size}}
`

func aRule(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: %s}\nspec: {source: maps, handler: log, %s}\n", name, spec)
}

// evaluator makes an Evaluator of manifests. standing holds the standing of rules by name; rules
// that are missing there have the zero Standing.
func evaluator(t *testing.T, cache evaluate.Cache, standing map[string]evaluate.Standing, manifests string) *evaluate.Evaluator {
	t.Helper()
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(head + manifests)}})
	p, more := plan.Compile(c)
	if mistakes = append(mistakes, more...); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	informer := p.Informers[0]
	var rules []evaluate.Binding
	for _, r := range informer.Rules {
		rules = append(rules, evaluate.Binding{
			Rule: &r.Rule, ID: r.Name, Rounds: r.Rounds, KnowsOwn: true,
			Caches: &evaluate.Caches{Own: evaluate.Reading{Cache: cache, Paths: r.Paths()}},
		})
	}
	scope := evaluate.NewScope(object.NewDecoder(informer.View), object.NewDecoder(informer.View))
	return evaluate.New(rules, func(i int) evaluate.Standing { return standing[rules[i].Name] }, scope)
}

func configMap(t *testing.T, version, size string) *object.Object {
	t.Helper()
	o, err := object.FromJSON(fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":"a","uid":"u","resourceVersion":%q},"data":{"size":%q}}`, version, size))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// texts describes a Change, with rules by position.
func texts(c *evaluate.Change) (out []string) {
	for _, m := range c.Matches {
		text := fmt.Sprintf("%d %s %s", m.Rule, m.Delta.Type, m.Delta.Object.ResourceVersion())
		if m.Payload != nil {
			text += " " + string(m.Payload)
		}
		if m.Undecided {
			text += " undecided"
		}
		out = append(out, text)
	}
	for _, f := range c.Failures {
		out = append(out, fmt.Sprintf("%d failed", f.Rule))
	}
	return out
}

type noCache struct{}

func (noCache) ByIndex(string, string) (object.Bucket, error) { return object.Bucket{}, nil }

type panics struct{}

func (panics) ByIndex(string, string) (object.Bucket, error) { panic("a cache that is broken") }

func TestEvaluate(t *testing.T) {
	manifests := aRule("all", "events: [added, updated, deleted, synced]") +
		aRule("small", `where: object.data.size == "1", payload: {size: object.data.size, at: string(now())}`) +
		aRule("hourly", "resync: 1h, payload: object.data.size") +
		aRule("grown", `when: object.data.size > old.data.size`)
	small, large := configMap(t, "1", "1"), configMap(t, "2", "2")
	at := ` {"size":"1","at":"2026-01-02T03:04:05Z"}`
	for _, test := range []struct {
		why      string
		step     evaluate.Step
		standing map[string]evaluate.Standing
		want     []string
	}{
		{
			why:  "a new object: membership by where, and the time that was given",
			step: evaluate.Step{Delta: delta.Delta{Type: delta.Added, Object: small}},
			want: []string{"0 added 1", "1 added 1" + at, "2 added 1 " + `"1"`},
		},
		{
			why:  "an update that leaves where is a deletion, with the last state inside",
			step: evaluate.Step{Delta: delta.Delta{Type: delta.Updated, Object: large, Old: small}},
			want: []string{"0 updated 2", "1 deleted 1" + at, "2 updated 2 " + `"2"`, "3 updated 2"},
		},
		{
			why:  "a resync round is for the rules with its interval",
			step: evaluate.Step{Delta: delta.Delta{Type: delta.Synced, Object: large, Round: 7}, Round: timing.Every(time.Hour)},
			want: []string{"2 synced 2 " + `"2"`},
		},
		{
			why:      "a deaf rule is left out",
			step:     evaluate.Step{Delta: delta.Delta{Type: delta.Added, Object: small}},
			standing: map[string]evaluate.Standing{"all": {Deaf: true}, "hourly": {Deaf: true}},
			want:     []string{"1 added 1" + at},
		},
		{
			why:      "an undecided rule's membership is evaluated, and neither when nor payload",
			step:     evaluate.Step{Delta: delta.Delta{Type: delta.Updated, Object: small, Old: large}},
			standing: map[string]evaluate.Standing{"small": {Undecided: true}, "grown": {Undecided: true}, "hourly": {Deaf: true}},
			want:     []string{"0 updated 1", "1 added 1 undecided", "3 updated 1 undecided"},
		},
	} {
		t.Run(test.why, func(t *testing.T) {
			e := evaluator(t, noCache{}, test.standing, manifests)
			test.step.Now = now
			for range 2 { // the result depends only on the arguments
				var c evaluate.Change
				e.Evaluate(test.step, &c)
				if diff := cmp.Diff(test.want, texts(&c)); diff != "" {
					t.Fatalf("(-want +got)\n%s", diff)
				}
			}
		})
	}
}

func TestMatchNamesTheChange(t *testing.T) {
	e := evaluator(t, noCache{}, nil, aRule("all", ""))
	var c evaluate.Change
	e.Evaluate(evaluate.Step{Delta: delta.Delta{Type: delta.Added, Object: configMap(t, "1", "1")}, Version: " to 1", Now: now}, &c)
	if len(c.Matches) != 1 || c.Matches[0].Version != " to 1" {
		t.Errorf("matches %+v, want one with the version of the change", c.Matches)
	}
}

func TestPanicIsAFailureOfTheRule(t *testing.T) {
	e := evaluator(t, panics{}, nil, aRule("panics", `when: 'len(byIndex("size", "1")) > 0'`)+aRule("all", ""))
	var c evaluate.Change
	e.Evaluate(evaluate.Step{Delta: delta.Delta{Type: delta.Added, Object: configMap(t, "1", "1")}, Now: now}, &c)
	if diff := cmp.Diff([]string{"1 added 1", "0 failed"}, texts(&c)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCompare(t *testing.T) {
	small, large := configMap(t, "1", "1"), configMap(t, "2", "2")
	for _, test := range []struct {
		before evaluate.Before
		now    *object.Object
		want   []string
		why    string
	}{
		{evaluate.Before{}, small, []string{"0 synced 1"}, "it came in"},
		{evaluate.Before{Object: small}, small, []string{"0 synced 1"}, "it was there, outside"},
		{evaluate.Before{Object: small, Inside: true}, small, []string{"0 synced 1"}, "it is inside still"},
		{evaluate.Before{Object: small, Inside: true}, large, []string{"0 deleted 1"}, "it fell out: its last state inside"},
		{evaluate.Before{Object: large}, large, nil, "it was outside, and is"},
	} {
		e := evaluator(t, noCache{}, map[string]evaluate.Standing{"small": {Deaf: true}}, aRule("small", `where: object.data.size == "1"`))
		var c evaluate.Change
		e.Compare(0, test.before, evaluate.Step{Delta: delta.Delta{Object: test.now}, Now: now}, false, &c)
		e.Forget()
		if diff := cmp.Diff(test.want, texts(&c)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.why, diff)
		}
		for _, m := range c.Matches {
			if round := int64(0); m.Delta.Type == delta.Synced {
				if test.before.Inside {
					round = delta.Known
				}
				if m.Delta.Round != round {
					t.Errorf("%s: round %d, want %d", test.why, m.Delta.Round, round)
				}
			}
		}
	}
}

func TestInside(t *testing.T) {
	e := evaluator(t, noCache{}, nil, aRule("all", "")+aRule("small", `where: object.data.size == "1"`)+aRule("large", `where: object.data.size == "2"`))
	late := func(i int) (inside, ok bool) { return true, i == 2 }
	if diff := cmp.Diff([]string{"small", "large"}, e.Inside(configMap(t, "1", "1"), new(evaluate.Change), late)); diff != "" {
		t.Errorf("rules that have the object inside (-want +got)\n%s", diff)
	}
}

func TestResetKeepsNothing(t *testing.T) {
	e := evaluator(t, noCache{}, nil, aRule("all", ""))
	var c evaluate.Change
	o := configMap(t, "1", "1")
	e.Evaluate(evaluate.Step{Delta: delta.Delta{Type: delta.Added, Object: o}, Now: now}, &c)
	c.Record(delta.Delta{Type: delta.Added, Object: o})
	c.Moved = true
	c.Reset()
	if !c.IsEmpty() || c.Put != nil || len(c.Failures) > 0 {
		t.Errorf("after Reset: %+v", c)
	}
	if all := c.Matches[:cap(c.Matches)]; all[0].Delta.Object != nil {
		t.Error("a change that was reset holds on to an object")
	}
}
