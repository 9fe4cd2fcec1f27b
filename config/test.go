package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Test is a Test manifest: what happens to objects, and which events the rules make of it.
type Test struct {
	Name  string
	At    Text
	Rules []Text // names of the rules that run; nil: all
	Start time.Time
	Steps []Step
}

// The verbs of steps. A step has one of them, or only expects something.
const (
	StepApply   = "apply"   // an object is created or replaced
	StepPatch   = "patch"   // an object is changed
	StepDelete  = "delete"  // an object is deleted
	StepAfter   = "after"   // time passes
	StepRestart = "restart" // informd ends, and starts again
	StepRelist  = "relist"  // the watches break, and are opened again
	StepStall   = "stall"   // nothing is heard of a resource, until relist
	StepUnserve = "unserve" // a version of a resource is not served, until serve
	StepServe   = "serve"   // it is served again
	StepAnswer  = "answer"  // says what the handler answers to the next events
)

var (
	stepVerbs      = stepVerbFields.names()
	meanwhileVerbs = eventfulFields.names()
)

// Step is one step of a test. It has many fields because it mirrors the manifest: each verb uses
// some of them.
type Step struct {
	At              Text          // where the step begins; its value is empty
	Verb            string        // "": the step only expects
	Source          string        // of apply, patch, delete, stall, unserve and serve
	Namespace, Name string        // of apply, patch and delete
	Body            *Value        // of apply and patch: constants only
	After           time.Duration // of after; of restart: how long informd is down
	StateLost       bool          // of restart: the state directory is empty
	ClockSet        time.Duration // of restart: the clock is set meanwhile, forward or back
	HistoryLost     bool          // of restart and relist: only a list says what happened
	Withdrawn       bool          // of unserve: no version is served
	Meanwhile       []Step        // of restart and relist: apply, patch and delete
	Answer          *TestAnswer
	Expect          *Expect // nil: nobody looks yet at what came
}

// TestAnswer is what a handler answers in a test, or what comes of a rule's own action: exactly one
// of Retry, Reject and Actions is set.
type TestAnswer struct {
	Rule, Handler string      // whose events it is for; one is empty
	Target        *TestTarget // of the rule's own actions; nil: it is for events. No Actions then
	Times         int         // how many events, or actions, it answers
	Retry, Reject bool
	RetryAfter    time.Duration // 0: informd's own delay
	Reason        string        // of a retry or reject
	Actions       []Action      // without forEach, if and expressions
}

// TestTarget is what own actions of a rule are about.
type TestTarget struct {
	Resource        schema.GroupVersionResource
	Subresource     string // status, or empty
	Namespace, Name string
}

// Expect is what has come since the last Expect.
type Expect struct {
	At Text // where the list begins; its value is empty
	// Events are mappings. [Value.Literal] returns what one of them says.
	Events []ExpectedEvent
	Exact  bool // what is given is compared whole, and in the order of the list
	Extent Extent
}

// ExpectedEvent is one event that must have come.
type ExpectedEvent struct {
	At Text // where it begins; its value is empty
	// Source is the event as the file has it, with a comment behind it. It is empty if the text
	// cannot be used in another list with the same indentation.
	Source string
	*Value
}

// The default start of a test, and the bounds of its times.
var (
	defaultStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	firstStart   = time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC)
	lastStart    = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

const (
	maxAfter = 10 * year
	maxTimes = 1_000_000
	// maxTargetAfter is the longest time that informd leaves between two attempts at a target.
	maxTargetAfter = 5 * time.Minute
)

// IsTestFile reports whether a file holds Tests, by its name. informd run leaves such files out of
// the folders that it reads.
func IsTestFile(path string) bool {
	name := filepath.Base(path)
	return strings.HasSuffix(name, "_test.yaml") || strings.HasSuffix(name, "_test.yml")
}

// otherKind finds a manifest that is no Test, in a file that need not be valid.
var otherKind = regexp.MustCompile(`(?m)^kind:[ \t]*["']?(Source|Handler|Rule)\b`)

