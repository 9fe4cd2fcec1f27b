package client

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/engine/explain"
)

// resourceOf returns the resource of a target, and which part of it.
func resourceOf(t *explain.Target) string {
	switch t.Part {
	case "":
		return t.Resource
	case explain.EventPart, explain.PrunePart:
		return t.Resource + " (" + t.Part + ")"
	}
	return t.Resource + "/" + t.Part
}

// objectName returns NAMESPACE/NAME, or NAME.
func objectName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// ownPrefix matches the part of a reason that names the action and the target.
var ownPrefix = regexp.MustCompile(`^(?:[\w.-]+\[\d+\]: )?` + strings.TrimPrefix(ofAction, `\b`))

// whyNot says in one line why a target is not as its rule asks, or returns "".
func whyNot(t *explain.Target) string {
	if t.State == "behind" && t.Owner != nil {
		return fmt.Sprintf("%s of rule %s owns it", t.Owner.Object, t.Owner.Rule)
	}
	return ownPrefix.ReplaceAllString(t.Reason, "")
}

// nextTry says when a target is tried again, or returns "" if it does not wait.
func nextTry(t *explain.Target, now time.Time) string {
	if t.State != "waits" && (t.State != "dropped" || t.Failures == 0) {
		return ""
	}
	return until(now, t.Next)
}

// inTrouble returns how many targets wait, are refused or are behind another source object.
func inTrouble(t *explain.Targets) int {
	return t.States["waits"] + t.States["refused"] + t.States["behind"]
}

// stateWords are the states in the middle of a sentence, for one target and for several.
var stateWords = map[string][2]string{
	"asked": {"is not tried yet", "are not tried yet"}, "done": {"is done", "are done"},
	"waits": {"waits", "wait"}, "refused": {"is refused", "are refused"},
	"behind":  {"is behind its owner", "are behind their owners"},
	"dropped": {"is to be deleted", "are to be deleted"},
}

// countText says how many targets there are, and what has come of them.
func countText(t *explain.Targets) string {
	all, parts := 0, []string(nil)
	for _, state := range control.TargetStates() {
		n := t.States[state]
		if all += n; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, stateWords[state][min(n, 2)-1]))
		}
	}
	return fmt.Sprintf("%d %s: %s", all, cli.Plural(all, "target"), strings.Join(parts, ", "))
}

// targetText says in one line what has come of a target.
func targetText(t *explain.Target, now time.Time) string {
	text := resourceOf(t) + " " + objectName(t.Namespace, t.Name) + " for " + t.For
	next := nextTry(t, now)
	switch {
	case t.State == "behind":
	case next != "":
		text += " is tried again " + next
	default:
		text += " " + stateWords[t.State][0]
	}
	return text + after(": ", whyNot(t))
}

// writeTargets writes which targets of a rule wait, are refused or are behind another source object,
// the first ones of them.
func writeTargets(
	w io.Writer, r control.RuleStatus, flags *controlFlags, as shape, now time.Time,
) error {
	if r.Targets == nil || inTrouble(r.Targets) == 0 && len(r.Targets.First) == 0 {
		return nil
	}
	if err := note(w, r.Name, countText(r.Targets), as); err != nil {
		return err
	}
	lines := make([]string, 0, len(r.Targets.First)+1)
	for i := range r.Targets.First {
		lines = append(lines, targetText(&r.Targets.First[i], now))
	}
	if inTrouble(r.Targets) > len(r.Targets.First) {
		lines = append(lines, "all of them: "+flags.command("applied", "list", "--rule", r.Name))
	}
	for _, line := range lines {
		line = wrap("    "+cli.Printable(line), "        ", as.most)
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// mostExplained is how many targets of an object informd explain writes.
const mostExplained = 20

// writeTargetsOf writes the targets of an object.
func writeTargetsOf(w io.Writer, x *explain.Explanation, most int) {
	if x.Targets == nil || len(x.Targets.First) == 0 {
		return
	}
	fmt.Fprint(w, "\nTARGETS\n")
	t := newTableWithin(w, most, "STATE", "RESOURCE", "NAMESPACE", "NAME", "NEXT", "LAST ERROR")
	first := x.Targets.First[:min(len(x.Targets.First), mostExplained)]
	for i := range first {
		one := &first[i]
		t.row(one.State, resourceOf(one), one.Namespace, one.Name, nextTry(one, x.Time), whyNot(one))
	}
	_ = t.flush() // of a strings.Builder
	all := 0
	for _, n := range x.Targets.States {
		all += n
	}
	if all > len(first) {
		fmt.Fprintf(w, "… of %s\n", countText(x.Targets))
	}
}

// eventTargets says what an event waits for, or returns "".
func eventTargets(t *explain.Targets, wide bool, now time.Time) string {
	if t == nil {
		return ""
	}
	text := "; " + countText(t)
	for i := range t.First {
		if one := &t.First[i]; wide && nextTry(one, now) != "" {
			text += "; " + targetText(one, now)
		}
	}
	return text
}
