package simulate

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/object"
)

// The reason of a failure is that of the object, also if others of the rule failed since.
func TestExplainFailureOfEachObject(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{Answer: func(e Event) Answer {
		return Answer{Retry: "no room for " + e.Event.Name}
	}}, sizes, "kind: Handler, metadata: {name: h}, spec: {builtin: log, retry: {backoff: 10s}}", ruleOf("r", ""))
	b.put("a", "1")
	b.must(b.Advance(time.Second))
	b.put("b", "1")
	b.must(b.Advance(time.Second))
	b.explains("r", "Its last event (added) has failed 1 time, and is tried again in 8s: no room for a.")
}

// What a rule would make of an object now is about an event that it may have.
func TestExplainSupposesAnEventOfTheRule(t *testing.T) {
	t.Parallel()
	acts := `, when: 'object.data.size == "1"', actions: [{delete: {}}]`
	b := simulation(t, Options{}, sizes, recorder,
		ruleOf("all", acts), ruleOf("comes", ", events: [added]"+acts), ruleOf("changes", ", events: [updated]"+acts),
		ruleOf("old", `, events: [updated], when: 'object.data.size != old.data.size', actions: [{delete: {}}]`),
		ruleOf("goes", ", events: [deleted]"+acts))
	b.put("a", "1")
	b.must(b.Advance(time.Second))
	b.must(b.Restart(Restart{Down: time.Minute})) // which remembers no change
	b.must(b.Advance(time.Second))
	for rule, want := range map[string]string{"all": "synced", "comes": "added", "changes": "updated", "old": "updated", "goes": "deleted"} {
		x := b.explains(rule)
		if x.When == nil || x.When.Event != want || !x.When.IsNow || x.Acts == nil || x.Acts.Event != want {
			t.Errorf("rule %s: when %+v, actions %+v", rule, x.When, x.Acts)
		} else if isKnown := x.When.Part != nil; isKnown != (rule != "old") {
			t.Errorf("rule %s: when is known: %v", rule, isKnown)
		}
	}
}

// An expression that fails on what an object was, or on an object that goes, is not the object's fault,
// and a fault ends with the object's text.
func TestFaultsThatAreOver(t *testing.T) {
	t.Parallel()
	manifests := []string{
		sizes, recorder, ruleOf("where", `, where: int(object.data.size) > 3`), ruleOf("late", `, for: 1m, where: int(object.data.size) > 3`),
		ruleOf("when", `, when: int(object.data.size) > 3`), ruleOf("old", `, when: 'int(object.data.size) > int(old.data.size ?? "0")'`),
		ruleOf("payload", `, payload: int(object.data.size)`),
	}
	status := func(b *bench) map[string]admin.RuleStatus {
		all := make(map[string]admin.RuleStatus)
		s, _ := b.Status()
		for _, r := range s.Rules {
			all[r.Name] = r
		}
		return all
	}
	is := func(b *bench, rule string, count uint64, fault engine.Fault, isOver bool) {
		t.Helper()
		r := status(b)[rule]
		if r.Errors != count || r.LastError == nil || r.LastError.Fault != fault || r.LastError.IsOver != isOver {
			t.Errorf("rule %s: %d errors, the last: %+v", rule, r.Errors, r.LastError)
		}
	}
	t.Run("mended", func(t *testing.T) {
		b := simulation(t, Options{}, manifests...)
		b.put("a", "many")
		b.must(b.Advance(time.Second))
		failed := status(b)["payload"].Errors // before the delivery, and at it
		is(b, "payload", failed, engine.OfObject, false)
		for _, rule := range []string{"where", "late", "when", "old"} {
			is(b, rule, 1, engine.OfObject, false)
		}
		b.put("a", "7")
		b.must(b.Advance(time.Second))
		is(b, "where", 1, engine.OfObject, true)
		is(b, "late", 1, engine.OfObject, true)
		is(b, "when", 1, engine.OfObject, true)
		is(b, "payload", failed, engine.OfObject, true)
		is(b, "old", 2, engine.OfPast, false) // the update was not delivered for it
	})
	t.Run("deleted", func(t *testing.T) {
		b := simulation(t, Options{}, manifests...)
		b.put("a", "many")
		b.must(b.Advance(time.Second))
		b.must(b.Delete("maps", "shop", "a"))
		b.must(b.Advance(time.Second))
		is(b, "where", 1, engine.OfObject, true)
		is(b, "late", 1, engine.OfObject, true)
		is(b, "when", 2, engine.OfPast, false) // the deletion was not delivered for it
	})
	t.Run("still", func(t *testing.T) {
		b := simulation(t, Options{}, manifests...)
		b.put("a", "many")
		b.must(b.Advance(time.Second))
		b.put("a", "more")
		b.must(b.Advance(time.Second))
		is(b, "where", 2, engine.OfObject, false)
		is(b, "when", 2, engine.OfObject, false)
		is(b, "old", 2, engine.OfObject, false)
	})
}

