package integration

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
)

// brief is an event on one line: the rule, the object, the kind of change, and the payload if there is one.
func brief(ev handler.Event) string {
	line := ev.Rule + " " + strings.TrimPrefix(ev.Namespace+"/"+ev.Name, "/") + " " + ev.Event
	if ev.Payload != nil {
		line += " " + string(ev.Payload)
	}
	return line
}

// briefs are the events that mention the test's namespace, with NS in its place.
func (k *kube) briefs(events []handler.Event) []string {
	lines := []string{}
	for _, ev := range events {
		if line := brief(ev); strings.Contains(line, k.ns) {
			lines = append(lines, strings.ReplaceAll(line, k.ns, "NS"))
		}
	}
	return lines
}

// inOrder sorts by rule and object, as far as the order of events is no promise.
func inOrder(lines []string) []string {
	return slices.SortedStableFunc(slices.Values(lines), func(a, b string) int {
		return cmp.Compare(about(a), about(b))
	})
}

func about(line string) string { return strings.Join(strings.Fields(line)[:2], " ") }

// cut leaves the payloads out.
func cut(lines []string) []string {
	short := make([]string, 0, len(lines))
	for _, line := range lines {
		short = append(short, strings.Join(strings.Fields(line)[:3], " "))
	}
	return short
}

// sees waits for an event, written as brief does it without a payload, NS for the test's namespace.
func (k *kube) sees(d *daemon, what string) {
	k.t.Helper()
	d.await(what, func(events []handler.Event) bool { return slices.Contains(cut(k.briefs(events)), what) })
}

// saw ends the daemon when the last of want has come, and compares all that mention the test's namespace. What was
// selected before the last one has come by then, as the daemon lets what is in flight end.
func (k *kube) saw(d *daemon, want ...string) {
	k.t.Helper()
	k.sees(d, cut(want)[len(want)-1])
	d.stop()
	compare(k.t, want, k.briefs(d.events))
}

// sawAll does so when nothing waits any more: for changes that came before a handler did.
func (k *kube) sawAll(d *daemon, want ...string) {
	k.t.Helper()
	k.sees(d, cut(want)[len(want)-1])
	d.awaitDelivered()
	k.saw(d, want...)
}

func compare(t testing.TB, want, got []string) {
	t.Helper()
	if diff := gocmp.Diff(inOrder(want), inOrder(got)); diff != "" {
		t.Errorf("what was delivered (- expected, + came):\n%s", diff)
	}
}
