package plan

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

// Compile makes a Plan, or returns every mistake that it finds. It also takes a configuration with
// mistakes, as config.Parse returns it, and then reports the mistakes in its expressions.
func Compile(c *config.Config) (*Plan, config.Mistakes) { return compileWith(c, nil) }

// CompileWatched is Compile for a plan that reports which branches of its conditions are reached:
// branch is called for each branch of a where, due or when, and what it returns with each outcome.
func CompileWatched(
	c *config.Config, branch func(in config.Text, b expr.Branch) func(outcome bool),
) (*Plan, config.Mistakes) {
	return compileWith(c, branch)
}

func compileWith(
	c *config.Config, branch func(config.Text, expr.Branch) func(bool),
) (*Plan, config.Mistakes) {
	b := &builder{
		branch: branch,
		config: c, informers: make(map[object.Selection]*Informer), sources: make(map[string]*Source),
		whole: make(map[*Informer]bool), looked: make(map[*Informer]*object.Paths),
		schedules: make(map[string]*timing.Schedule),
		indexes:   make(map[string][]string), programs: make(map[compiled]*expr.Program),
		payloads: make(map[compiled]*rule.Template), reading: make(map[string]*object.Paths),
	}
	for _, s := range c.Sources {
		b.addSource(s)
	}
	used := make(map[string]bool)
	for _, r := range c.Rules {
		b.addRule(r)
		used[r.Handler] = true
	}
	for _, h := range c.Handlers {
		if used[h.Name] {
			b.plan.Handlers = append(b.plan.Handlers, h)
		}
	}
	if len(b.mistakes) > 0 {
		b.mistakes.Sort()
		return nil, b.mistakes
	}
	b.setViews()
	made := b.plan // a copy: a pointer into b would keep b, and the whole configuration with it
	return &made, nil
}

// builder makes one Plan. It has many fields because all that manifests share is collected here
// while they are read.
type builder struct {
	config    *config.Config
	plan      Plan
	informers map[object.Selection]*Informer
	sources   map[string]*Source
	whole     map[*Informer]bool
	indexes   map[string][]string // names of the indexes, by source
	// looked has what rules read of an informer's objects apart from the changes themselves.
	looked map[*Informer]*object.Paths
	// programs has what is compiled. Rules that write the same expression share a program, so many
	// rules that are alike take less memory, and less of the processor's caches.
	programs map[compiled]*expr.Program
	// payloads and reading are what else such rules share, by JSON: payloads, and the paths that
	// rules read.
	payloads map[compiled]*rule.Template
	reading  map[string]*object.Paths
	// schedules are those of rules, by their texts and what they make of missed moments.
	schedules map[string]*timing.Schedule
	// branch watches the branches of conditions; nil: nobody does.
	branch   func(config.Text, expr.Branch) func(bool)
	mistakes config.Mistakes
}

// compiled is what makes one program differ from another.
type compiled struct {
	text    string
	scope   expr.Scope
	indexes string // that byIndex takes
	items   bool   // it may read the items of a group
	number  bool   // it gives a number
}

func compiledFrom(text string, o expr.Options) compiled {
	return compiled{text, o.Scope, strings.Join(o.Indexes, "\n"), o.Given != nil, o.IsNumber}
}

func (b *builder) addSource(s config.Source) {
	out := &Source{
		Name: s.Name, Resource: s.Resource, Indexes: make(map[string]string), Digest: digestOfSource(s),
	}
	namespaces := s.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		selection := object.Selection{
			Resource: s.Resource, Namespace: namespace,
			LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector,
		}
		out.Informers = append(out.Informers, b.informer(selection))
	}
	for _, index := range s.Indexes {
		out.Indexes[index.Name] = index.Expr.String()
		program := b.compile(index.Expr, expr.Options{Scope: expr.Index})
		if program == nil {
			continue // its mistake is reported
		}
		for _, informer := range out.Informers {
			informer.Indexes[index.Expr.String()] = program
		}
	}
	for _, informer := range out.Informers {
		b.whole[informer] = b.whole[informer] || s.Keep == config.Whole
	}
	b.metrics(s.Metrics, Metric{Source: out})
	b.plan.Sources = append(b.plan.Sources, out)
	if b.sources[s.Name] == nil {
		b.sources[s.Name], b.indexes[s.Name] = out, slices.Sorted(maps.Keys(out.Indexes))
	}
}

// digestOfSource leaves out the metrics: what else is made of a source does not depend on them.
func digestOfSource(s config.Source) Digest {
	s.Metrics = nil
	return DigestOf(s)
}

func digestOfEvents(r config.Rule) Digest {
	r.Metrics, r.Name, r.Formerly = nil, "", ""
	return DigestOf(r)
}

func (b *builder) informer(selection object.Selection) *Informer {
	informer := b.informers[selection]
	if informer == nil {
		informer = &Informer{
			Selection: selection, Indexes: make(map[string]*expr.Program),
			View: new(object.Paths),
		}
		b.informers[selection] = informer
		b.plan.Informers = append(b.plan.Informers, informer)
	}
	return informer
}

