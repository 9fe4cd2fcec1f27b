package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

var events = []string{"added", "updated", "deleted", "synced"}

const maxAttachments = 16 // of one rule

// Bounds of a rule's for.
const (
	minFor = time.Second
	maxFor = year
)

// Bounds of a group's wait and every, unless they are 0.
const (
	minGathered = 100 * time.Millisecond
	maxGathered = 31 * day
)

// Bounds of a rule's count.
const (
	minCounted, maxCounted = 2, 1000
	minWithin              = time.Second
	maxWithin              = 31 * day
)

func (r *reader) rule(n, at *yaml.Node, name Text) {
	spec := r.mapping(n, at, "spec", ruleFields)
	rule := Rule{
		Name:       name.String(),
		At:         name,
		Where:      spec.expression("where"),
		For:        spec.span("for"),
		Due:        spec.expression("due"),
		When:       spec.expression("when"),
		Events:     r.events(spec),
		AllEvents:  !spec.has("events"),
		Count:      r.count(spec.get("count")),
		Delivery:   Delivery(spec.choice("delivery")),
		Group:      r.group(spec.get("group")),
		Resync:     ruleResync(spec),
		Schedule:   r.schedule(spec.get("schedule")),
		Payload:    r.payload(spec.get("payload")),
		Attach:     r.attach(spec.get("attach")),
		Actions:    r.actions(spec),
		Metrics:    r.ruleMetrics(spec),
		OwnChanges: spec.choice("ownChanges") == 1,
	}
	if due := spec.get("due"); due != nil && spec.has("for") {
		r.mistake(due, "a rule has for or due, not both: "+
			"for counts from when where began to hold, due computes the time")
	}
	if resync := spec.get("resync"); resync != nil && spec.has("schedule") {
		r.mistake(resync, "a rule has schedule or resync, not both: "+
			"each says when it is told of all objects")
	}
	if spec.has("schedule") && !spec.has("source") {
		r.checkAlone(spec, rule)
	} else {
		rule.Source, rule.SourceAt = r.ruleSource(spec)
	}
	if spec.has("metrics") && !spec.has("handler") && !spec.has("actions") {
		r.metricsOnly(spec, rule.Metrics)
	}
	rule.Prune = r.prune(spec, rule)
	if rule.Prune && rule.Group != nil && !rule.Group.By.IsZero() {
		r.mistake(spec.key["prune"], "spec.prune deletes what was applied for an object, "+
			"and spec.group.by has the rule act for many objects at once: leave one of them out")
	}
	if rule.Payload == nil && spec.has("payload") {
		rule.Payload = new(Value) // its mistake is reported; the rule still has a payload
	}
	rule.Handler, rule.HandlerAt = r.reference(spec.get("handler"), "spec.handler")
	rule.Formerly, rule.FormerlyAt = r.formerName(spec.get("formerly"))
	r.config.Rules = append(r.config.Rules, rule)
}

// formerName reads the name that a rule had before it was renamed. checkFormer later compares it
// with those of other rules.
func (r *reader) formerName(n *yaml.Node) (string, Text) {
	name, at := r.reference(n, "spec.formerly")
	if name != "" {
		if fault := notLabel("spec.formerly", name); fault != "" {
			r.mistake(n, "%s", fault)
			return "", Text{}
		}
	}
	return name, at
}

// ruleSource reads the source of a rule that must have one.
func (r *reader) ruleSource(spec mapping) (string, Text) {
	if !spec.has("source") && spec.at != nil {
		r.mistakes = append(r.mistakes, r.file.mistake(r.offset(spec.at),
			"spec.source is missing: name a source whose objects the rule is about; "+
				"only a rule with a schedule can do without"))
		return "", Text{}
	}
	return r.reference(spec.valueOf("source", ""), "spec.source")
}

// checkAlone reports the fields that mean nothing without a source. Such a rule has one event per
// moment of its schedule.
func (r *reader) checkAlone(spec mapping, rule Rule) {
	for _, field := range []string{"where", "for", "due", "resync", "prune", "ownChanges"} {
		if spec.has(field) {
			r.mistake(spec.key[field], "spec.%s needs a source, and the rule has none: its one "+
				"object is the rule itself; leave it out, or name a source", field)
		}
	}
	events := spec.get("events")
	for _, event := range rule.Events {
		if event != "synced" && events != nil {
			r.mistake(events, "spec.events has %s, and a rule without a source is only "+
				"told of its schedule, as synced: leave events out, or name a source", event)
			return
		}
	}
}

// reference reads the name of another manifest. checkReferences later reports a name that nobody
// declares.
func (r *reader) reference(n *yaml.Node, what string) (string, Text) {
	s := r.str(n, what)
	if s == "" {
		return "", Text{}
	}
	return s, r.text(n)
}

