package simulate

import (
	"strings"
	"testing"
	"time"
)

const bySize = ", group: {by: object.data.size, wait: 30s, every: 10m}"

func TestGroup(t *testing.T) {
	b := simulation(t, Options{}, sizes, recorder, ruleOf("g", bySize+", events: [added, deleted]"))
	b.put("a", "1")
	b.put("x", "2")
	b.expect(10 * time.Second)
	b.put("b", "1")
	b.expectAnyOrder(time.Minute,
		"g added x of added x after 20s", "g added b of added a, added b after 20s")
	b.put("c", "1")
	b.must(b.Delete("maps", "shop", "a"))
	b.put("d", "1")
	b.must(b.Delete("maps", "shop", "d")) // comes and goes
	b.put("y", "3")
	b.expect(30*time.Second, "g added y of added y after 30s")
	b.expect(10*time.Minute, "g deleted a of added c, deleted a after 8m50s")
	b.expect(time.Hour)
	b.put("e", "1")
	b.expect(time.Hour, "g added e of added e after 30s")
}

func TestGroupByObjectThrottles(t *testing.T) {
	b := simulation(t, Options{}, sizes, recorder, ruleOf("g", ", group: {every: 10m}, payload: object.data.size"))
	b.put("a", "1")
	b.expect(0, `g added a "1" of added a`)
	b.put("a", "2")
	b.put("b", "1")
	b.put("a", "3")
	b.expect(9*time.Minute, `g added b "1" of added b`)
	b.expect(9*time.Minute, `g updated a "3" of updated a after 1m0s`)
}

func TestGroupOfEveryChange(t *testing.T) {
	b := simulation(t, Options{}, sizes, recorder, ruleOf("g", ", delivery: every, group: {every: 10m}, payload: object.data.size"))
	b.put("a", "1")
	b.put("a", "2")
	b.put("a", "3")
	b.expect(0, `g updated a "3" of added a, updated a, updated a`)
}

func TestGroupOverRestarts(t *testing.T) {
	b := simulation(t, Options{}, sizes, recorder, ruleOf("g", bySize))
	b.put("a", "1")
	b.must(b.Restart(Restart{Down: 10 * time.Second}))
	b.put("b", "1")
	b.expect(20*time.Second, "g added b of added a, added b after 20s")
	b.put("c", "1")
	b.must(b.Restart(Restart{Down: time.Minute}))
	b.put("a", "1 ") // an update of a group of its own
	b.expect(time.Hour, "g updated a of updated a after 30s", "g added c of added c after 9m0s")
	b.put("d", "1")
	b.must(b.Restart(Restart{Down: time.Hour}))
	b.expect(time.Second, "g added d of added d") // once it has loaded them
	b.put("e", "1")
	b.must(b.Restart(Restart{Resumption: Resumption{ClockSet: -time.Hour}}))
	b.expect(time.Hour, "g added e of added e after 10m0s")
	b.put("f", "4")
	b.must(b.Restart(Restart{Resumption: Resumption{StateLost: true}}))
	b.expectAnyOrder(31*time.Second,
		"g synced a of synced a after 30s",
		"g synced e of synced b, synced c, synced d, synced e after 30s",
		"g synced f of synced f after 30s")
}

// A group gathers on while its last event is retried, and comes after it.
func TestGroupWaitsForItsLastEvent(t *testing.T) {
	fails := 3
	answer := func(e Event) Answer {
		if fails--; fails >= 0 {
			return Answer{RetryAfter: time.Minute}
		}
		return Answer{}
	}
	b := simulation(t, Options{Answer: answer}, sizes, recorder, ruleOf("g", ", group: {by: 1, every: 10s}"))
	b.put("a", "1")
	b.expect(time.Second, "g added a of added a")
	b.put("b", "1")
	b.expect(time.Minute, "g added a of added a #2 after 59s")
	b.put("c", "1")
	b.expect(2*time.Minute,
		"g added a of added a #3 after 59s", "g added a of added a #4 after 1m59s",
		"g added c of added b, added c after 1m59s")
}

