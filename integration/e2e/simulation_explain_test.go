package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/simulate"
)

// TestExplainAgainstSimulator asks for explanations in random histories, and compares each with what
// the rules did. What is true is known from other rules in the same simulation: for each rule, one
// without its later stages, whose events say when an object comes in and leaves, one with when and
// without count, and one without group. INFORMD_EXPLAINED says how many histories, and INFORMD_SEED with which to begin.
func TestExplainAgainstSimulator(t *testing.T) {
	t.Parallel()
	histories, seed := howMany("INFORMD_EXPLAINED", 40, 1000)
	cases, standings := 0, make(map[explain.Standing]int)
	verdicts := make(map[string]int)
	for n := range histories {
		e := newExplained(t, seed+n)
		e.run()
		cases += e.cases
		for s, n := range e.standings {
			standings[s] += n
		}
		for v, n := range e.verdicts {
			verdicts[v] += n
		}
	}
	t.Logf("%d histories, %d cases: %v, last changes: %v", histories, cases, standings, verdicts)
	for _, s := range []explain.Standing{explain.Absent, explain.Unselected, explain.Outside, explain.Waiting, explain.Member} {
		if standings[s] == 0 {
			t.Errorf("no object was %s", s)
		}
	}
	for _, v := range []string{"done", "reject", "when", "skipped", "events", "count", "gathered", "void"} {
		if verdicts[v] == 0 {
			t.Errorf("no change ended with %s", v)
		}
	}
	if cases < 1000 {
		t.Errorf("%d cases, want 1000", cases)
	}
}

// explained are the rules of one history, and what is known of them.
type explained struct {
	*history
	sim   *simulate.Simulation
	plan  *plan.Plan
	rules []*plan.Rule // without those that tell the truth

	inside map[string]bool           // by rule and object: the object is a member
	due    map[string]time.Time      // by rule and object: an explanation said when it will be one
	told   map[string]time.Time      // by rule and object: it said when the event of the group comes
	heard  map[string][]time.Time    // by rule and object: when events came since the last step
	last   map[string]simulate.Event // by rule and object: the last event since the last step
	log    []string

	cases     int
	standings map[explain.Standing]int
	verdicts  map[string]int
}

var (
	ruleLine  = regexp.MustCompile(`kind: Rule\nmetadata: \{name: (r\d)\}\nspec: \{(.*)\}\n`)
	laterThan = regexp.MustCompile(`, (events: \[[^\]]*\]|count: \{[^}]*\}|schedule: \{[^}]*\}|resync: 1m|payload: '[^']*'|group: \{[^}]*\})`)
	groupOf   = regexp.MustCompile(`, group: \{[^}]*\}`)
	whenOf    = regexp.MustCompile(`, when: '[^']*'`)
)

func newExplained(t *testing.T, seed uint64) *explained {
	t.Helper()
	e := &explained{
		history: &history{Rand: rand.New(rand.NewPCG(seed, 23)), t: t, seed: seed, hasGroups: true},
		inside:  make(map[string]bool), due: make(map[string]time.Time),
		told: make(map[string]time.Time), heard: make(map[string][]time.Time),
		last: make(map[string]simulate.Event), standings: make(map[explain.Standing]int),
		verdicts: make(map[string]int),
	}
	e.history.plan()
	text := e.history.rules
	for _, m := range ruleLine.FindAllStringSubmatch(text, -1) {
		if e.IntN(3) == 0 && !whenOf.MatchString(m[2]) { // rules are found by such a when, and else not looked at
			spec := m[2] + `, when: 'object.data.size == "1"'`
			text = strings.Replace(text, m[0], strings.Replace(m[0], m[2], spec, 1), 1)
			m[2] = spec
		}
		early := laterThan.ReplaceAllString(m[2], "") + ", payload: object.metadata.name"
		early = strings.Replace(early, "delivery: latest", "delivery: every", 1)
		truths := map[string]string{"member-": whenOf.ReplaceAllString(early, ""), "when-": early}
		if groupOf.MatchString(m[2]) {
			single := groupOf.ReplaceAllString(m[2], "")
			truths["single-"] = strings.Replace(single, "delivery: latest", "delivery: every", 1)
		}
		for prefix, spec := range truths {
			text += fmt.Sprintf("---\napiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: %s}\nspec: {%s}\n", prefix+m[1], spec)
		}
	}
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(text)}})
	p, more := plan.Compile(c)
	for _, m := range append(mistakes, more...) {
		t.Fatalf("%v in\n%s", m, text)
	}
	e.plan = p
	for _, r := range p.Rules {
		if !strings.Contains(r.Name, "-") && r.Name != "alone" {
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

func (e *explained) note(format string, args ...any) {
	e.log = append(e.log, fmt.Sprintf(format, args...))
}

func (e *explained) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatalf("seed %d: %v\n%s", e.seed, err, strings.Join(e.log, "\n"))
	}
}

