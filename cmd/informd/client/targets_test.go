package client

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/engine/explain"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const quota = `actions[0]: apply of v1/configmaps t1/made: 403 Forbidden: configmaps "made" is ` +
	`forbidden: exceeded quota: one`

// made is a target of the rule copies, for shop/o.
func made(namespace, state string) explain.Target {
	return explain.Target{
		Rule: "copies", Resource: "v1/configmaps", Namespace: namespace, Name: "made", For: "shop/o",
		State: state, Owner: &explain.Owner{Rule: "copies", Object: "shop/o"},
	}
}

func waiting4m(namespace string) explain.Target {
	t := made(namespace, "waits")
	t.Trouble = explain.Trouble{
		Failures: 9, Cause: "quota", Reason: quota, Next: noon.Add(4 * time.Minute),
	}
	return t
}

func behind(namespace string) explain.Target {
	t := made(namespace, "behind")
	t.Owner = &explain.Owner{Rule: "all-copies", Object: "bank/o"}
	return t
}

// A line about a target has what is wrong with it, without what it says already.
func TestTargetText(t *testing.T) {
	due, part, gone := waiting4m("t1"), made("t1", "refused"), made("t1", "dropped")
	due.Next = time.Time{}
	part.Part, part.Resource, part.Reason = "status", "v1/pods", "actions[1]: patch of v1/pods t1/made: no"
	gone.Reason = "prune: 403 Forbidden"
	event := made("t1", "waits")
	event.Part, event.Reason = explain.EventPart, "actions[2]: an Event about v1/configmaps t1/made: no"
	const why = `403 Forbidden: configmaps "made" is forbidden: exceeded quota: one`
	for want, target := range map[string]explain.Target{
		"v1/configmaps t1/made for shop/o is tried again in 4m0s: " + why:         waiting4m("t1"),
		"v1/configmaps t1/made for shop/o is tried again now: " + why:             due,
		"v1/pods/status t1/made for shop/o is refused: no":                        part,
		"v1/configmaps (event) t1/made for shop/o is tried again now: no":         event,
		"v1/configmaps t1/made for shop/o: bank/o of rule all-copies owns it":     behind("t1"),
		"v1/configmaps t1/made for shop/o is to be deleted: prune: 403 Forbidden": gone,
		"v1/configmaps t1/made for shop/o is done":                                made("t1", "done"),
	} {
		if got := targetText(&target, noon); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The status names three of the targets that are not done, and says how many there are. A rule all of
// whose targets are done has no line.
func TestStatusNamesTargetsInTrouble(t *testing.T) {
	rules := []control.RuleStatus{
		{Name: "copies", State: control.RuleActive, Targets: &explain.Targets{
			Owned:  1100,
			States: map[string]int{"done": 1095, "waits": 4, "refused": 1, "behind": 2},
			First:  []explain.Target{waiting4m("t1"), waiting4m("t2"), behind("t3")},
		}},
		{Name: "one", State: control.RuleActive, Targets: &explain.Targets{
			States: map[string]int{"waits": 1}, First: []explain.Target{waiting4m("t1")},
		}},
		{Name: "well", State: control.RuleActive, Targets: &explain.Targets{
			Owned: 7, States: map[string]int{"done": 7},
		}},
		{Name: "told", State: control.RuleActive},
	}
	flags := &controlFlags{control: "s"}
	var b strings.Builder
	if err := writeRules(&b, rules, flags, shape{wide: true}, noon); err != nil {
		t.Fatal(err)
	}
	_, notes, _ := strings.Cut(b.String(), "copies: ")
	const why = `is tried again in 4m0s: 403 Forbidden: configmaps "made" is forbidden: exceeded quota: one`
	want := `1102 targets: 1095 are done, 4 wait, 1 is refused, 2 are behind their owners
    v1/configmaps t1/made for shop/o ` + why + `
    v1/configmaps t2/made for shop/o ` + why + `
    v1/configmaps t3/made for shop/o: bank/o of rule all-copies owns it
    all of them: informd applied list --rule copies --control s
one: 1 target: 1 waits
    v1/configmaps t1/made for shop/o ` + why + "\n"
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, columns := range []string{"OWNS   AWAY", "1100   0", "7      0", "-      0"} {
		if !strings.Contains(b.String(), columns) {
			t.Errorf("no %q in\n%s", columns, b.String())
		}
	}
}

// An object with many targets has a short explanation. The targets in trouble come first.
func TestExplainedTargets(t *testing.T) {
	x := explain.Explanation{Time: noon, State: "active"}
	x.Targets = &explain.Targets{
		Owned: 1100, States: map[string]int{"done": 1099, "waits": 1},
		First: []explain.Target{waiting4m("t1")},
	}
	for i := range 999 {
		x.Targets.First = append(x.Targets.First, made(fmt.Sprint("n", i), "done"))
	}
	var b strings.Builder
	writeHistory(&b, &x, 0)
	lines := strings.Split(b.String(), "\n")
	if want := `waits   v1/configmaps   t1          made   4m0s   403 Forbidden: configmaps "made" is ` +
		`forbidden: exceeded quota: one`; len(lines) != mostExplained+5 || lines[3] != strings.Replace(want, "4m0s", "in 4m0s", 1) {
		t.Errorf("%d lines:\n%s", len(lines), b.String())
	}
	if want := "… of 1100 targets: 1099 are done, 1 waits\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("no %q at the end of\n%s", want, b.String())
	}
}

// An event that waits says how many targets it waits for, and if asked for, which.
func TestEventsNameTargets(t *testing.T) {
	e := control.Event{
		Handler: control.OwnActions, Outcome: explain.Outcome{What: "retry", Attempt: 3},
		Targets: &explain.Targets{
			States: map[string]int{"done": 2, "waits": 1},
			First:  []explain.Target{waiting4m("t1"), made("t2", "done")},
		},
	}
	for wide, want := range map[bool]string{
		false: "; 3 targets: 2 are done, 1 waits",
		true: "; 3 targets: 2 are done, 1 waits; v1/configmaps t1/made for shop/o is tried again in " +
			`4m0s: 403 Forbidden: configmaps "made" is forbidden: exceeded quota: one`,
	} {
		if got := eventTargets(e.Targets, wide, noon); got != want {
			t.Errorf("wide %v: %q, want %q", wide, got, want)
		}
	}
	if got := eventTargets(nil, true, noon); got != "" {
		t.Errorf("without targets: %q", got)
	}
}

// The list has the daemon's targets and, behind those of the same rule, what it does not know. An
// object of a rule that is gone is left, also if another rule asks for it.
func TestListMergesDaemonAndCluster(t *testing.T) {
	rules := ruleSet{}
	rules.add("copies", "former")
	rules.add("others", "")
	targets := []appliedTarget{
		{Target: made("t1", "done")}, {Target: waiting4m("t2")}, {Target: made("t3", "refused")},
	}
	other := made("t1", "done")
	other.Rule, other.Resource = "others", "apps/v1/deployments"
	targets = append(targets, appliedTarget{Target: other})
	var more []appliedTarget
	for _, o := range [][3]string{
		{"copies", "v1/configmaps", "t1"}, {"former", "v1/configmaps", "t2"},
		{"copies", "v1/configmaps", "t9"}, {"others", "apps/v1beta1/deployments", "t1"},
		{"gone", "v1/configmaps", "t3"}, {"others", "v1/deployments", "t1"},
	} {
		one := made(o[2], stateApplied)
		one.Rule, one.Resource = o[0], o[1]
		more = append(more, appliedTarget{Target: one, Left: rules[one.Rule] == ""})
	}
	more[4].State = stateLeft
	var b bytes.Buffer
	l := listFlags{appliedFlags: &appliedFlags{controlFlags: new(controlFlags)}}
	if err := l.write(&b, merged(targets, more, rules), noon); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line)[:5], " "))
	}
	want := []string{
		"RULE STATE RESOURCE NAMESPACE NAME",
		"copies done v1/configmaps t1 made", "copies waits v1/configmaps t2 made",
		"copies refused v1/configmaps t3 made", "copies applied v1/configmaps t9 made",
		"others done apps/v1/deployments t1 made", "others applied v1/deployments t1 made",
		"gone left v1/configmaps t3 made",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A list without rows says why: a name that no rule has is told from a rule without targets.
func TestListOfNothing(t *testing.T) {
	rules := ruleSet{}
	rules.add("copies", "former")
	for name, want := range map[string]string{
		"copies": "the rule copies has applied nothing",
		"copie":  "there is no rule copie, and none of that name has left anything; did you mean copies?",
		"former": "the rule former is called copies now, and nothing is left under its former name",
		"":       "no rule with prune has applied anything",
	} {
		l := listFlags{rule: name}
		if got := l.emptyText(rules); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := (&listFlags{state: "waits"}).emptyText(rules); got != "there is nothing of that kind" {
		t.Error(got)
	}
}