// events reads the events of a rule. A rule with a schedule receives its moments only, unless it
// asks for more.
func (r *reader) events(spec mapping) []string {
	n := spec.get("events")
	switch {
	case n == nil && spec.has("schedule"):
		return []string{"synced"}
	case n == nil:
		return slices.Clone(events)
	}
	out := r.someEvents(n)
	if spec.has("schedule") && len(out) > 0 && !slices.Contains(out, "synced") {
		r.mistake(n, "spec.events lacks synced, and a schedule tells of objects as synced")
	}
	return out
}

func (r *reader) someEvents(n *yaml.Node) []string {
	return r.set(n, "spec.events", "events", func(s string) string {
		if slices.Contains(events, s) {
			return ""
		}
		fault := "an event is " + oneOf(events) + ", not " + quote(s)
		if hint := cmp.Or(otherEvents[strings.ToLower(s)], r.suggest(s, events)); hint != "" {
			fault += didYouMean(hint)
		}
		return fault
	})
}

// otherEvents are what watches, admission and other tools call events.
var otherEvents = map[string]string{
	"create": "added", "created": "added", "new": "added",
	"modified": "updated", "changed": "updated", "patched": "updated",
	"removed": "deleted", "resync": "synced", "resynced": "synced", "existing": "synced",
}

func ruleResync(spec mapping) *time.Duration {
	if spec.get("resync") == nil {
		return nil
	}
	d := spec.span("resync")
	return &d
}

// schedule reads a schedule. Package plan checks its expressions and its zone.
func (r *reader) schedule(n *yaml.Node) *Schedule {
	if n == nil {
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		r.mistake(n, "spec.schedule must be a mapping of %s, not %s: write %s",
			strings.Join(scheduleFields.names(), ", "), describe(n), asSchedule(n.Value))
		return new(Schedule)
	}
	spec := r.mapping(n, n, "spec.schedule", scheduleFields)
	s := new(Schedule)
	cron := spec.get("cron")
	if cron != nil && cron.Kind != yaml.SequenceNode {
		cron = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{cron}}
	}
	for _, item := range r.list(cron, "spec.schedule.cron", "cron expressions") {
		if r.str(item, "spec.schedule.cron") != "" {
			s.Cron = append(s.Cron, r.text(item))
		}
	}
	if zone := spec.get("zone"); r.str(zone, "spec.schedule.zone") != "" {
		s.Zone = r.text(zone)
	}
	s.SkipsMissed = missed[spec.choice("missed")] == skipMissed
	return s
}

// asSchedule returns the schedule that the author of a text has in mind, or an example.
func asSchedule(text string) string {
	if at, err := time.Parse("15:04", text); err == nil {
		return fmt.Sprintf(`{cron: "%d %d * * *"}`, at.Minute(), at.Hour())
	}
	if strings.HasPrefix(text, "@") || len(strings.Fields(text)) == 5 {
		return fmt.Sprintf("{cron: %s}", quote(text))
	}
	return `{cron: "0 19 * * *"} for every day at 19:00`
}

// group reads which changes come as one event.
func (r *reader) group(n *yaml.Node) *Group {
	if n == nil {
		return nil
	}
	spec := r.mapping(n, n, "spec.group", groupFields)
	g := &Group{
		By:    spec.expression("by"),
		Wait:  spec.span("wait"),
		Every: spec.span("every"),
	}
	if n.Kind == yaml.MappingNode && !spec.has("wait") && !spec.has("every") {
		r.mistake(n, "spec.group needs wait, every or both: wait: 30s gathers changes for 30 "+
			"seconds before an event, every: 10m leaves 10 minutes between two events")
	}
	return g
}

// count reads which changes of a rule go on.
func (r *reader) count(n *yaml.Node) *Count {
	if n == nil {
		return nil
	}
	spec := r.mapping(n, n, "spec.count", countFields)
	times := spec.get("times")
	if times != nil && times.Value == "1" {
		r.mistake(times, "spec.count.times must be at least %d: without a count, each change goes on",
			minCounted)
	}
	return &Count{
		Times:  spec.whole("times"),
		Within: spec.span("within"),
		By:     spec.expression("by"),
		At:     spec.expression("at"),
	}
}

func (r *reader) attach(n *yaml.Node) []Attachment {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.mistake(n, "spec.attach must be a mapping of names to expressions, not %s", describe(n))
		return nil
	}
	if len(n.Content)/2 > maxAttachments {
		r.mistake(n, "spec.attach has %d names, more than %d", len(n.Content)/2, maxAttachments)
		return nil
	}
	var out []Attachment
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !indexName.MatchString(key.Value) {
			r.mistake(key, "the name %s in spec.attach must begin with a letter, followed by "+
				"letters, digits, _ and -, and have at most %d characters",
				quote(key.Value), maxName)
			continue
		}
		if expr := r.expression(value, "spec.attach."+key.Value); !expr.IsZero() {
			out = append(out, Attachment{Name: key.Value, Expr: expr})
		}
	}
	slices.SortFunc(out, func(a, b Attachment) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
