package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Conclude sets the Answer. It reads all other fields.
func (x *Explanation) Conclude() {
	x.addOutcomes()
	x.Answer = strings.TrimSpace(x.standing() + " " + x.latest())
}

// isLive reports whether a daemon has answered.
func (x *Explanation) isLive() bool { return x.State != "" }

// standing says how the object relates to the rule.
func (x *Explanation) standing() string {
	switch x.Standing {
	case Unknown:
		return "Not known yet: " + x.Reason + "."
	case Unselected:
		return "The source " + x.Source.Name + " does not select it: " + x.whyNot() + "."
	case Absent:
		return x.absent()
	case Outside:
		return "Not a member: " + x.outside() + "."
	case Waiting:
		return "Not a member yet: " + x.waiting()
	}
	if x.Source.Name == "" {
		text := "The rule has no source: it sees moments of its schedule."
		if !x.Next.IsZero() {
			text += " The next one is " + x.at(x.Next) + "."
		}
		return text
	}
	if x.Where == nil && x.Timing == nil {
		return "It is a member, as all objects of the source are."
	}
	if since := x.memberSince(); !since.IsZero() {
		return "It is a member since " + x.clock(since) + "."
	}
	return "It is a member."
}

func (x *Explanation) whyNot() string {
	var all []string
	for _, s := range x.Source.Selections {
		if s.WhyNot != "" && !slices.Contains(all, s.WhyNot) {
			all = append(all, s.WhyNot)
		}
	}
	return strings.Join(all, "; ")
}

// absent says that the source has no such object, and what it selects.
func (x *Explanation) absent() string {
	if n := len(x.Changes); n > 0 && x.Changes[n-1].Event == "deleted" {
		return "It is gone, or the source " + x.Source.Name + " selects it no more."
	}
	var of []string
	for _, s := range x.Source.Selections {
		if s.WhyNot != "" {
			continue
		}
		if s.LabelSelector != "" {
			of = append(of, "labels "+s.LabelSelector)
		}
		if s.FieldSelector != "" {
			of = append(of, "fields "+s.FieldSelector)
		}
	}
	text := fmt.Sprintf("The source %s has no such object.", x.Source.Name)
	if len(of) > 0 {
		text += " It selects objects with " + strings.Join(of, " and ") + " alone."
	}
	return text
}

// outside says why the object is no member.
func (x *Explanation) outside() string {
	if w := x.Where; w != nil && (w.Error != "" || w.isFalse()) {
		return isNot("where", w)
	}
	if x.Timing != nil && x.Timing.Due != nil {
		return isNot("due", x.Timing.Due)
	}
	return "where is false" // its value is not shown
}

// isNot says why an expression does not hold.
func isNot(field string, p *Part) string {
	switch why := p.why(); {
	case p.Error != "":
		return field + " fails: " + p.Error
	case field == "due":
		return "due is nil"
	case why != "":
		return field + " is false because " + why
	}
	return field + " is false"
}

func (x *Explanation) waiting() string {
	t := x.Timing
	in := Short(t.At.Sub(x.Time))
	switch {
	case t.isHidden:
		return "due lies ahead, and is not shown, as it may quote a Secret."
	case t.Due != nil:
		return fmt.Sprintf("due is %s, in %s.", x.clock(t.At), in)
	case !x.isLive():
		return fmt.Sprintf("it becomes one once where has held for %s.", t.For)
	case !t.At.After(x.Time):
		return fmt.Sprintf("where has held for %s, and it becomes one now.",
			Short(x.Time.Sub(t.Since)))
	}
	return fmt.Sprintf("where has held for %s; it becomes one in %s, at %s, if where holds until then.",
		Short(x.Time.Sub(t.Since)), in, x.clock(t.At))
}

// memberSince returns when the object became a member, if that is remembered.
func (x *Explanation) memberSince() (since time.Time) {
	if !x.isLive() || !x.seesAll {
		return since
	}
	for _, c := range x.Changes {
		uid := strings.Split(c.ID, "/")[1]
		switch {
		case uid != x.uid: // of an earlier object of this name
			since = time.Time{}
		case c.Event == "added" && c.What != "waits":
			since = c.Time
		case c.Event == "deleted":
			since = time.Time{}
		}
	}
	return since
}

// latest says what became of the object's last change.
func (x *Explanation) latest() string {
	if x.Standing == Unknown || x.Standing == Unselected {
		return ""
	}
	if c := last(x.Changes); x.Standing == Waiting && c != nil && c.What == "waits" {
		return ""
	}
	if !x.isLive() {
		return x.judged()
	}
	if d := x.Delivery; d != nil {
		return x.undelivered(d)
	}
	if g := x.Group; g != nil && g.Gathered > 0 {
		if c := last(x.Changes); c != nil && c.What == "void" { // with one of those that waited
			return fmt.Sprintf("%s An earlier change waits for the event of its group, which comes %s.",
				x.changed(c), x.in(g.Next))
		}
		return fmt.Sprintf("Its last change waits for the event of its group, which comes %s.",
			x.in(g.Next))
	}
	if x.Standing == Member && x.When != nil && x.When.IsSkipped {
		return "As it is, no change of it is delivered: " + isNot("when", x.When.Part) + "."
	}
	change, attempt := last(x.Changes), last(x.Attempts)
	if x.Standing == Member && change != nil && change.ResourceVersion != x.ResourceVersion {
		return x.outcome(change, attempt) + " " + x.unseen()
	}
	return x.outcome(change, attempt)
}