// KindBesideTests returns the kind of a manifest in a file of tests that is no Test, or "". informd
// run would leave out that manifest with the file.
func KindBesideTests(data []byte) string {
	if found := otherKind.FindSubmatch(data); found != nil {
		return string(found[1])
	}
	return ""
}

// fileFits reports a manifest that does not belong in a file of that name.
func (r *reader) fileFits(kind string, n *yaml.Node) {
	switch inTests := IsTestFile(r.file.path); {
	case kind == kindTest && !inTests:
		r.mistake(n, "a Test belongs in a file whose name ends in _test.yaml: "+
			"informd run leaves such files out")
	case kind != kindTest && kind != "" && inTests:
		r.mistake(n, "a file whose name ends in _test.yaml holds Tests only, because informd run "+
			"leaves it out: move the %s to another file, or rename this one", kind)
	}
}

// mention is a name in a Test that another manifest must declare.
type mention struct {
	at      Text
	kind    string
	running []Text // the rules that run in the test; nil: all
}

// checkMention reports a name that nobody declares, and a rule that does not run in its test.
func (p *parser) checkMention(m mention) {
	name := m.at.String()
	_, exists := p.names[m.kind].at[name]
	if !exists || m.kind != kindRule || m.running == nil {
		p.checkReference(m.at, m.kind)
		return
	}
	if !slices.ContainsFunc(m.running, func(rule Text) bool { return rule.String() == name }) {
		p.mistakes = append(p.mistakes, m.at.Mistake(0, fmt.Sprintf(
			"the rule %s does not run in this test: spec.rules leaves it out", quote(name))))
	}
}

func (r *reader) mention(n *yaml.Node, what, kind string) string {
	name, at := r.reference(n, what)
	if name != "" {
		r.mentions = append(r.mentions, mention{at: at, kind: kind})
	}
	return name
}

func (r *reader) test(n, at *yaml.Node, name Text) {
	spec := r.mapping(n, at, "spec", testFields)
	test := Test{Name: name.String(), At: name, Start: r.start(spec.get("start"))}
	rules := spec.get("rules")
	r.set(rules, "spec.rules", "names of rules", func(string) string { return "" })
	if rules != nil && rules.Kind == yaml.SequenceNode {
		for _, item := range rules.Content {
			if r.mention(item, "an element of spec.rules", kindRule) != "" {
				test.Rules = append(test.Rules, r.text(item))
			}
		}
	}
	before := len(r.mentions)
	items := r.list(spec.get("steps"), "spec.steps", "steps")
	for i, item := range items {
		what := fmt.Sprintf("spec.steps[%d]", i)
		test.Steps = append(test.Steps, r.step(item, what, stepFields))
	}
	if len(items) > 0 && child(items[len(items)-1], "expect") == nil {
		r.mistake(items[len(items)-1], "the last step has no expect, so nobody looks at what came: "+
			"write expect: [] if nothing may come")
	}
	for i := before; i < len(r.mentions); i++ {
		r.mentions[i].running = test.Rules
	}
	r.config.Tests = append(r.config.Tests, test)
}

func (r *reader) start(n *yaml.Node) time.Time {
	if n == nil || r.reported[n] {
		return defaultStart
	}
	const what = "spec.start must be a time such as 2026-01-02T03:00:00Z, not %s"
	if n.Kind != yaml.ScalarNode {
		r.mistake(n, what, describe(n))
		return defaultStart
	}
	start, err := time.Parse(time.RFC3339, n.Value)
	switch {
	case err != nil:
		r.mistake(n, what, quote(n.Value))
	case start.Before(firstStart) || start.After(lastStart):
		r.mistake(n, "spec.start must be from %s to %s, not %s",
			firstStart.Format(time.RFC3339), lastStart.Format(time.RFC3339), quote(n.Value))
	default:
		return start
	}
	return defaultStart
}

// place returns where any node begins.
func (r *reader) place(n *yaml.Node) Text { return Text{file: r.file, start: r.offset(n)} }

