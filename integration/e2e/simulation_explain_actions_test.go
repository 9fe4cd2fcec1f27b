package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/simulate"
)

// TestExplainActionsAgainstSimulator asks about rules with actions of their own, in random histories: a
// running engine about what they did, and without one what they would do. What they did is known from
// the simulation; which changes they had to look at, from twins of theirs that have a handler and no
// actions. INFORMD_EXPLAINED_ACTIONS says how many cases, and INFORMD_SEED with which to begin.
func TestExplainActionsAgainstSimulator(t *testing.T) {
	t.Parallel()
	want, seed := howMany("INFORMD_EXPLAINED_ACTIONS", 600, 8000)
	ends, cases, histories := make(map[string]int), uint64(0), uint64(0)
	for ; cases < want; histories++ {
		e := newActing(t, seed+histories)
		e.run()
		for end, n := range e.ends {
			ends[end] += n
			if end != "none" { // most questions are about what has not changed
				cases += uint64(n)
			}
		}
	}
	t.Logf("%d histories, %d cases: %v", histories, cases, ends)
	for _, end := range []string{"acted", "idle", "pruned", "unmade", "reject", "none", "would act", "would not act", "would not"} {
		if ends[end] == 0 {
			t.Errorf("nothing ended with %s", end)
		}
	}
}

// explainedActing are the rules of one history, and what they have done.
type explainedActing struct {
	*history
	sim   *simulate.Simulation
	rules []*plan.Rule // without the twins
	log   []string

	told  map[string]simulate.Event // by rule and object: the last event of its twin since the last step
	acted map[string]simulate.Event // by rule and object: its last actions since the last step
	dead  map[string]string         // by rule and object: why its event died
	all   map[string]uint64         // by rule: how often it acted since the last start
	idle  map[string]uint64         // by rule: how often it had no action since the last start

	ends map[string]int
}

func newActing(t *testing.T, seed uint64) *explainedActing {
	t.Helper()
	e := &explainedActing{
		history: &history{Rand: rand.New(rand.NewPCG(seed, 34)), t: t, seed: seed},
		all:     make(map[string]uint64), idle: make(map[string]uint64), ends: make(map[string]int),
	}
	text := "---\napiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: maps}\nspec: {resource: v1/configmaps}\n" + handlers
	for i := range 5 {
		spec := e.spec()
		// deletions for which a rule prunes do not count, and it needs them
		mayPrune := !strings.Contains(spec, "count:") && !strings.Contains(spec, "[added, updated]")
		acts := e.actions(i, mayPrune)
		handled := pick(e.history, "", "", "handler: h, ")
		text += fmt.Sprintf("---\napiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: r%d}\nspec: {%s%s, %s}\n", i, handled, spec, acts)
		text += fmt.Sprintf("---\napiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: twin-r%d}\nspec: {handler: h, %s}\n", i, spec)
	}
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(text)}})
	p, more := plan.Compile(c)
	for _, m := range append(mistakes, more...) {
		t.Fatalf("%v in\n%s", m, text)
	}
	for _, r := range p.Rules {
		if !strings.HasPrefix(r.Name, "twin-") {
			e.rules = append(e.rules, r)
		}
	}
	e.note("%s", text)
	sim, err := simulate.New(p, simulate.Options{Start: began, Answer: answer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	e.sim = sim
	return e
}

// spec returns what a rule and its twin have in common.
func (e *explainedActing) spec() string {
	spec := "source: maps, delivery: " + pick(e.history, "latest", "every")
	for _, fields := range [][]string{
		{"", "", `, where: 'object.data.size != "2"'`, `, where: 'object.metadata.labels.app == "web"'`},
		{"", "", "", ", events: [added, updated]", ", events: [updated, deleted]"},
		{"", "", `, when: 'object.data.size != old.data.size'`, `, when: 'object.data.size == "1"'`},
		{"", "", "", "", ", for: 1m", ", group: {wait: 1m}", ", count: {times: 2, within: 2m}"},
	} {
		spec += pick(e.history, fields...)
	}
	return spec
}

// actions returns actions that are often not made. Each source object and rule has targets of its own.
func (e *explainedActing) actions(rule int, mayPrune bool) string {
	var all []string
	hasApply := false
	for range 1 + e.IntN(3) {
		action := pick(e.history, "delete: {}", `patch: {merge: {data: {seen: "${object.data.size ?? \"none\"}"}}}`,
			fmt.Sprintf(`apply: {resource: v1/secrets, object: {metadata: {namespace: shop, name: "r%d-${object.metadata.name}"}}}`, rule))
		hasApply = hasApply || strings.HasPrefix(action, "apply")
		action += pick(e.history, "", "", `, forEach: '[]'`, `, forEach: 'object.data.list'`, `, forEach: '["1", "2", object.data.size]'`)
		conditions := []string{"", `, if: 'object.data.size == "1"'`, `, if: 'object.data.size != old.data.size'`, `, if: 'event == "deleted"'`,
			`, if: 'event in ["added", "synced"]'`, `, if: 'false'`, `, if: 'int(object.data.size) > 2'`}
		if strings.Contains(action, "forEach") {
			conditions = append(conditions, `, if: 'item == object.data.size'`, `, if: 'item == "3"'`)
		}
		all = append(all, "{"+action+pick(e.history, conditions...)+"}")
	}
	text := "actions: [" + strings.Join(all, ", ") + "]"
	if mayPrune && hasApply && e.IntN(2) == 0 {
		text += ", prune: true"
	}
	return text
}

func (e *explainedActing) note(format string, args ...any) {
	e.log = append(e.log, fmt.Sprintf(format, args...))
}

func (e *explainedActing) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatalf("seed %d: %v\n%s", e.seed, err, strings.Join(e.log, "\n"))
	}
}

