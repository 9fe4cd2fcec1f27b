package simulate

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/live"
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

	// It remembers no change from before a restart, and says since when it remembers.
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

// If the last two changes of an object cancel each other out, an earlier one may wait.
func TestExplainWhatWaitsBehindChangesThatCancel(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, "kind: Handler, metadata: {name: h}, spec: {builtin: log}",
		ruleOf("together", `, where: object.data.size == "1", events: [added, deleted], group: {wait: 1m, by: object.metadata.namespace}`))
	b.put("a", "1")
	b.must(b.Advance(2 * time.Minute))
	b.put("a", "2")
	b.must(b.Advance(time.Second))
	b.explains("together", "Its last change waits for the event of its group, which comes in 59s.")
	b.must(b.Delete("maps", "shop", "a"))
	b.put("a", "1")
	b.put("a", "2")
	b.explains("together", "Its last change (deleted), 0s ago, was not delivered: ", "cancelled each other out. An earlier change waits for the event of its group, which comes in 59s.")
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

// Objects that a lookup has found have their names, also if the rule only counts them.
func TestExplainNamesWhatWasFound(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, recorder, sizes,
		"kind: Source, metadata: {name: others}, spec: {resource: v1/secrets, indexes: {byType: object.type}}",
		ruleOf("counts", `, when: 'len(lookup("others.byType", "Opaque")) > 1'`))
	b.must(b.Apply("others", []byte(`{"kind":"Secret","metadata":{"namespace":"shop","name":"s"},"type":"Opaque"}`)))
	b.put("a", "1")
	b.must(b.Advance(time.Second))
	x := b.explainMasked("counts", "a", nil)
	if text := jsonOf(t, x.When); strings.Contains(text, "[null]") || !strings.Contains(text, `"value":[{"metadata":{"name":"s","namespace":"shop"}}]`) {
		t.Errorf("the parts do not name what was found: %s", text)
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

// What a rule with actions of its own has done about a change, and what it had no reason to do.
func TestExplainActions(t *testing.T) {
	t.Parallel()
	patch := func(fields string) string {
		return "actions: [{patch: {resource: v1/configmaps, name: other, merge: {data: {seen: x}}}" + fields + "}]"
	}
	acting := func(name, spec string) string {
		return "kind: Rule, metadata: {name: " + name + "}, spec: {source: maps, " + spec + "}"
	}
	b := simulation(t, Options{}, sizes, recorder,
		acting("always", patch("")),
		acting("if", patch(`, if: 'object.data.size == "2"'`)),
		acting("grows", patch(`, if: 'old.data.size != nil and object.data.size > old.data.size'`)),
		acting("empty", patch(`, forEach: object.data.list`)),
		acting("each", patch(`, forEach: '["1", "3"]', if: 'item == object.data.size and item != "1"'`)),
		acting("prunes", `prune: true, actions: [{apply: {resource: v1/secrets, object: {metadata: {name: x, namespace: shop}}}, if: 'object.data.size == "2"'}]`),
		acting("two", `actions: [{delete: {resource: v1/secrets, name: x}, if: 'object.data.size == "2"'}, {delete: {resource: v1/secrets, name: y}, if: 'object.data.size == "3"'}]`),
		acting("both", "handler: h, "+patch(`, if: 'object.data.size == "2"'`)),
		acting("fails", patch(`, if: 'int(object.data.size + "x") > 1'`)),
		acting("when", `when: 'object.data.size == "2"', `+patch("")),
		acting("measures", "metrics: [{name: sizes_total, type: counter}]"),
	)
	b.put("a", "1")
	b.must(b.Advance(time.Second))
	for rule, want := range map[string]string{
		"always": "The actions for its last event (added) were performed 1s ago.",
		"if":     `No action for its last event (added), 1s ago: if was false because object.data.size is "1".`,
		"grows":  "No action for its last event (added), 1s ago: if was false because ",
		"empty":  "No action for its last event (added), 1s ago: forEach was empty.",
		"each":   "No action for its last event (added), 1s ago: if was false for each element because ",
		"prunes": `No action for its last event (added), 1s ago: if was false because object.data.size is "1". It pruned what it had applied.`,
		"two": `No action for its last event (added), 1s ago: actions[0]: if was false because object.data.size is "1"; ` +
			`actions[1]: if was false because object.data.size is "1".`,
		"both":     `Its last event (added) was delivered. No action for it, 1s ago: if was false because object.data.size is "1".`,
		"fails":    "Its last event (added) became a dead letter 1s ago: ",
		"measures": "Its last change (added), 1s ago, was selected.",
		"when":     `As it is, no change of it is delivered: when is false because object.data.size is "1".`,
	} {
		x := b.explains(rule, want)
		if rule == "when" { // if it were synced now, it would not act either
			if x.Acts != nil {
				t.Errorf("rule when: %+v", x.Acts)
			}
			continue
		}
		if isIdle := strings.Contains(want, "No action"); rule != "measures" && rule != "fails" && isIdle != (x.Acts.Made() == 0) {
			t.Errorf("rule %s: %+v", rule, x.Acts)
		}
	}
	status, _ := b.Status()
	for _, r := range status.Rules {
		var acted, idle uint64
		matches := uint64(1)
		switch r.Name {
		case "when":
			matches = 0
		case "always":
			acted = 1
		case "prunes": // pruning is an action
			acted = 1
		case "fails", "measures":
		default:
			idle = 1
		}
		if r.Matches != matches || r.Acted != acted || r.Idle != idle {
			t.Errorf("rule %s: %d matches, acted for %d, idle for %d", r.Name, r.Matches, r.Acted, r.Idle)
		}
	}

	b.put("a", "2")
	b.must(b.Advance(time.Second))
	b.explains("if", "The actions for its last event (updated) were performed 1s ago.")
	b.explains("both", "Its last event (updated) was delivered. The actions for it were performed 1s ago.")
	b.put("a", "1")
	b.must(b.Advance(time.Second))
	if x := b.explains("grows", "No action for its last event (updated), 1s ago: if was false."); x.Acts.Actions[0].If != nil {
		t.Errorf("informd keeps no old states: %+v", x.Acts)
	}
	b.must(b.Delete("maps", "shop", "a"))
	b.must(b.Advance(time.Second))
	b.explains("prunes", "For its last event (deleted), the rule pruned what it had applied, 1s ago.")
	b.explains("if", "No action for its last event (deleted), 1s ago: patch is not for deletions.")

	// An object that came and went while it waited.
	b.must(b.stepper.Engine().SetPaused("always", true))
	b.put("a", "1")
	b.must(b.Advance(time.Second))
	b.must(b.Delete("maps", "shop", "a"))
	b.must(b.Advance(time.Second))
	b.must(b.stepper.Engine().SetPaused("always", false))
	b.must(b.Advance(time.Second))
	b.explains("always", "Its last change (deleted), 2s ago, was not delivered: the change before it still waited, and they cancelled each other out.")
}

// The objects that a rule looked up for its last event may have changed. The explanation then gives
// the reason why the rule did nothing without values, and says that values it shows are current.
func TestExplainActionsThatLookUp(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes,
		"kind: Source, metadata: {name: others}, spec: {resource: v1/secrets, indexes: {byType: object.type}}",
		`kind: Rule, metadata: {name: looks}, spec: {source: maps, actions: [{patch: {resource: v1/configmaps, name: other, merge: {data: {seen: x}}}, if: 'len(lookup("others.byType", "Opaque")) > 1'}]}`)
	b.must(b.Advance(time.Second))
	b.put("a", "1")
	b.must(b.Advance(time.Second))
	b.must(b.Apply("others", []byte(`{"kind":"Secret","metadata":{"namespace":"shop","name":"s"},"type":"Opaque"}`)))
	x := b.explains("looks", "No action for its last event (added), 1s ago: if was false.")
	if !x.Acts.LooksUp || x.Acts.IsNow {
		t.Errorf("%+v", x.Acts)
	}
}