func TestRejectedGroupIsOneLetter(t *testing.T) {
	rejects := true
	answer := func(e Event) Answer {
		if rejects {
			return Answer{Reject: "no"}
		}
		return Answer{}
	}
	b := simulation(t, Options{Answer: answer}, sizes, recorder, ruleOf("g", ", group: {by: 1, wait: 10s}"))
	b.put("a", "1")
	b.put("b", "1")
	b.expect(10*time.Second, "g added b of added a, added b after 10s, dead: rejected: no")
	rejects = false
	b.must(b.Restart(Restart{}))
	letters, err := b.stepper.Engine().Letters()
	b.must(err)
	if len(letters) != 1 || len(letters[0].Event().Items) != 2 {
		t.Fatalf("letters %+v", letters)
	}
	b.must(b.stepper.Engine().RetryLetter(letters[0].ID))
	b.expect(time.Second, "g added b of added a, added b #2")
}

func TestGroupThatIsTakenAway(t *testing.T) {
	b := simulation(t, Options{}, sizes, recorder, ruleOf("g", bySize))
	b.put("a", "1")
	b.put("b", "1")
	b.expect(time.Second)
	b.must(b.Restart(Restart{Resumption: Resumption{Plan: compile(t, sizes, recorder, ruleOf("g", ""))}}))
	b.expectAnyOrder(time.Second, "g added a", "g added b")
	b.put("c", "1")
	b.must(b.Restart(Restart{Resumption: Resumption{Plan: compile(t, sizes, recorder, ruleOf("g", bySize))}}))
	b.expect(time.Minute, "g added c of added c")
	b.put("d", "1")
	b.expect(time.Minute, "g added d of added d after 30s")
}

func TestGroupByChanged(t *testing.T) {
	b := simulation(t, Options{}, sizes, recorder, ruleOf("g", bySize))
	b.put("a", "1")
	b.put("b", "2")
	b.must(b.Restart(Restart{Resumption: Resumption{Plan: compile(t, sizes, recorder, ruleOf("g", ", group: {by: 1, wait: 10s}"))}}))
	b.expect(time.Minute, "g added b of added a, added b after 10s")
}

func TestItemsOfOneEventAreBounded(t *testing.T) {
	b := simulation(t, Options{}, sizes, recorder, ruleOf("g", ", payload: 1, group: {by: 1, wait: 10s, every: 1m}"))
	for i := range 2500 {
		b.put(string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/26/26)), "1")
	}
	b.must(b.Advance(10 * time.Minute))
	var counts []int
	for _, e := range b.Events() {
		counts = append(counts, len(e.Event.Items))
	}
	if len(counts) != 3 || counts[0] != 1000 || counts[1] != 1000 || counts[2] != 500 {
		t.Fatalf("events of %v items", counts)
	}
}

func TestActionsOfGroup(t *testing.T) {
	b := simulation(t, Options{}, sizes, "kind: Rule, metadata: {name: g}, spec: {source: maps, payload: object.data.size, "+
		"group: {by: 1, wait: 10s}, actions: ["+
		`{apply: {resource: v1/configmaps, object: {metadata: {name: all, namespace: shop}, data: {sizes: '${items | map(.name + .payload) | join(",")}', newest: "${object.metadata.name}"}}}},`+
		"{forEach: items, delete: {namespace: '${item.namespace}', name: '${item.name}'}}]}")
	b.put("a", "1")
	b.put("b", "2")
	b.must(b.Advance(10 * time.Second))
	events := b.Events()
	if len(events) != 1 || len(events[0].Actions) != 3 {
		t.Fatalf("events %+v", events)
	}
	if got, want := string(events[0].Actions[0].Object), `"data":{"sizes":"a1,b2","newest":"b"}`; !strings.Contains(got, want) {
		t.Errorf("object %s, want %s", got, want)
	}
	if a, b := events[0].Actions[1].Name, events[0].Actions[2].Name; a != "a" || b != "b" {
		t.Errorf("deleted %s and %s, want a and b", a, b)
	}
}

// What a rule has gathered comes before what it hears after its group was taken away.
func TestGroupThatIsTakenAwayKeepsOrder(t *testing.T) {
	b := simulation(t, Options{}, sizes, recorder, ruleOf("g", bySize+", delivery: every"))
	b.put("a", "1")
	b.must(b.Stop())
	b.put("a", "2")
	b.must(b.Run(Resumption{Plan: compile(t, sizes, recorder, ruleOf("g", ", delivery: every"))}))
	b.expect(0, "g added a", "g updated a")
}