func (e *explained) wrong(x *explain.Explanation, format string, args ...any) {
	e.t.Helper()
	e.t.Fatalf("seed %d: rule %s, %s at %v: %s\nthe answer: %s\n%+v\n%s", e.seed, x.Rule, x.Object, e.sim.Now(),
		fmt.Sprintf(format, args...), x.Answer, x, strings.Join(e.log, "\n"))
}

func (e *explained) run() {
	e.t.Helper()
	for range 60 {
		clear(e.last)
		clear(e.heard)
		switch e.IntN(12) {
		case 0:
			e.restart()
		case 1, 2, 3:
			e.pass()
		default:
			changed := e.change()
			for _, r := range e.rules {
				if sourceOf[r.Source.Resource] == changed.source {
					e.compare(r, changed.namespace, changed.name, true)
				}
			}
		}
		e.compare(pick(e.history, e.rules...), pick(e.history, "shop", "web", ""), pick(e.history, "a", "b", "c", "d"), false)
	}
}

type changedObject struct{ source, namespace, name string }

// change applies or deletes an object.
func (e *explained) change() changedObject {
	e.t.Helper()
	c := changedObject{pick(e.history, "maps", "maps", "hidden", "zones"), pick(e.history, "shop", "web"), pick(e.history, "a", "b", "c", "d")}
	if c.source == "zones" {
		c.namespace = ""
	}
	if _, ok := e.sim.Get(c.source, c.namespace, c.name); ok && e.IntN(5) == 0 {
		e.note("%v: delete %v", e.sim.Now(), c)
		e.must(e.sim.Delete(c.source, c.namespace, c.name))
	} else {
		due := ""
		if e.IntN(2) == 0 {
			due = fmt.Sprintf(`,"due":%q`, e.sim.Now().Add(time.Duration(e.IntN(6)-1)*time.Minute).Format(time.RFC3339))
		}
		text := fmt.Sprintf(`{"kind":"Thing","metadata":{"namespace":%q,"name":%q,"labels":{"app":%q}},"data":{"size":%q%s}}`,
			c.namespace, c.name, pick(e.history, "web", "db"), pick(e.history, "1", "2", "3"), due)
		e.note("%v: apply %s %s", e.sim.Now(), c.source, text)
		e.must(e.sim.Apply(c.source, []byte(text)))
	}
	isAbout := func(of string, _ time.Time) bool {
		return strings.HasSuffix(of, " "+strings.TrimPrefix(c.namespace+"/"+c.name, "/"))
	}
	maps.DeleteFunc(e.due, isAbout) // the object may have left, or begin to wait again
	maps.DeleteFunc(e.told, isAbout)
	e.hear(0)
	return c
}

