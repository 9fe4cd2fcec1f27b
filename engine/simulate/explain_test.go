package simulate

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/explain"
)

// explains asks about the object shop/a, and expects texts in the answer.
func (b *bench) explains(rule string, want ...string) explain.Explanation {
	b.t.Helper()
	x, err := b.Explain(rule, "shop", "a")
	b.must(err)
	for _, text := range want {
		if !strings.Contains(x.Answer, text) {
			b.t.Errorf("rule %s at %v: %q\nit does not say %q", rule, b.Now(), x.Answer, text)
		}
	}
	return x
}

func TestExplain(t *testing.T) {
	t.Parallel()
	fails := false
	b := simulation(t, Options{Answer: func(e Event) Answer {
		switch {
		case fails && e.Rule == "fails":
			return Answer{Retry: "the database is away"}
		case fails && e.Rule == "rejects":
			return Answer{Reject: "no such team"}
		}
		return Answer{}
	}}, sizes,
		"kind: Handler, metadata: {name: h}, spec: {builtin: log, retry: {backoff: 10s}}",
		ruleOf("large", `, where: object.data.size == "2"`),
		ruleOf("grows", `, when: object.data.size > old.data.size`),
		ruleOf("found", `, when: object.data.size == "9"`),
		ruleOf("twice", `, count: {times: 2, within: 1h}`),
		ruleOf("together", `, group: {wait: 1m, every: 5m, by: object.metadata.namespace}`),
		ruleOf("fails", ``), ruleOf("rejects", ``),
		ruleOf("comes", `, events: [added]`),
		ruleOf("late", `, where: object.data.size == "2", for: 3m`),
		`kind: Rule, metadata: {name: nightly}, spec: {handler: h, schedule: {cron: "0 4 * * *"}}`)

	if x := b.explains("large", "The source maps has no such object."); x.Standing != explain.Absent {
		t.Error(x.Standing)
	}
	b.put("a", "1")
	b.must(b.Advance(time.Second))
	b.explains("large", `Not a member: where is false because object.data.size is "1".`)
	b.explains("grows", "It is a member, as all objects of the source are.", `(added), 1s ago, was not delivered: when is false because object.data.size is "1" and old.data.size is nil.`)
	b.explains("found", `As it is, no change of it is delivered: when is false because object.data.size is "1".`)
	b.explains("twice", "(added), 1s ago, was not delivered: it counts; 1 of 2 within 1h have come.")
	b.explains("together", "waits for the event of its group, which comes in 59s.")
	b.explains("comes", "Its last event (added) was delivered 1s ago.")

	fails = true
	b.put("a", "2")
	b.must(b.Advance(time.Second))
	b.explains("large", "It is a member since 00:00:01. Its last event (added) was delivered 1s ago.")
	b.explains("grows", "Its last event (updated) was delivered 1s ago.")
	b.explains("late", "Not a member yet: where has held for 1s; it becomes one in 2m59s, at 00:03:01, if where holds until then.")
	b.explains("comes", "was delivered 2s ago. Changes since then are no events: the rule's events are added.")
	b.explains("fails", "Its last event (updated) has failed 1 time, and is tried again in 9s: the database is away.")
	x := b.explains("rejects", "Its last event (updated) became a dead letter 1s ago: ", "no such team")
	if len(x.DeadLetters) != 1 || len(x.Attempts) != 4 {
		t.Errorf("dead letters %v, attempts %v", x.DeadLetters, x.Attempts)
	}
	b.must(b.stepper.Engine().SetPaused("fails", true))
	b.explains("fails", "waits for 1s: the rule is paused.")
	b.must(b.stepper.Engine().SetPaused("fails", false))

	fails = false
	b.must(b.Advance(time.Minute))
	b.explains("fails", "Its last event (updated) was delivered 51s ago.")
	b.explains("together", "Its last event (added) was delivered 2s ago.") // one event of both changes
	b.must(b.Advance(3 * time.Minute))
	b.explains("late", "It is a member since 00:03:01. Its last event (added) was delivered")
	b.explains("nightly", "The rule has no source: it sees moments of its schedule.")

	b.must(b.Delete("maps", "shop", "a"))
	b.must(b.Advance(time.Second))
	b.explains("large", "It is gone, or the source maps selects it no more. Its last event (deleted) was delivered 1s ago.")

	// It remembers nothing of what came before a restart, and says since when.
	b.put("a", "2")
	b.must(b.Advance(time.Second))
	b.must(b.Restart(Restart{Down: time.Minute}))
	b.must(b.Advance(time.Second))
	b.explains("large", "It is a member. The rule has seen no change of it since 00:05:04. informd rule resync large has it see all members now.")
	b.explains("comes", "Since 00:05:04, the rule has seen no change of it that is added.")
	if _, err := b.Explain("nobody", "shop", "a"); err == nil {
		t.Error("there is no rule nobody")
	}
}

// Values of Secrets do not leave, but what becomes of them does.
func TestExplainMasks(t *testing.T) {
	t.Parallel()
	const secret = "aGlkZGVu"
	b := simulation(t, Options{}, recorder,
		"kind: Source, metadata: {name: secrets}, spec: {resource: v1/secrets, indexes: {byName: object.metadata.name}}", sizes,
		`kind: Rule, metadata: {name: weak}, spec: {source: secrets, handler: h, where: 'object.data.password startsWith "aG"', when: 'len(object.data.password) > 3 and object.type == "Opaque"'}`,
		ruleOf("looks", `, when: 'first(lookup("secrets.byName", "s")).data.password != "x"'`))
	b.must(b.Apply("secrets", []byte(`{"kind":"Secret","metadata":{"namespace":"shop","name":"s"},"type":"Opaque","data":{"password":"`+secret+`"}}`)))
	b.put("a", "1")
	b.must(b.Advance(time.Second))
	mask := func(text []byte) []byte {
		return []byte(strings.ReplaceAll(string(text), secret, "***"))
	}
	for _, of := range []struct{ rule, name string }{{"weak", "s"}, {"looks", "a"}} {
		x := b.explainMasked(of.rule, of.name, mask)
		if x.Standing != explain.Member || x.When == nil || string(x.When.Part.Value) != "true" {
			t.Errorf("rule %s: %s, when %+v", of.rule, x.Standing, x.When)
		}
		if text := jsonOf(t, x); strings.Contains(text, secret) || !strings.Contains(text, `"***"`) {
			t.Errorf("rule %s: %s", of.rule, text)
		}
		if text := jsonOf(t, b.explainMasked(of.rule, of.name, nil)); !strings.Contains(text, secret) {
			t.Errorf("rule %s does not show it on request: %s", of.rule, text)
		}
	}
}

func (b *bench) explainMasked(rule, name string, mask func([]byte) []byte) explain.Explanation {
	b.t.Helper()
	var masked func([]byte) json.RawMessage
	if mask != nil {
		masked = func(text []byte) json.RawMessage { return mask(text) }
	}
	x, err := b.stepper.Engine().Explain(rule, delta.Key{Namespace: "shop", Name: name}, masked)
	b.must(err)
	return x
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
