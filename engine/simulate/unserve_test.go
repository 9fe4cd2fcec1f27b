package simulate

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// pruning is a rule with a handler that applies a copy of each object of some sizes, and prunes it.
var pruning = ruleOf("r", `, where: object.data.size != "0", prune: true, actions: [{apply: {resource: v1/secrets, object: {metadata: {name: "${object.metadata.name}-copy", namespace: shop}}}}]`)

// A version that is no longer served deletes nothing, over restarts and for ever.
func TestUnservedVersion(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, ruleOf("r", ""))
	b.put("a", "1")
	b.put("b", "1")
	b.expect(0, "r added a", "r added b")
	b.must(b.Unserve("maps", false))
	b.put("a", "2")
	b.must(b.Delete("maps", "shop", "b"))
	b.expect(720 * time.Hour)
	b.must(b.Restart(Restart{Down: time.Hour}))
	b.expect(720 * time.Hour)
	b.must(b.Restart(Restart{Resumption: Resumption{HistoryLost: true}}))
	b.expect(720 * time.Hour)
	if status, _ := b.Status(); status.Sources[0].Ready || status.Sources[0].Objects != 2 {
		t.Errorf("the source is %+v", status.Sources[0])
	}
	b.must(b.Serve("maps"))
	b.expect(0, "r updated a", "r deleted b")
	if err := b.Serve("maps"); err == nil {
		t.Error("it is served twice")
	}
}

// The objects of a resource that is withdrawn are deleted after a minute. The rule prunes after an
// hour, also over restarts.
func TestWithdrawnResource(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, pruning)
	b.put("a", "1")
	b.put("b", "1")
	b.expect(0, "r added a", "r added a, apply a-copy, prunes secrets", "r added b", "r added b, apply b-copy, prunes secrets")
	b.must(b.Unserve("maps", true))
	b.expect(59 * time.Second)
	b.expect(time.Second, "r deleted a after 1s", "r deleted b after 1s")
	b.expect(10 * time.Minute)
	b.must(b.Restart(Restart{Down: 10 * time.Minute}))
	b.expect(40*time.Minute - time.Second)
	b.expect(time.Second, "r deleted a after 1s, prunes secrets", "r deleted b after 1s, prunes secrets")
	b.expect(720 * time.Hour)
	b.must(b.Serve("maps"))
	b.expect(time.Hour, "r added a", "r added a, apply a-copy, prunes secrets", "r added b", "r added b, apply b-copy, prunes secrets")
}

// If a resource is reinstalled within the hour, the objects applied for its returning objects stay.
func TestResourceThatIsReinstalled(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, pruning)
	for _, name := range []string{"back", "gone", "outside"} {
		b.put(name, "1")
	}
	b.must(b.Advance(0))
	b.Events()
	b.must(b.Unserve("maps", true))
	b.expect(time.Minute, "r deleted back after 1m0s", "r deleted gone after 1m0s", "r deleted outside after 1m0s")
	b.expect(10 * time.Minute)
	b.must(b.Delete("maps", "shop", "gone"))
	b.put("outside", "0")
	b.must(b.Serve("maps"))
	b.expect(0, "r added back", "r added back, apply back-copy, prunes secrets")
	b.must(b.Restart(Restart{}))
	b.expect(50*time.Minute - time.Second)
	b.expect(time.Second, "r deleted gone after 1s, prunes secrets", "r deleted outside after 1s, prunes secrets")
	b.expect(720 * time.Hour)
}

// If a resource comes back in another version, it was not withdrawn.
func TestWithdrawnResourceThatComesBackInAnotherVersion(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, pruning)
	b.put("a", "1")
	b.must(b.Advance(0))
	b.Events()
	b.must(b.Unserve("maps", true))
	b.expect(2*time.Minute, "r deleted a after 1m0s")
	b.must(b.Serve("maps"))
	b.must(b.Delete("maps", "shop", "a"))
	b.must(b.Unserve("maps", false))
	b.expect(720 * time.Hour)
	b.must(b.Serve("maps"))
	b.expect(askElsewhere, "r deleted a after 9m0s, prunes secrets")
}

// askElsewhere is how often informd asks whether another version still has a resource.
const askElsewhere = 10 * time.Minute