func (b *builder) addRule(r config.Rule) {
	source := b.sources[r.Source]
	isAlone := r.Source == "" && r.Schedule != nil
	switch {
	case isAlone:
		source = b.alone(r.Name)
	case source == nil:
		// config reported the dangling reference; check the expressions all the same
		source = &Source{}
	}
	options := func(scope expr.Scope) expr.Options {
		return expr.Options{
			Scope: scope, Indexes: b.indexes[r.Source], Sources: b.indexes, NoSource: isAlone,
		}
	}
	out := &Rule{
		Rule: rule.Rule{
			Name:    r.Name,
			Where:   b.compile(r.Where, options(expr.Where)),
			For:     r.For,
			Due:     b.compile(r.Due, options(expr.Due)),
			When:    b.compile(r.When, options(expr.When)),
			Payload: b.payload(r.Payload, options(expr.Payload)),
		},
		Digest:       DigestOf(r),
		EventsDigest: digestOfEvents(r),
		Source:       source,
		Handler:      r.Handler,
		Former:       r.Formerly,
		Every:        r.Delivery == config.Every,
	}
	for _, name := range r.Events {
		if t, ok := delta.ParseType(name); ok {
			out.Events |= delta.SetOf(t)
		}
	}
	if c := r.Count; c != nil {
		out.Count = &rule.Count{
			Times: c.Times, Within: c.Within,
			By: b.compile(c.By, options(expr.By)), At: b.compile(c.At, options(expr.At)),
		}
	}
	configured, _ := b.config.Source(r.Source)
	switch resync := *cmp.Or(r.Resync, &configured.Resync); {
	case r.Schedule != nil:
		out.Rounds, out.OnlyInRounds = b.schedule(r.Schedule), true
		out.IsScheduled = true
	case resync > 0:
		out.Rounds = timing.Every(resync)
	}
	needsHandler := r.Actions == nil && r.Metrics == nil
	if r.Payload == nil && (needsHandler || r.Handler != "") && configured.Keep == config.Needed {
		b.mistake(r.SourceAt, "source %q keeps only what is needed, "+
			"and a rule without a payload needs whole objects: "+
			"give the rule a payload, or the source keep: whole", r.Source)
	}
	if g := r.Group; g != nil {
		by := b.compile(g.By, options(expr.By))
		out.Group = &rule.Grouping{By: by, Wait: g.Wait, Every: g.Every}
	}
	for _, a := range r.Attach {
		if program := b.attach(a, r.Source, options(expr.Attach)); program != nil {
			out.Attached = append(out.Attached, rule.Attachment{Name: a.Name, Program: program})
		}
	}
	out.OwnChanges = r.OwnChanges
	if r.Actions != nil {
		of := options(expr.Payload)
		if out.Group != nil {
			of.Given = map[string][]string{rule.Items: nil}
		}
		b.actions(out, r, of)
	}
	b.metrics(r.Metrics, Metric{Source: source, Rule: out})
	out.Reads = b.shared(out.Paths())
	b.look(out)
	b.plan.Rules = append(b.plan.Rules, out)
	for _, informer := range source.Informers {
		informer.Rules = append(informer.Rules, out)
	}
}

// ruleResource is the resource of the object that a rule without a source is about.
var ruleResource = schema.GroupVersionResource{
	Group: "informd.dev", Version: "v1alpha1", Resource: "rules",
}

// AloneSelector begins the field selector of the informer of a rule without a source. The rule's
// name follows.
const AloneSelector = "metadata.name="

// alone makes the source of a rule without one. Its object is the same after every restart and in
// every replica, and so are the ids of events.
func (b *builder) alone(rule string) *Source {
	text, _ := json.Marshal(map[string]any{ // strings can be marshalled
		"apiVersion": ruleResource.GroupVersion().String(), "kind": "Rule",
		"metadata": map[string]string{"name": rule, "uid": rule, "resourceVersion": "1"},
	})
	informer := &Informer{
		Selection: object.Selection{Resource: ruleResource, FieldSelector: AloneSelector + rule},
		View:      new(object.Paths), Fixed: text,
	}
	b.whole[informer] = true
	source := &Source{Resource: ruleResource, Informers: []*Informer{informer}}
	b.plan.Alone = append(b.plan.Alone, source)
	return source
}

// schedule makes a timetable. Rules with the same schedule share it, if they make the same of
// missed moments.
func (b *builder) schedule(s *config.Schedule) timing.Timetable {
	mistakes := len(b.mistakes)
	var cron []string
	for _, expression := range s.Cron {
		cron = append(cron, expression.String())
		if _, err := timing.NewSchedule(cron[len(cron)-1:], ""); err != nil {
			b.mistake(expression, "%s", err)
		}
	}
	schedule, err := timing.NewSchedule(nil, s.Zone.String())
	if err != nil {
		b.mistake(s.Zone, "%s", err)
	}
	if len(b.mistakes) > mistakes {
		return schedule
	}
	if schedule, err = timing.NewSchedule(cron, s.Zone.String()); err != nil {
		return nil // cannot happen: all parts are checked
	}
	schedule.SkipsMissed = s.SkipsMissed
	key := strconv.FormatBool(s.SkipsMissed) + schedule.String() // rules that skip moments have rounds of their own
	if b.schedules[key] == nil {
		b.schedules[key] = schedule
	}
	return b.schedules[key]
}