// unseen says why the rule has not looked at the object as it is: the types of its changes, or the
// rule was another one then.
func (x *Explanation) unseen() string {
	if len(x.Events) < 4 {
		return fmt.Sprintf("Changes since then are no events: the rule's events are %s.",
			strings.Join(x.Events, ", "))
	}
	return "The rule, as it is, has not seen its changes since then." + x.resync()
}

// resync says how the rule sees what is there, if it can.
func (x *Explanation) resync() string {
	if !slices.Contains(x.Events, "synced") {
		return ""
	}
	return fmt.Sprintf(" informd rule resync %s has it see all members now.", x.Rule)
}

// outcome says what became of the last change that is remembered, or of the last attempt.
func (x *Explanation) outcome(change, attempt *Happened) string {
	switch {
	case attempt != nil && (change == nil || !change.Time.After(attempt.Time)):
		return x.attempted(attempt)
	case change != nil:
		return x.changed(change)
	case x.Standing != Member:
		return ""
	}
	text := "The rule has seen no change of it since " + x.clock(x.Since)
	if len(x.Events) < 4 {
		text = fmt.Sprintf("Since %s, the rule has seen no change of it that is %s",
			x.clock(x.Since), strings.Join(x.Events, " or "))
	}
	if x.HasForgotten { // what came before may have been delivered
		return text + ", as far as informd remembers."
	}
	return text + "." + x.resync()
}

func last(of []Happened) *Happened {
	if len(of) == 0 {
		return nil
	}
	return &of[len(of)-1]
}

// undelivered describes the event that waits, and what it waits for.
func (x *Explanation) undelivered(d *Delivery) string {
	event := "Its last event"
	if d.Event != "" {
		event += " (" + d.Event + ")"
	}
	since := ""
	if !d.Since.IsZero() {
		since = " for " + Short(x.Time.Sub(d.Since))
	}
	failed := ""
	if d.Failures > 0 {
		failed = fmt.Sprintf(", after %d %s", d.Failures, plural(d.Failures, "failure"))
	}
	switch {
	case d.InFlight && x.Handler == ownActions:
		return event + " is at work: the rule performs its actions" + failed + "."
	case d.InFlight:
		return fmt.Sprintf("%s is with handler %s%s%s.", event, d.Handler, x.sentFor(), failed)
	case d.Paused:
		return event + " waits" + since + ": the rule is paused."
	case !d.Retry.IsZero():
		return event + x.repeated(d)
	case x.Reason != "":
		return event + " waits" + since + ": " + x.Reason + "."
	case d.Handler == ownActions:
		return event + " waits for its turn" + since + "."
	}
	return event + " waits" + since + " for handler " + d.Handler + failed + "."
}

// repeated says why an event waits to be tried, and until when.
func (x *Explanation) repeated(d *Delivery) string {
	text, when := "", x.in(d.Retry)
	if d.RetryOnChange {
		when += ", or when the object changes"
	}
	switch {
	case d.Failures > 0:
		text = fmt.Sprintf(" has failed %d %s, and is tried again %s",
			d.Failures, plural(d.Failures, "time"), when)
		if d.Failure == "" {
			text += "; why is not remembered"
		}
	case d.Losses > 0:
		text = fmt.Sprintf(" was lost with its handler %d %s, and is tried again %s",
			d.Losses, plural(d.Losses, "time"), when)
	case d.Refusals > 0:
		text = " was decided on an older state of the object, and is tried again " + when
	case d.Slowed != "":
		return " is held back, and comes " + when + ": " + d.Slowed + "."
	default:
		return " waits, and comes " + when + "."
	}
	if d.Failure != "" {
		text += ": " + d.Failure
	}
	return strings.TrimSuffix(text, ".") + "."
}

// sentFor says for how long the handler has had the event in flight.
func (x *Explanation) sentFor() string {
	if a := last(x.Attempts); a != nil && a.What == "sent" {
		return ", for " + Short(x.Time.Sub(a.Time))
	}
	return ""
}

// The names of the handlers of rules that act themselves, and of those that only measure.
const (
	ownActions  = "(actions)"
	onlyMetrics = "(metrics)"
)

