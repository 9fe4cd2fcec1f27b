package engine

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
)

// An orphan's source object that has come meanwhile is not deleted.
func TestOrphansOfObjectsThatCameMeanwhile(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	h := new(teller)
	e, stop := l.start(mapSource+aRule("r", ""), h)
	for deadline := time.Now().Add(patience); e.rule("r").lane.Stats().InFlight > 0 || len(e.rule("r").view.List("", nil)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the source does not sync")
		}
	}
	o := &orphans{rule: e.rule("r"), engine: e}
	for !o.hasResumed() {
		time.Sleep(time.Millisecond)
	}
	o.report([]stray{{resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, mark: "mark"}}, false)
	if reason := o.reason(); !strings.Contains(reason, "'informd.dev/rule=r,informd.dev/source in (mark)'") {
		t.Errorf("the status lists what is wanted, too: %s", reason)
	} else if !strings.HasPrefix(reason, "leaves 1 object that") {
		t.Errorf("one object is left: %s", reason)
	}
	gone := []delta.Key{{Namespace: "shop", Name: "a"}, {Namespace: "shop", Name: "b"}, {Namespace: "pay", Name: "c"}}
	if told := o.depart(gone); len(told) != 2 || told[gone[0]] {
		t.Errorf("told %v", told)
	}
	for o.rule.lane.Stats().Waiting+o.rule.lane.Stats().InFlight > 0 {
		time.Sleep(time.Millisecond)
	}
	l.expect(stop(), "r synced a →1", "r deleted b →", "r deleted c →")
}