// While a resource is not served, a pause or a failing handler changes nothing about the hour.
func TestWithdrawnResourceOfAPausedRule(t *testing.T) {
	t.Parallel()
	answers := []Answer{{}, {RetryAfter: 30 * time.Minute}, {}}
	b := simulation(t, Options{Answer: func(Event) Answer {
		next := answers[0]
		answers = answers[1:]
		return next
	}}, sizes, recorder, pruning)
	b.put("a", "1")
	b.must(b.Advance(0))
	b.Events()
	b.must(b.Unserve("maps", true))
	b.expect(time.Minute, "r deleted a after 1m0s")
	b.expect(30*time.Minute, "r deleted a #2 after 30m0s")
	b.expect(30*time.Minute - time.Second)
	b.must(b.stepper.Engine().SetPaused("r", true))
	b.expect(time.Hour)
	b.must(b.stepper.Engine().SetPaused("r", false))
	b.expect(time.Minute, "r deleted a, prunes secrets")
}

// What is not heard cannot make a rule with for fire, and is not lost.
func TestStalledSource(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, "kind: Source, metadata: {name: others}, spec: {resource: v1/pods}", recorder,
		ruleOf("r", `, where: object.data.size == "1", for: 5m`), ruleOf("all", ""),
		"kind: Rule, metadata: {name: o}, spec: {source: others, handler: h}")
	b.put("a", "1")
	b.put("b", "1")
	b.expectAnyOrder(4*time.Minute, "all added a", "all added b")
	b.must(b.Stall("maps"))
	if err := b.Stall("maps"); err == nil {
		t.Error("it stalls twice")
	}
	b.put("b", "2")
	b.must(b.Apply("others", []byte(`{"metadata":{"namespace":"shop","name":"c"}}`)))
	b.expect(time.Hour, "o added c")
	b.must(b.Relist(false))
	b.expectAnyOrder(time.Minute, "all updated b", "r added a after 1s")
	b.must(b.Stall("maps"))
	b.put("b", "3")
	b.must(b.Restart(Restart{Down: time.Minute}))
	b.expect(0, "all updated b")
}

// Objects that come back as they were, each time that their resource is served again, have other ids.
func TestIDsOfAResourceThatComesBack(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes, recorder, ruleOf("r", ""))
	b.put("a", "1")
	b.must(b.Advance(0))
	var ids []string
	for range 3 {
		b.must(b.Unserve("maps", true))
		b.must(b.Advance(2 * time.Minute))
		b.must(b.Serve("maps"))
		b.must(b.Advance(time.Minute))
		b.must(b.Restart(Restart{}))
	}
	for _, e := range b.Events() {
		if ids = append(ids, e.Event.ID); slices.Index(ids, e.Event.ID) != len(ids)-1 {
			t.Errorf("different events have the same id: %v", ids)
		}
	}
	if len(ids) != 7 {
		t.Error(ids)
	}
}

// What a rule looks into and has read may go. It then finds nothing there, and prunes nothing for
// that reason, until it is back.
func TestPruneWaitsForAWithdrawnLookup(t *testing.T) {
	t.Parallel()
	b := simulation(t, Options{}, sizes,
		`kind: Source, metadata: {name: zones}, spec: {resource: v1/nodes, indexes: {all: '"yes"'}}`,
		`kind: Rule, metadata: {name: r}, spec: {source: maps, prune: true, actions: [{forEach: 'lookup("zones.all", "yes")', apply: {resource: v1/secrets, object: {metadata: {name: "${object.metadata.name}-${item.metadata.name}", namespace: shop}}}}]}`)
	b.must(b.Apply("zones", []byte(`{"kind":"Node","metadata":{"name":"north"}}`)))
	b.put("a", "1")
	b.expect(time.Second, "r added a, apply a-north, prunes secrets")
	b.must(b.Unserve("zones", true))
	b.expect(2 * time.Minute)
	b.put("a", "2")
	b.expect(time.Hour)
	status, _ := b.Status()
	if got := status.Rules[0].Failure; !strings.Contains(got, "pruning without them would delete all that it applied: zones") {
		t.Errorf("the failure is %q", got)
	}
	b.must(b.Serve("zones"))
	b.expect(10*time.Minute, "r updated a #21 after 3m31s, apply a-north, prunes secrets")
}