// pass lets time pass. Who was to become a member until then has to be one.
func (e *explained) pass() {
	e.t.Helper()
	d := time.Duration(1+e.IntN(90)) * time.Second
	e.note("%v: pass %v", e.sim.Now(), d)
	e.hear(d)
	for of, at := range e.due {
		rule, _, _ := strings.Cut(of, " ")
		came, ok := e.last["member-"+of]
		switch {
		case at.After(e.sim.Now()):
		case !ok || came.Event.Event != "added" || came.At.Sub(at).Abs() > time.Millisecond:
			e.t.Fatalf("seed %d: %s was to become a member of %s at %v; came %+v\n%s", e.seed, of, rule, at, came, strings.Join(e.log, "\n"))
		default:
			delete(e.due, of)
		}
	}
	for of, at := range e.told {
		isAt := func(heard time.Time) bool { return heard.Sub(at).Abs() <= time.Millisecond }
		switch {
		case at.After(e.sim.Now()):
		case !slices.ContainsFunc(e.heard[of], isAt):
			e.t.Fatalf("seed %d: the event of the group of %s was to come at %v; some came at %v\n%s",
				e.seed, of, at, e.heard[of], strings.Join(e.log, "\n"))
		default:
			delete(e.told, of)
		}
	}
}

// restart ends the engine and runs it again. Without its state, rules start from scratch.
func (e *explained) restart() {
	e.t.Helper()
	r := simulate.Restart{Resumption: simulate.Resumption{StateLost: e.IntN(3) == 0}}
	e.note("%v: restart %+v", e.sim.Now(), r)
	e.must(e.sim.Restart(r))
	clear(e.due)
	clear(e.told)
	if r.StateLost {
		clear(e.inside)
	}
	e.hear(0)
}

// hear takes the events of a time.
func (e *explained) hear(d time.Duration) {
	e.t.Helper()
	e.must(e.sim.Advance(d))
	for _, ev := range e.sim.Events() {
		of := ev.Rule + " " + delta.Key{Namespace: ev.Event.Namespace, Name: ev.Event.Name}.String()
		e.last[of] = ev
		e.heard[of] = append(e.heard[of], ev.At)
		e.note("  %v: %s of %s", ev.At, ev.Event.Event, of)
		if strings.HasPrefix(of, "member-") {
			e.inside[of] = ev.Event.Event != "deleted"
		}
	}
}

// compare compares an explanation with what is known. hasChanged says that the object has changed in
// the last step.
func (e *explained) compare(r *plan.Rule, namespace, name string, hasChanged bool) {
	e.t.Helper()
	x, err := e.sim.Explain(r.Name, namespace, name)
	e.must(err)
	of := x.Object
	_, exists := e.sim.Get(r.Source.Name, namespace, name)
	isSelected := r.Source.Name != "shop" || namespace == "shop"
	isMember := e.inside["member-"+r.Name+" "+of]
	e.cases++
	e.standings[x.Standing]++
	if x.Answer == "" || strings.Contains(x.Answer, "%!") {
		e.wrong(&x, "it says nothing that a person would understand")
	}
	switch {
	case x.Standing == explain.Unselected && isSelected, !isSelected && x.Standing != explain.Unselected:
		e.wrong(&x, "selected by its source: %v", isSelected)
	case !exists && isSelected && x.Standing != explain.Absent:
		e.wrong(&x, "it does not exist")
	case isMember != (x.Standing == explain.Member):
		e.wrong(&x, "a member: %v", isMember)
	case x.Standing == explain.Waiting:
		e.due[r.Name+" "+of] = x.Timing.At
	}
	if hasChanged {
		e.compareChange(r, &x)
	}
}

