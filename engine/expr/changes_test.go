package expr

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestNeverTrue(t *testing.T) {
	t.Parallel()
	o := Options{Scope: When, Sources: payload.Sources}
	for _, test := range []struct{ events, text string }{ // never true for these events
		{"updated", `event == "added"`},
		{"updated", `"added" == event and object.spec.x > 1`},
		{"updated", `object.spec.x > 1 && event in ["added", "synced"]`},
		{"added", `event == "deleted" or event == "updated" and object.spec.x`},
		{"added synced", `event matches "^(upd|del)"`},
		{"added", `event != "added"`},
		{"added", `not (event == "added")`},
		{"added", `event == "added" ? false : object.spec.x`},
		{"updated", `event == "updated" ? nil : object.spec.x`},
		{"updated", `let isNew = event == "added"; isNew and object.spec.x`},
		{"updated", `any(object.spec.list, event == "added" and .x)`},
		{"added", `object.spec.replicas > old.spec.replicas`},
		{"deleted", `object.spec.replicas - old.spec.replicas > 3`},
		{"added deleted synced", `old != nil and object.x != old.x`},
		{"added", `old?.metadata.labels.app == "web"`},
		{"added", `old["spec"].x`},
		{"added", `"a" in old.metadata.finalizers`},
		{"added", `(old.spec.x ?? old.spec.y) == 1`},
		{"added", `any(old.spec.list, .x)`},
		{"added", `any(lookup("nodes.byName", old.spec.nodeName), true)`},
		{"updated", `nil == object`},
		{"added updated deleted synced", `event == "added" and old.x > 1`},
	} {
		if !neverTrue(test.text, o, strings.Fields(test.events)) {
			t.Errorf("for %s: %s", test.events, test.text)
		}
	}
	for _, test := range []struct{ events, text string }{ // may be true, or nobody knows
		{"updated added", `event == "added"`},
		{"updated", `object.x != old.x`},
		{"added", `object.x != old.x`},
		{"added", `object.x == old.x`},
		{"added", `old == nil`},
		{"added", `old.x == nil`},
		{"updated", `object.x or event == "updated"`},
		{"updated", `event == "added" or object.x`},
		{"added", `(old ?? object).spec.x`},
		{"added", `none(old.spec.list, .x)`},
		{"updated", `event == "added" ? false : object.x`},
		{"updated", `not any(object.spec.list, event == "added")`},
		{"updated", `one(object.spec.list, event == "added") != false`}, // nil is no false
		{"updated", `(object.x ? nil : event == "added") != false`},
		{"updated", `event + 1 == 2`}, // fails
		{"updated", `event == "added" and nobody`},
		{"", `event == "added"`},
	} {
		if neverTrue(test.text, o, strings.Fields(test.events)) {
			t.Errorf("for %s: %s", test.events, test.text)
		}
	}
}

// What neverTrue calls never true is never true, for random conditions and random objects.
func TestNeverTrueIsCertain(t *testing.T) {
	t.Parallel()
	const seed = 11
	r := rand.New(rand.NewPCG(seed, seed))
	o := Options{Scope: When, Indexes: payload.Indexes, Sources: payload.Sources}
	objects := []any{
		tree(t, differentialObject), tree(t, `{}`), tree(t, `{"yes": true, "no": true, "n": 0, "items": []}`),
	}
	old := tree(t, `{"name": "old", "n": 0, "on": true, "tags": ["z"]}`)
	condition := func() string {
		data := make([]byte, 40)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		g := &generator{data: data, parts: 8}
		return g.expression("bool", 0)
	}
	known := []string{
		`event == "added"`, `event in ["deleted", "synced"]`, `event != "synced"`, `old != nil`, `old == nil`,
		`old.n >= 0`, `old.on`, `"z" in old.tags`, `any(old.tags, true)`, `(old?.name ?? event) == "added"`,
	}
	forms := []string{`%s and %s`, `%s or %s`, `not (%s) and %s`, `%s ? %s : false`, `let x = %s; x == %s`, `(%s) == (%s)`,
		`not (%s and not (%s))`, `any(object.items, %s and %s)`, `none(object.items, %s or %s)`, `if %s { nil } else { %s }`}
	never := 0
	for range 1000 {
		text := fmt.Sprintf(forms[r.IntN(len(forms))], known[r.IntN(len(known))], condition())
		if r.IntN(2) == 0 {
			text = fmt.Sprintf(forms[r.IntN(len(forms))], text, known[r.IntN(len(known))])
		}
		program, err := Compile(text, o)
		if err != nil {
			continue
		}
		for _, event := range eventTypes {
			if !neverTrue(text, o, []string{event}) {
				continue
			}
			never++
			env := &Env{Event: event, Now: testTime}
			olds := []any{nil} // an update may come without, too
			if event == "updated" {
				olds = append(olds, old)
			}
			for _, env.Old = range olds {
				for _, env.Object = range objects {
					if ok, _ := program.Bool(env); ok {
						t.Fatalf("%s\nis true of %v for %s, with old %v", text, env.Object, event, env.Old)
					}
				}
			}
		}
	}
	if never < 100 {
		t.Errorf("only %d conditions were called never true", never)
	}
}