// It says since when an object is a member only if it has seen all that may have ended that.
func TestExplainSinceWhen(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder,
		ruleOf("all", `, where: object.data.size == "2"`),
		ruleOf("seldom", `, where: object.data.size == "2", events: [updated]`),
		ruleOf("found", `, where: object.data.size == "2", when: 'object.kind == "Pod"'`))
	for _, size := range []string{"1", "2", "", "2"} {
		b.must(b.Advance(time.Second))
		if size == "" {
			b.must(b.Delete("maps", "shop", "a"))
		} else {
			b.put("a", size)
		}
	}
	b.must(b.Advance(time.Second))
	b.explains("all", "It is a member since 00:00:04.")
	b.explains("seldom", "It is a member. ")
	b.explains("found", "It is a member. ")
}

// What it has forgotten, it does not call unseen, and advises nothing.
func TestExplainWhatWasForgotten(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, ruleOf("all", ""))
	b.put("a", "1")
	b.must(b.Advance(time.Second))
	for i := range 2000 {
		b.put("b", string(rune('1'+i%2)))
		b.must(b.Advance(time.Second))
	}
	x := b.explains("all", "It is a member, as all objects of the source are. The rule has seen no change of it since ", ", as far as informd remembers.")
	if strings.Contains(x.Answer, "resync") || !x.Since.Equal(b.Now().Add(-1024*time.Second)) {
		t.Errorf("it remembers all since %v, now it is %v: %s", x.Since, b.Now(), x.Answer)
	}
}