// compareChange compares what an explanation says about the object's last change.
func (e *explained) compareChange(r *plan.Rule, x *explain.Explanation) {
	e.t.Helper()
	of := r.Name + " " + x.Object
	change, concerns := e.last["member-"+of]
	if !concerns {
		if n := len(x.Changes); n > 0 && x.Changes[n-1].Time.Equal(e.sim.Now()) && x.Changes[n-1].What != "waits" && !isOld(e, x) {
			e.wrong(x, "the change does not concern the rule")
		}
		return
	}
	told, wasTold := e.last[of]
	_, isWhen := e.last["when-"+of]
	if wasTold && isOf(told, change) {
		want := "done"
		if answer(told).Reject != "" {
			want = "reject"
		}
		n := len(x.Attempts)
		if n == 0 || x.Attempts[n-1].What != want || x.Attempts[n-1].ID != told.Event.ID {
			e.wrong(x, "%s was delivered: %s", told.Event.ID, want)
		}
		if want == "reject" && !slices.ContainsFunc(x.DeadLetters, func(l explain.Letter) bool { return l.ID == told.Event.ID }) {
			e.wrong(x, "%s is a dead letter", told.Event.ID)
		}
		e.verdicts[want]++
		return
	}
	single, wasSelected := e.last["single-"+of]
	if wasSelected && isOf(single, change) {
		n := len(x.Changes)
		if n > 0 && x.Changes[n-1].What == "void" && change.Event.Event == "deleted" {
			if strings.Contains(x.Answer, "Its last change waits") {
				e.wrong(x, "%s waits for nothing", change.Event.ID)
			}
			e.verdicts["void"]++
			return
		}
		if n == 0 || x.Changes[n-1].What != "gathered" || x.Changes[n-1].Event != change.Event.Event {
			e.wrong(x, "%s waits for the event of its group", change.Event.ID)
		}
		if x.Group.Gathered > 0 {
			e.told[of] = x.Group.Next
		} else {
			e.wrong(x, "%s is gathered", change.Event.ID)
		}
		e.verdicts["gathered"]++
		return
	}
	want := "when"
	isFound := r.When == nil || r.IsTimed() || len(r.When.Requires()) == 0
	t, _ := delta.ParseType(change.Event.Event)
	switch {
	case !r.Events.Has(t):
		want = "events"
		if n := len(x.Changes); n == 0 || !x.Changes[n-1].Time.Equal(e.sim.Now()) || isOld(e, x) {
			want = "" // it may not have looked at the object: no change of this type can be an event
		}
	case isWhen:
		want = "count"
	}
	n := len(x.Changes)
	isLast := false
	if n > 0 { // a deletion has the version of the change before it, which may be as old
		last := x.Changes[n-1]
		isLast = last.Time.Equal(e.sim.Now()) && last.Event == change.Event.Event &&
			last.ResourceVersion == change.Event.ResourceVersion
	}
	switch {
	case want == "", !isFound && !isLast && x.Standing != explain.Member: // it did not look at the change
		return
	case !isFound && !isLast && want == "when":
		if x.When == nil || !x.When.IsSkipped || string(x.When.Part.Value) != "false" {
			e.wrong(x, "when cannot be true")
		}
		e.verdicts["skipped"]++
		return
	}
	if n == 0 || x.Changes[n-1].What != want || x.Changes[n-1].Event != change.Event.Event {
		e.wrong(x, "%s was left out by %s", change.Event.ID, want)
	}
	if p := x.When; want == "when" && p != nil && p.Part != nil && !p.IsNow && string(p.Part.Value) == "true" {
		e.wrong(x, "when was false")
	}
	e.verdicts[want]++
}

// isOf reports whether an event is of the change that another one is of.
func isOf(ev, other simulate.Event) bool {
	return ev.Event.Event == other.Event.Event && ev.Event.ResourceVersion == other.Event.ResourceVersion
}

// isOld reports whether the last change of an explanation came before the last step, at the same
// time.
func isOld(e *explained, x *explain.Explanation) bool {
	o, ok := e.sim.Get(sourceName(x), namespaceOf(x), nameOf(x))
	last := x.Changes[len(x.Changes)-1].ResourceVersion
	return !ok || !strings.Contains(string(o), fmt.Sprintf(`"resourceVersion":%q`, last))
}

func sourceName(x *explain.Explanation) string { return x.Source.Name }

func namespaceOf(x *explain.Explanation) string {
	namespace, _, ok := strings.Cut(x.Object, "/")
	if !ok {
		return ""
	}
	return namespace
}

func nameOf(x *explain.Explanation) string {
	return x.Object[strings.LastIndex(x.Object, "/")+1:]
}
