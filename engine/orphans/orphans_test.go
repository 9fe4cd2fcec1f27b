package orphans

import (
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/prepare"
)

// The status says what a rule leaves, with a command that lists exactly that.
func TestReport(t *testing.T) {
	t.Parallel()
	planned := &plan.Rule{}
	planned.Name, planned.Source = "r", new(plan.Source)
	rule := &Rule{Plan: planned, Recipe: prepare.New(planned, func(string) prepare.Source { return nil })}
	o := New(rule, nil, slog.New(slog.DiscardHandler), clock.RealClock{})
	if reason := o.Reason(); reason != "" {
		t.Errorf("before a look, the status says %q", reason)
	}
	o.report([]Stray{{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, mark: "mark"}}, false)
	if reason := o.Reason(); !strings.Contains(reason, "'informd.dev/rule=r,informd.dev/source in (mark)'") {
		t.Errorf("the status lists what is wanted, too: %s", reason)
	} else if !strings.HasPrefix(reason, "leaves 1 object that") {
		t.Errorf("one object is left: %s", reason)
	}
}