// attempted says how the last attempt ended.
func (x *Explanation) attempted(a *Happened) string {
	event, ago := "Its last event ("+a.Event+")", Short(x.Time.Sub(a.Time))+" ago"
	switch a.What {
	case "done":
		return event + " was delivered " + ago + "."
	case "acted", "unchanged", "gone", "pruned", "idle":
		return x.acted(a)
	case "tried":
		return event + " was only logged, " + ago + ": informd runs dry."
	case "outdated":
		return event + " was given up " + ago + ": the object has changed since."
	case "reject", "dead", "unmade":
		text := event + " became a dead letter " + ago
		for _, l := range x.DeadLetters {
			if l.ID == a.ID && l.Reason != "" {
				text += ": " + l.Reason
			}
		}
		return strings.TrimSuffix(text, ".") + "."
	case "sent":
		return event + " was sent " + ago + "."
	case "cancelled":
		return event + " was cancelled " + ago + ", and comes again."
	case "acts":
		return event + " is at work since " + x.clock(a.Time) + ": the rule performs its actions."
	}
	return event + " failed " + ago + "."
}

// changed says what became of a change that was not delivered.
func (x *Explanation) changed(c *Happened) string {
	change := fmt.Sprintf("Its last change (%s), %s ago, ", c.Event, Short(x.Time.Sub(c.Time)))
	switch c.What {
	case "selected":
		return change + "was selected."
	case "gathered":
		return change + "went along with the event of its group."
	case "undecided":
		return change + "waits, and is evaluated at its delivery."
	case "own":
		return change + "was made by the rule itself, and is not delivered to it."
	case "void":
		return change + "was not delivered: the change before it still waited, and they cancelled " +
			"each other out."
	}
	if c.What == "when" && x.When != nil && x.When.Part != nil && !x.When.IsNow &&
		string(x.When.Part.Value) == "true" { // the rule has changed, or what it looks up
		return change + "was not delivered: when was false then. It is true now." + x.resync()
	}
	return change + "was not delivered: " + x.declined(c) + "."
}

// declined says why a change is no event.
func (x *Explanation) declined(c *Happened) string {
	switch c.What {
	case "events":
		text := fmt.Sprintf("the rule's events are %s", strings.Join(x.Events, ", "))
		if len(x.Events) == 1 {
			text += " alone"
		}
		if !x.isLive() && !x.Old && slices.Contains(x.Events, "updated") {
			text += "; give the state before with --old"
		}
		return text
	case "when":
		if x.When != nil && x.When.Part != nil && !x.When.IsNow && x.When.Event == c.Event &&
			x.When.Part.isFalse() {
			return isNot("when", x.When.Part)
		}
		return "when was false"
	case "failed":
		if x.When != nil && x.When.Part != nil && x.When.Part.Error != "" {
			return "when fails: " + x.When.Part.Error
		}
		return "an expression failed"
	case "rounds":
		text := "the rule sees its members at the moments of its schedule only"
		if !x.Next.IsZero() {
			text += ", next " + x.at(x.Next)
		}
		return text
	case "count":
		if x.Count == nil || x.Count.Have < 0 {
			return "it counts, and is not the one that goes on"
		}
		return fmt.Sprintf("it counts; %d of %d within %s have come",
			x.Count.Have, x.Count.Times, x.Count.Within)
	case "waits":
		return "it waits to become a member"
	}
	return c.What
}

// judged says what the rule would make of a change that is only supposed.
func (x *Explanation) judged() string {
	c := last(x.Changes)
	if c == nil {
		return ""
	}
	change := map[string]string{
		"added":   "If it were added now, the event would",
		"updated": "This update would",
		"deleted": "It leaves by this update: the event (deleted) would",
	}[c.Event]
	if x.Old && c.Event == "added" {
		change = "It comes in by this update: the event (added) would"
	}
	if x.When != nil && x.When.LooksUp {
		return map[string]string{
			"added":   "If it were added now, whether the event would",
			"updated": "Whether this update would",
			"deleted": "It leaves by this update: whether the event (deleted) would",
		}[c.Event] + " be delivered depends on what when looks up, which is not known without a daemon."
	}
	switch {
	case c.What == "selected" && x.Handler == onlyMetrics:
		return change + " only be counted by the rule's metrics."
	case c.What == "selected" && x.Handler == ownActions:
		return x.wouldAct(strings.Replace(change, "the event", "the rule", 1))
	}
	switch c.What {
	case "selected":
		if x.Acts != nil {
			return change + " be delivered. " + x.wouldAct("The rule would then")
		}
		return change + " be delivered."
	case "gathered":
		return change + " be delivered with the event of its group."
	case "count":
		return fmt.Sprintf("%s count; one in %d within %s is delivered.",
			change, x.Count.Times, x.Count.Within)
	}
	return change + " not be delivered: " + x.declined(c) + "."
}

// clock returns a time as one says it: without the day, if that is today.
func (x *Explanation) clock(t time.Time) string {
	t = t.In(x.Time.Location())
	if t.YearDay() == x.Time.YearDay() && t.Year() == x.Time.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.RFC3339)
}

// in says when a time comes.
func (x *Explanation) in(t time.Time) string {
	if left := t.Sub(x.Time); left > 0 {
		return "in " + Short(left)
	}
	return "now"
}

// at says when a time comes, and what the clock shows then.
func (x *Explanation) at(t time.Time) string { return x.in(t) + ", at " + x.clock(t) }

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// Short returns a duration for a sentence.
func Short(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return short(d.Round(time.Second))
	case d < 48*time.Hour:
		return short(d.Round(time.Minute))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