// step reads a step, which has one of the verbs.
func (r *reader) step(n *yaml.Node, what string, known fields) Step {
	f := r.mapping(n, n, what, known)
	step := Step{At: r.place(n)}
	for _, verb := range stepVerbs {
		switch {
		case !f.has(verb):
		case step.Verb != "":
			r.mistake(f.key[verb], "%s and %s exclude each other: write two steps", step.Verb, verb)
		default:
			step.Verb = verb
			r.stepVerb(&step, f)
		}
	}
	if step.Verb == "" && !f.has("expect") && f.at != nil {
		r.mistake(n, "%s does nothing: it needs %s", what,
			oneOf(slices.DeleteFunc(known.names(), func(s string) bool { return s == "exact" })))
	}
	if f.has("exact") && !f.has("expect") {
		r.mistake(f.key["exact"], "%s.exact goes with expect only", what)
	}
	if list := f.get("expect"); list != nil {
		step.Expect = r.expect(list, r.extent(list, f.key["expect"], n), what+".expect")
		step.Expect.Exact = f.boolean("exact")
	}
	return step
}

// stepVerb reads what stands below the verb of a step.
func (r *reader) stepVerb(step *Step, parent mapping) {
	n, at, what := parent.get(step.Verb), parent.key[step.Verb], parent.path+step.Verb
	if step.Verb == StepAfter {
		step.After = parent.span(step.Verb)
		return
	}
	f := r.mapping(n, at, what, stepFields.named(step.Verb).fields)
	switch step.Verb {
	case StepApply:
		step.Source = r.mention(f.get("source"), f.path+"source", kindSource)
		r.applied(step, f)
	case StepPatch:
		r.stepTarget(step, f)
		merge := f.get("merge")
		if merge != nil && merge.Kind != yaml.MappingNode {
			r.mistake(merge, "%smerge must be a mapping of what is to change, not %s",
				f.path, describe(merge))
		}
		r.keepsIdentity(merge, f.path+"merge")
		step.Body = r.literal(merge, f.path+"merge")
	case StepDelete:
		r.stepTarget(step, f)
	case StepRestart:
		step.After = f.span("down")
		step.StateLost = f.choice("state") == 1
		step.HistoryLost = f.choice("history") == 1
		step.ClockSet = r.clockSet(f.get("clock"), f.path+"clock")
		step.Meanwhile = r.meanwhile(f)
	case StepRelist:
		step.HistoryLost = f.choice("history") == 1
		step.Meanwhile = r.meanwhile(f)
	case StepStall, StepServe:
		step.Source = r.mention(f.get("source"), f.path+"source", kindSource)
	case StepUnserve:
		step.Source = r.mention(f.get("source"), f.path+"source", kindSource)
		step.Withdrawn = f.boolean("withdrawn")
	case StepAnswer:
		step.Answer = r.answer(f)
	}
}

// keepsIdentity reports a merge patch that would make another object of the one it changes.
func (r *reader) keepsIdentity(merge *yaml.Node, what string) {
	if merge == nil || merge.Kind != yaml.MappingNode {
		return
	}
	metadata := child(merge, "metadata")
	if metadata == nil {
		return
	}
	if metadata.Kind != yaml.MappingNode {
		r.mistake(metadata, "%s.metadata must be a mapping, not %s", what, describe(metadata))
		return
	}
	for _, name := range []string{"name", "namespace", "uid"} {
		if n := child(metadata, name); n != nil {
			r.mistake(n, "%s.metadata.%s would make another object of it: "+
				"delete the one and apply the other", what, name)
		}
	}
}

func (r *reader) stepTarget(step *Step, f mapping) {
	step.Source = r.mention(f.get("source"), f.path+"source", kindSource)
	step.Namespace = f.str("namespace")
	step.Name = f.str("name")
}

// applied reads the object of an apply.
func (r *reader) applied(step *Step, f mapping) {
	n := f.get("object")
	if n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.mistake(n, "%sobject must be a mapping, not %s", f.path, describe(n))
		return
	}
	metadata := child(n, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode || child(metadata, "name") == nil {
		r.mistake(n, "%sobject needs metadata with a name", f.path)
		return
	}
	step.Name = r.str(child(metadata, "name"), f.path+"object.metadata.name")
	step.Namespace = r.str(child(metadata, "namespace"), f.path+"object.metadata.namespace")
	step.Body = r.literal(n, f.path+"object")
}