// attach compiles an attachment. It reports sources whose objects are not kept whole.
func (b *builder) attach(a config.Attachment, ofRule string, o expr.Options) *expr.Program {
	program := b.compile(a.Expr, o)
	if program == nil {
		return nil
	}
	for _, name := range program.Gives() {
		name = cmp.Or(name, ofRule)
		if s, _ := b.config.Source(name); s.Keep == config.Needed {
			b.mistake(a.Expr, "source %q keeps only what is needed, "+
				"and attach sends whole objects: look up what is needed of them in the payload, "+
				"or give the source keep: whole", name)
		}
	}
	return program
}

// look records which sources a rule looks into, and what it reads there. LooksInto leaves out the
// rule's own source: byIndex finds what is there so far, and nobody waits for it.
func (b *builder) look(r *Rule) {
	b.reads(r.Source, r.AttachPaths())
	b.reads(r.Source, r.Actions.Paths())
	for _, lookups := range []rule.Lookups{r.Lookups(), r.AttachLookups(), r.Actions.Lookups()} {
		for name, paths := range lookups {
			source := b.sources[name]
			b.reads(source, paths)
			if source != r.Source && !slices.Contains(r.LooksInto, source) {
				r.LooksInto = append(r.LooksInto, source)
			}
		}
	}
	slices.SortFunc(r.LooksInto, func(a, b *Source) int { return strings.Compare(a.Name, b.Name) })
}

// shared returns a set equal to paths that others may have, too.
func (b *builder) shared(paths *object.Paths) *object.Paths {
	text, _ := json.Marshal(paths.List()) // lists of strings can be marshalled
	if b.reading[string(text)] == nil {
		b.reading[string(text)] = paths
	}
	return b.reading[string(text)]
}

// reads records that a rule reads paths of a source's objects apart from their changes.
func (b *builder) reads(s *Source, paths *object.Paths) {
	for _, informer := range s.Informers {
		if b.looked[informer] == nil {
			b.looked[informer] = new(object.Paths)
		}
		b.looked[informer].Union(paths)
	}
}

// compile compiles a text. It returns nil if there is none, or if it reports a mistake.
func (b *builder) compile(text config.Text, o expr.Options) *expr.Program {
	if text.IsZero() {
		return nil
	}
	if b.branch != nil && (o.Scope == expr.Where || o.Scope == expr.Due || o.Scope == expr.When) {
		o.Branch = func(branch expr.Branch) func(bool) { return b.branch(text, branch) }
	}
	from := compiledFrom(text.String(), o)
	if program := b.programs[from]; program != nil && o.Item == nil && o.Branch == nil {
		return program
	}
	program, err := expr.Compile(text.String(), o)
	if err != nil {
		b.mistaken(text, err)
		return nil
	}
	if o.Item == nil { // item means something else in each action
		b.programs[from] = program
	}
	return program
}

// mistaken reports the mistakes of a text at their places.
func (b *builder) mistaken(text config.Text, err error) {
	for _, mistake := range expr.Mistakes(err) {
		message := mistake.Message
		comment := text.Comment()
		if comment != "" && (isUnfinished.MatchString(message) || isText.MatchString(comment)) {
			message = "# begins a comment of YAML, and the text ends before it: put the whole text " +
				"in quotes, or in a block below |-"
		}
		b.mistakes = append(b.mistakes, text.Mistake(mistake.Offset, message))
	}
}

// isText matches a comment that is probably the rest of a text: most comments begin with a space.
var isText = regexp.MustCompile(`^#[^\s#]`)

// isUnfinished matches the mistakes of a text that ends too early.
var isUnfinished = regexp.MustCompile(`^unexpected end of|has no closing .$|^\$\{ is not closed`)

// setViews sets what each informer decodes and keeps. byIndex and lookup search all informers of
// a source, so each of them keeps what any rule reads.
func (b *builder) setViews() {
	for _, informer := range b.plan.AllInformers() {
		for _, r := range informer.Rules {
			informer.View.Union(r.Reads)
		}
		for _, index := range informer.Indexes {
			informer.View.Union(index.Paths())
		}
		for _, gauge := range informer.Gauges {
			informer.View.Union(gauge.Paths())
		}
		keep := object.Identity()
		keep.Add("metadata", "labels") // the cache is listed by them
		keep.Union(informer.View)
		if looked := b.looked[informer]; looked != nil {
			keep.Union(looked)
		}
		if !b.whole[informer] && !keep.Covers() {
			informer.Keep = keep
		}
	}
}