func (e *explainedActing) wrong(x *explain.Explanation, format string, args ...any) {
	e.t.Helper()
	e.t.Fatalf("seed %d: rule %s, %s at %v: %s\nthe answer: %s\n%+v\nacts: %+v\n%s", e.seed, x.Rule, x.Object, e.sim.Now(),
		fmt.Sprintf(format, args...), x.Answer, x, x.Acts, strings.Join(e.log, "\n"))
}

func (e *explainedActing) run() {
	e.t.Helper()
	for range 60 {
		namespace, name := pick(e.history, "shop", "web"), pick(e.history, "a", "b", "c", "d")
		before, existed := e.sim.Get("maps", namespace, name)
		switch e.IntN(10) {
		case 0:
			e.restart()
			continue
		case 1, 2:
			e.note("%v: pass", e.sim.Now())
			e.hear(time.Duration(1+e.IntN(90)) * time.Second)
		default:
			e.change(namespace, name, existed)
		}
		for _, r := range e.rules {
			x, err := e.sim.Explain(r.Name, namespace, name)
			e.must(err)
			e.compare(r, &x)
		}
		if after, ok := e.sim.Get("maps", namespace, name); ok {
			if !existed {
				before = nil
			}
			e.suppose(after, before)
		}
	}
	status, _ := e.sim.Status()
	for _, r := range status.Rules {
		if !strings.HasPrefix(r.Name, "twin-") && (r.Acted != e.all[r.Name] || r.Idle != e.idle[r.Name]) {
			e.t.Fatalf("seed %d: rule %s: acted for %d events, idle for %d; want %d and %d\n%s", e.seed, r.Name,
				r.Acted, r.Idle, e.all[r.Name], e.idle[r.Name], strings.Join(e.log, "\n"))
		}
	}
}

// change applies or deletes an object.
func (e *explainedActing) change(namespace, name string, exists bool) {
	e.t.Helper()
	if exists && e.IntN(4) == 0 {
		e.note("%v: delete %s/%s", e.sim.Now(), namespace, name)
		e.must(e.sim.Delete("maps", namespace, name))
	} else {
		text := fmt.Sprintf(`{"kind":"ConfigMap","metadata":{"namespace":%q,"name":%q,"labels":{"app":%q}},"data":{"size":%q%s}}`,
			namespace, name, pick(e.history, "web", "db"), pick(e.history, "1", "1", "2", "3", "x"), pick(e.history, "", `,"list":["y"]`))
		e.note("%v: apply %s", e.sim.Now(), text)
		e.must(e.sim.Apply("maps", []byte(text)))
	}
	e.hear(0)
}

func (e *explainedActing) restart() {
	e.t.Helper()
	r := simulate.Restart{Resumption: simulate.Resumption{StateLost: e.IntN(3) == 0}}
	e.note("%v: restart %+v", e.sim.Now(), r)
	e.must(e.sim.Restart(r))
	clear(e.all)
	clear(e.idle)
	e.hear(0)
}

// hear takes the events of a time.
func (e *explainedActing) hear(d time.Duration) {
	e.t.Helper()
	e.told, e.acted, e.dead = make(map[string]simulate.Event), make(map[string]simulate.Event), make(map[string]string)
	e.must(e.sim.Advance(d))
	var told []simulate.Event
	did := make(map[string]bool)
	for _, ev := range e.sim.Events() {
		key := delta.Key{Namespace: ev.Event.Namespace, Name: ev.Event.Name}
		of := ev.Rule + " " + key.String()
		id := strings.TrimPrefix(ev.Event.ID, "twin-")
		e.note("  %v: %s of %s by %q, %d actions, dead %q", ev.At, ev.Event.Event, of, ev.Handler, len(ev.Actions), ev.Dead)
		switch twin, isTwin := strings.CutPrefix(of, "twin-"); {
		case isTwin:
			e.told[twin] = ev
			told = append(told, ev)
		case ev.Dead != "":
			e.dead[of], did[id] = ev.Dead, true
		case ev.Handler == "":
			e.acted[of], did[id] = ev, true
			e.all[ev.Rule]++
		}
	}
	for _, ev := range told { // events that were delivered, and came to no other end
		if id := strings.TrimPrefix(ev.Event.ID, "twin-"); !did[id] {
			e.idle[strings.TrimPrefix(ev.Rule, "twin-")]++
		}
	}
}