// clockSet reads by how much the clock is set. Its sign says in which direction.
func (r *reader) clockSet(n *yaml.Node, what string) time.Duration {
	if n == nil || r.reported[n] {
		return 0
	}
	amount, isForward := strings.CutPrefix(n.Value, "+")
	amount, isBack := strings.CutPrefix(amount, "-")
	if n.Kind != yaml.ScalarNode || isForward == isBack {
		got := describe(n)
		if n.Kind == yaml.ScalarNode {
			got = quote(n.Value)
		}
		r.mistake(n, "%s must say how far the clock is set forward, as +1h, or back, as -1h; not %s",
			what, got)
		return 0
	}
	unsigned := *n
	unsigned.Value = amount
	d := r.duration(&unsigned, what, false, 1, maxAfter, 0)
	if isBack {
		return -d
	}
	return d
}

// meanwhile reads what happens to objects while informd does not watch.
func (r *reader) meanwhile(f mapping) (steps []Step) {
	what := f.path + "meanwhile"
	for i, item := range r.list(f.get("meanwhile"), what, "steps") {
		step := r.step(item, fmt.Sprintf("%s[%d]", what, i), stepVerbFields)
		if step.Verb != "" && !slices.Contains(meanwhileVerbs, step.Verb) {
			r.mistake(item, "%s[%d] must be %s, not %s: nothing else happens while informd does "+
				"not watch", what, i, oneOf(meanwhileVerbs), step.Verb)
			continue
		}
		steps = append(steps, step)
	}
	return steps
}

func (r *reader) answer(f mapping) *TestAnswer {
	a := &TestAnswer{
		Rule:    r.mention(f.get("rule"), f.path+"rule", kindRule),
		Handler: r.mention(f.get("handler"), f.path+"handler", kindHandler),
		Times:   f.whole("times"),
	}
	switch {
	case f.has("rule") && f.has("handler"):
		r.mistake(f.key["handler"], "%srule and %shandler exclude each other", f.path, f.path)
	case !f.has("rule") && !f.has("handler") && f.at != nil:
		r.mistake(f.at, "%srule or %shandler is missing: whose events does it answer?",
			f.path, f.path)
	}
	if f.has("target") {
		a.Target = f.testTarget()
	}
	first := ""
	for _, verb := range []string{"retry", "reject", "actions"} {
		switch {
		case !f.has(verb):
		case first != "":
			r.mistake(f.key[verb], "%s and %s exclude each other", f.path+first, f.path+verb)
		default:
			first = verb
		}
	}
	switch first {
	case "":
		if f.at != nil {
			r.mistake(f.at, "%sretry, %sreject or %sactions is missing", f.path, f.path, f.path)
		}
	case "retry":
		a.Retry = true
		retry := r.mapping(f.get("retry"), f.key["retry"], f.path+"retry", answeredRetryFields)
		a.RetryAfter = retry.span("after")
		a.Reason = retry.str("reason")
		if a.Target != nil && a.RetryAfter > maxTargetAfter {
			r.mistake(retry.get("after"), "%safter must be at most %s for a target, not %s: "+
				"informd tries each target again by then", retry.path, ShortDuration(maxTargetAfter),
				ShortDuration(a.RetryAfter))
		}
	case "reject":
		a.Reject = true
		a.Reason = f.str("reject")
	case "actions":
		a.Actions = r.answeredActions(f)
	}
	return a
}

// testTarget reads the target of an answer, which is what comes of a rule's own action.
func (f mapping) testTarget() *TestTarget {
	r := f.reader
	for _, field := range []string{"handler", "actions"} {
		if f.has(field) {
			r.mistake(f.key[field], "%starget and %s%s exclude each other: a target is of a rule's own "+
				"actions", f.path, f.path, field)
		}
	}
	of := r.mapping(f.get("target"), f.key["target"], f.path+"target", testTargetFields)
	t := &TestTarget{Namespace: of.str("namespace"), Name: of.str("name")}
	t.Resource, t.Subresource = r.target(of.get("resource"), of.path+"resource", true)
	return t
}