// The values of Secrets do not leak through the actions that use them.
func TestExplainMasksActions(t *testing.T) {
	t.Parallel()
	const secret = "aGlkZGVu"
	b := simulation(t, Options{},
		"kind: Source, metadata: {name: secrets}, spec: {resource: v1/secrets}",
		`kind: Rule, metadata: {name: weak}, spec: {source: secrets, actions: [{delete: {}, forEach: '[object.data.password]', if: 'item == "x"'}]}`,
		`kind: Rule, metadata: {name: direct}, spec: {source: secrets, actions: [{delete: {}, if: 'object.data.password == "x"'}]}`)
	b.must(b.Apply("secrets", []byte(`{"kind":"Secret","metadata":{"namespace":"shop","name":"s"},"data":{"password":"`+secret+`"}}`)))
	b.must(b.Advance(time.Second))
	mask := func(text []byte) []byte { return []byte(strings.ReplaceAll(string(text), secret, "***")) }
	for _, rule := range []string{"weak", "direct"} {
		x := b.explainMasked(rule, "s", mask)
		if text := jsonOf(t, x); strings.Contains(text, secret) || !strings.Contains(text, `"***"`) || !strings.Contains(x.Answer, "No action for its last event") {
			t.Errorf("rule %s: %s", rule, text)
		}
		if text := jsonOf(t, b.explainMasked(rule, "s", nil)); !strings.Contains(text, secret) {
			t.Errorf("rule %s does not show it on request: %s", rule, text)
		}
	}
}

// A text of an object that cannot be read is the object's fault, whichever expression reads it.
func TestFaultOfFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		want live.Fault
	}{
		"due":                    {`, due: time(object.data.size)`, live.OfObject},
		"due by a label":         {`, due: 'time(object.metadata.labels.expires ?? "soon")'`, live.OfObject},
		"for":                    {`, for: 1m, where: duration(object.data.size) > duration("1h")`, live.OfObject},
		"where":                  {`, where: int(object.data.size) > 1`, live.OfObject},
		"where that is compared": {`, where: quantity("1Gi") < object.data.size`, live.OfObject},
		"when":                   {`, when: quantity(object.data.size) > 1`, live.OfObject},
		"when by a pattern":      {`, when: '"a" matches "(" + object.data.size'`, live.OfObject},
		"a certificate":          {`, when: notAfter(object.data.size) > now()`, live.OfObject},
		"count at":               {`, count: {times: 2, within: 1m, at: time(object.data.size)}`, live.OfObject},
		"payload":                {`, payload: float(object.data.size)`, live.OfObject},
		"kinds":                  {`, when: object.data.size > 1`, live.OfExpression},
		"what is no condition":   {`, when: object.data.size`, live.OfExpression},
		"no time":                {`, due: object.data.size`, live.OfExpression},
		"division":               {`, when: '1 / len(object.data.none ?? "") > 1'`, live.OfExpression},
	} {
		b := simulation(t, Options{}, sizes, recorder, ruleOf("r", c.spec))
		b.put("a", "x")
		b.must(b.Advance(time.Minute))
		status, _ := b.Status()
		e := status.Rules[0].LastError
		if e == nil || e.Fault != c.want || e.Key.Name != "a" {
			t.Errorf("%s: %+v, want the fault of the %s", name, e, c.want)
		}
	}
}