// compare compares an explanation with what the rule has done since the last step.
func (e *explainedActing) compare(r *plan.Rule, x *explain.Explanation) {
	e.t.Helper()
	of := r.Name + " " + x.Object
	told, wasTold := e.told[of]
	did, hasActed := e.acted[of]
	dead, isDead := e.dead[of]
	hasActed = hasActed && did.Event.ID == strings.TrimPrefix(told.Event.ID, "twin-")
	var last *explain.Happened
	if n := len(x.Attempts); n > 0 {
		last = &x.Attempts[n-1]
	}
	end, says := "idle", "o action for "
	switch {
	case !wasTold:
		if last != nil && last.Time.Equal(e.sim.Now()) && strings.Contains(x.Answer, "0s ago") && len(x.Changes) > 0 &&
			x.Changes[len(x.Changes)-1].Time.Equal(e.sim.Now()) && !isDead && e.changedNow(x) {
			e.wrong(x, "it was told nothing")
		}
		e.ends["none"]++
		return
	case isDead && answer(told).Reject != "" && r.Handler != "":
		end, says = "reject", "became a dead letter"
	case isDead:
		end, says = "unmade", "became a dead letter"
	case hasActed && len(did.Actions) > 0:
		end, says = "acted", "were performed"
	case hasActed:
		end, says = "pruned", "pruned what it had applied"
	}
	if last == nil || last.What != end || last.ID != strings.TrimPrefix(told.Event.ID, "twin-") {
		e.wrong(x, "%s ended with %s (dead: %s), not with %+v", told.Event.ID, end, dead, last)
	}
	change := x.Changes
	isLast := len(change) == 0 || !change[len(change)-1].Time.After(last.Time)
	if isLast && x.Standing != explain.Unknown && x.Delivery == nil && (x.Group == nil || x.Group.Gathered == 0) &&
		(x.When == nil || !x.When.IsSkipped) && x.Standing != explain.Waiting && !strings.Contains(x.Answer, says) {
		e.wrong(x, "it does not say that it %s", says)
	}
	if x.Acts != nil && !x.Acts.IsNow && !isDead {
		if n := x.Acts.Made(); n >= 0 && n != len(did.Actions) || x.Acts.Error != "" {
			e.wrong(x, "%d actions were made", len(did.Actions))
		}
	}
	e.ends[end]++
}

// changedNow reports whether the last attempt of an explanation is at its last change.
func (e *explainedActing) changedNow(x *explain.Explanation) bool {
	change, attempt := x.Changes[len(x.Changes)-1], x.Attempts[len(x.Attempts)-1]
	return change.ID == attempt.ID && attempt.ResourceVersion == x.ResourceVersion
}

// suppose asks without the engine what the rules make of the last change, and compares that with what
// they have made of it.
func (e *explainedActing) suppose(after, before []byte) {
	e.t.Helper()
	o, err := object.FromJSON(after)
	e.must(err)
	c := explain.Case{Key: delta.KeyOf(o), Object: o, Now: e.sim.Now()}
	if before != nil {
		c.Old, err = object.FromJSON(before)
		e.must(err)
		if c.Old.ResourceVersion() == o.ResourceVersion() || c.Old.UID() != o.UID() {
			return // nothing has changed
		}
	}
	for _, r := range e.rules {
		if r.IsTimed() || r.Count != nil || r.Group != nil {
			continue
		}
		c.Rule = r
		x := explain.Explain(c)
		x.Conclude()
		of := r.Name + " " + x.Object
		_, wasTold := e.told[of]
		did, hasActed := e.acted[of]
		_, isDead := e.dead[of]
		isRejected := r.Handler != "" && answer(e.told[of]).Reject != ""
		acts := fmt.Sprintf("would perform %d action", len(did.Actions))
		if r.Handler != "" {
			acts = strings.Replace(acts, "would perform", "would then perform", 1)
		}
		none := strings.NewReplacer(fmt.Sprintf("perform %d action", len(did.Actions)), "perform no action").Replace(acts)
		switch {
		case !wasTold:
			if strings.Contains(x.Answer, "would be delivered") || strings.Contains(x.Answer, "perform") {
				e.wrong(&x, "it was told nothing")
			}
			e.ends["would not"]++
		case isRejected:
		case isDead:
			if x.Acts == nil || x.Acts.Error == "" || !strings.Contains(x.Answer, "becomes a dead letter") {
				e.wrong(&x, "the actions could not be made: %s", e.dead[of])
			}
		case hasActed && len(did.Actions) > 0:
			if !strings.Contains(x.Answer, acts) || x.Acts.Made() != len(did.Actions) {
				e.wrong(&x, "it made %d actions", len(did.Actions))
			}
			e.ends["would act"]++
		default:
			isDeletion := strings.Contains(x.Answer, "would prune") || strings.Contains(x.Answer, "would then prune")
			if !strings.Contains(x.Answer, none) && !isDeletion || x.Acts.Made() != 0 {
				e.wrong(&x, "it made no action")
			}
			e.ends["would not act"]++
		}
	}
}