// answeredActions reads the actions of an answer, in the form that rules write them in.
func (r *reader) answeredActions(f mapping) []Action {
	what := f.path + "actions"
	items := r.list(f.get("actions"), what, "actions")
	if len(items) > maxActions {
		r.mistake(items[maxActions], "%s has %d elements, more than %d",
			what, len(items), maxActions)
		items = items[:maxActions]
	}
	var out []Action
	for i, item := range items {
		what := fmt.Sprintf("%s[%d]", what, i)
		for _, field := range []string{"forEach", "if"} {
			if item.Kind == yaml.MappingNode && child(item, field) != nil {
				r.mistake(item, "%s.%s belongs to the actions of a rule: "+
					"a handler answers each action by itself", what, field)
			}
		}
		if a, ok := r.action(item, what); ok {
			out = append(out, a)
		}
	}
	return out
}

func (r *reader) expect(n *yaml.Node, extent Extent, what string) *Expect {
	e := &Expect{At: r.place(n), Extent: extent}
	if n.Kind != yaml.SequenceNode {
		r.mistake(n, "%s must be a list of events, not %s: [] means that nothing came",
			what, describe(n))
		return e
	}
	for i, item := range n.Content {
		if v := r.expectedEvent(item, fmt.Sprintf("%s[%d]", what, i)); v != nil {
			e.Events = append(e.Events, ExpectedEvent{r.place(item), r.written(item, extent), v})
		}
	}
	return e
}

func (r *reader) expectedEvent(n *yaml.Node, what string) *Value {
	f := r.mapping(n, n, what, expectedFields)
	if f.at == nil {
		return nil
	}
	r.mention(f.get("rule"), f.path+"rule", kindRule)
	f.str("dead")
	f.str("error")
	f.whole("attempt")
	r.expectedChange(f)
	r.isMapping(f, "attached")
	r.expectedItems(f.get("items"), f.path+"items")
	r.expectedActions(f.get("actions"), f.path+"actions")
	return r.template(n, what)
}

// expectedChange checks the fields that events and their items have in common.
func (r *reader) expectedChange(f mapping) {
	f.choice("event")
	f.str("name")
	r.maybeEmpty(f.get("namespace"), f.path+"namespace") // "" means none
	r.isMapping(f, "object", "old")
}

// isMapping reports fields that are no mappings.
func (r *reader) isMapping(f mapping, fields ...string) {
	for _, field := range fields {
		if n := f.get(field); n != nil && n.Kind != yaml.MappingNode {
			r.mistake(n, "%s must be a mapping, not %s", f.path+field, describe(n))
		}
	}
}

// expectedItems checks the items of an event of a group.
func (r *reader) expectedItems(n *yaml.Node, what string) {
	if n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.mistake(n, "%s must be a list of items, the oldest first, not %s", what, describe(n))
		return
	}
	for i, item := range n.Content {
		r.expectedChange(r.mapping(item, item, fmt.Sprintf("%s[%d]", what, i), itemFields))
	}
}

// expectedActions checks the verbs and fields of actions that are compared with those that came.
func (r *reader) expectedActions(n *yaml.Node, what string) {
	if n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.mistake(n, "%s must be a list of actions, not %s: [] means none", what, describe(n))
		return
	}
	for i, item := range n.Content {
		what := fmt.Sprintf("%s[%d]", what, i)
		f := r.mapping(item, item, what, comparedVerbFields)
		for _, verb := range verbs {
			if n := f.get(verb); n != nil && !(verbFields.named(verb).orManifest && isManifest(n)) {
				r.mapping(n, f.key[verb], what+"."+verb, comparedVerbFields.named(verb).fields)
			}
		}
		if f.at != nil && len(item.Content) != 2 {
			r.mistake(item, "%s must have one verb: %s", what, oneOf(verbs))
		}
	}
}
