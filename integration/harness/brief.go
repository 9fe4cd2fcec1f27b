package harness

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
)

// Brief returns an event on one line: the rule, the object, the kind of change, and the payload if
// there is one.
func Brief(ev handler.Event) string {
	line := ev.Rule + " " + strings.TrimPrefix(ev.Namespace+"/"+ev.Name, "/") + " " + ev.Event
	if ev.Payload != nil {
		line += " " + string(ev.Payload)
	}
	return line
}

// Briefs returns the events that mention the test's namespace, with NS in its place.
func (k *Kube) Briefs(events []handler.Event) []string {
	lines := []string{}
	for _, ev := range events {
		if line := Brief(ev); strings.Contains(line, k.Ns) {
			lines = append(lines, strings.ReplaceAll(line, k.Ns, "NS"))
		}
	}
	return lines
}

// inOrder sorts by rule and object: informd promises no order between objects.
func inOrder(lines []string) []string {
	return slices.SortedStableFunc(slices.Values(lines), func(a, b string) int {
		return cmp.Compare(about(a), about(b))
	})
}

func about(line string) string { return strings.Join(strings.Fields(line)[:2], " ") }

// Cut removes the payloads.
func Cut(lines []string) []string {
	short := make([]string, 0, len(lines))
	for _, line := range lines {
		short = append(short, strings.Join(strings.Fields(line)[:3], " "))
	}
	return short
}

// Sees waits for an event, written like Brief's, without a payload and with NS for the test's
// namespace.
func (k *Kube) Sees(d *Daemon, what string) {
	k.t.Helper()
	d.Await(what, func(events []handler.Event) bool {
		return slices.Contains(Cut(k.Briefs(events)), what)
	})
}

// Saw waits for each event of want, stops the daemon and compares all events that mention the test's
// namespace.
func (k *Kube) Saw(d *Daemon, want ...string) {
	k.t.Helper()
	for _, one := range Cut(want) {
		k.Sees(d, one)
	}
	d.Stop()
	Compare(k.t, want, k.Briefs(d.Events))
}

// SawAll is Saw for changes that came before their handler: it waits until no delivery waits.
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
