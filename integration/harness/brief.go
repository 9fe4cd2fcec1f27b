package harness

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
)

// Brief is an event on one line: the rule, the object, the kind of change, and the payload if there
// is one.
func Brief(ev handler.Event) string {
	line := ev.Rule + " " + strings.TrimPrefix(ev.Namespace+"/"+ev.Name, "/") + " " + ev.Event
	if ev.Payload != nil {
		line += " " + string(ev.Payload)
	}
	return line
}

// Briefs are the events that mention the test's namespace, with NS in its place.
func (k *Kube) Briefs(events []handler.Event) []string {
	lines := []string{}
	for _, ev := range events {
		if line := Brief(ev); strings.Contains(line, k.Ns) {
			lines = append(lines, strings.ReplaceAll(line, k.Ns, "NS"))
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

// Cut leaves the payloads out.
func Cut(lines []string) []string {
	short := make([]string, 0, len(lines))
	for _, line := range lines {
		short = append(short, strings.Join(strings.Fields(line)[:3], " "))
	}
	return short
}

// Sees waits for an event, written as brief does it without a payload, NS for the test's namespace.
func (k *Kube) Sees(d *Daemon, what string) {
	k.t.Helper()
	d.Await(what, func(events []handler.Event) bool { return slices.Contains(Cut(k.Briefs(events)), what) })
}

// Saw ends the daemon when the last of want has come, and compares all that mention the test's
// namespace. What was selected before the last one has come by then, as the daemon lets what is in
// flight end.
func (k *Kube) Saw(d *Daemon, want ...string) {
	k.t.Helper()
	k.Sees(d, Cut(want)[len(want)-1])
	d.Stop()
	Compare(k.t, want, k.Briefs(d.Events))
}

// SawAll does so when nothing waits any more: for changes that came before a handler did.
func (k *Kube) SawAll(d *Daemon, want ...string) {
	k.t.Helper()
	k.Sees(d, Cut(want)[len(want)-1])
	d.AwaitDelivered()
	k.Saw(d, want...)
}

func Compare(t testing.TB, want, got []string) {
	t.Helper()
	if diff := gocmp.Diff(inOrder(want), inOrder(got)); diff != "" {
		t.Errorf("what was delivered (- expected, + came):\n%s", diff)
	}
}