// Without a daemon nobody knows what is looked up, and an update needs the state before.
func TestExplainWithoutADaemon(t *testing.T) {
	t.Parallel()
	others := "kind: Source, metadata: {name: others}, spec: {resource: v1/secrets, indexes: {byType: object.type}}"
	const found = `lookup("others.byType", "Opaque")`
	p := compile(t, sizes, others, recorder,
		ruleOf("when", ", when: 'len("+found+") > 0'"),
		ruleOf("needless", `, when: 'object.data.size == "9" and len(`+found+`) > 0'`),
		"kind: Rule, metadata: {name: acts}, spec: {source: maps, actions: [{delete: {}, forEach: '"+found+"'}]}",
		ruleOf("updated", ", events: [updated]"), ruleOf("deleted", ", events: [deleted]"), ruleOf("added", ", events: [added]"))
	state := func(size string) *object.Object {
		o, err := object.FromJSON([]byte(`{"metadata":{"namespace":"shop","name":"a","uid":"u","resourceVersion":"` + size + `"},"data":{"size":"` + size + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, c := range []struct {
		rule   string
		hasOld bool
		want   string
	}{
		{"when", false, "If it were added now, whether the event would be delivered depends on what when looks up, which is not known without a daemon."},
		{"when", true, "Whether this update would be delivered depends on what when looks up, which is not known without a daemon."},
		{"needless", false, `If it were added now, the event would not be delivered: when is false because object.data.size is "2".`},
		{"acts", true, "This update would perform actions or not: that depends on what they look up, which is not known without a daemon."},
		{"updated", false, "If it were added now, the event would not be delivered: the rule's events are updated alone; give the state before with --old."},
		{"updated", true, "This update would be delivered."},
		{"deleted", false, "If it were added now, the event would not be delivered: the rule's events are deleted alone."},
		{"added", true, "This update would not be delivered: the rule's events are added alone."},
	} {
		of := explain.Case{Key: delta.Key{Namespace: "shop", Name: "a"}, Object: state("2"), Now: time.Now()}
		for _, r := range p.Rules {
			if r.Name == c.rule {
				of.Rule = r
			}
		}
		if c.hasOld {
			of.Old = state("1")
		}
		x := explain.Explain(of)
		x.Conclude()
		if want := "It is a member, as all objects of the source are. " + c.want; x.Answer != want {
			t.Errorf("rule %s: %q\nwant %q", c.rule, x.Answer, want)
		}
	}
}

// What may quote a Secret is masked wherever it stands, and nothing else is.
func TestExplainMasksAlike(t *testing.T) {
	t.Parallel()
	const secret = "2026-03-01T00:00:00Z"
	b := simulation(t, Options{}, recorder, sizes,
		"kind: Source, metadata: {name: secrets}, spec: {resource: v1/secrets, indexes: {byName: object.metadata.name}}",
		`kind: Rule, metadata: {name: ends}, spec: {source: secrets, handler: h, due: time(object.data.ends)}`,
		`kind: Rule, metadata: {name: each}, spec: {source: secrets, actions: [{delete: {}, forEach: '["x", object.metadata.name]', if: 'item == object.data.other'}]}`)
	b.must(b.Apply("secrets", []byte(`{"kind":"Secret","metadata":{"namespace":"shop","name":"a"},"data":{"ends":"`+secret+`","other":"hidden"}}`)))
	b.must(b.Advance(time.Second))
	mask := func(text []byte) []byte {
		return []byte(strings.NewReplacer(secret, "***", "hidden", "***").Replace(string(text)))
	}
	x := b.explainMasked("ends", "a", mask)
	if text := jsonOf(t, x); strings.Contains(text, "2026-03-01") || !strings.Contains(x.Answer, "Not a member yet: due lies ahead, and is not shown, as it may quote a Secret.") {
		t.Errorf("due: %s", text)
	}
	if x = b.explainMasked("ends", "a", nil); !strings.Contains(x.Answer, "Not a member yet: due is "+secret) {
		t.Errorf("due on request: %s", x.Answer)
	}
	x = b.explainMasked("each", "a", mask)
	one := x.Acts.Actions[0]
	if text := jsonOf(t, x); strings.Contains(text, "hidden") || string(one.ForEach.Value) != `["x","a"]` || one.Item == nil || *one.Item != 0 {
		t.Errorf("forEach: %s", text)
	}
	var item json.RawMessage
	for _, p := range one.If.Parts {
		if p.Text == "item" {
			item = p.Value
		}
	}
	if string(item) != `"x"` || !strings.Contains(x.Answer, `item is "x"`) {
		t.Errorf("the item is shown as %s: %s", item, x.Answer)
	}
}

// An attempt is as old as the change that gave its event the id, whatever it was merged with.
func TestExplainSinceWhenItWasSelected(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, ruleOf("r", ""),
		`kind: Rule, metadata: {name: nightly}, spec: {handler: h, schedule: {cron: "0 4 * * *"}}`)
	b.must(b.Advance(time.Second))
	b.must(b.stepper.Engine().SetPaused("r", true))
	b.put("a", "1")
	b.must(b.Advance(5 * time.Second))
	b.put("a", "2")
	b.must(b.Advance(time.Second))
	b.must(b.stepper.Engine().SetPaused("r", false))
	b.must(b.Advance(time.Second))
	x := b.explains("r", "Its last event (added) was delivered 1s ago.")
	if a := x.Attempts[len(x.Attempts)-1]; a.What != "done" || a.LatencySeconds != 1 {
		t.Errorf("%+v, want 1s since the newest change was selected", a)
	}
	all, _, _, err := b.stepper.Engine().Happenings("r", 0)
	b.must(err)
	if last := all[len(all)-1]; last.Latency != time.Second {
		t.Errorf("%+v", last)
	}
	if x = b.explains("nightly", "The next one is in 4h, at 04:00:00."); !x.IsScheduled || x.Next.IsZero() {
		t.Errorf("next %v, by a schedule: %v", x.Next, x.IsScheduled)
	}
}
