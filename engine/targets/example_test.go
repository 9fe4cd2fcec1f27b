package targets_test

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/targets"
)

// Two Secrets are to be copied to the same place. The first one has it. When it goes, the second
// one has the copy as it is.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	table := targets.New(nil) // a *state.Store keeps the rows
	target := targets.Target{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
		Key:      delta.Key{Namespace: "shop", Name: "dup"},
	}
	asker := func(namespace string) targets.Asker {
		return targets.Asker{Rule: "copy", Key: delta.Key{Namespace: namespace, Name: "dup"}}
	}
	// perform is a wave. Each call of Ask, Asked, Settle and Forget belongs between Begin and End
	// of the state.
	perform := func(a targets.Asker, event string, wants ...targets.Target) {
		wave := table.Begin(a, targets.EventOf(event, 0))
		for _, at := range wants {
			wave.Ask(at, true)
		}
		dropped, heirs, _ := wave.Asked(true) // if there is something new, Await comes next
		try := func(at targets.Target, attempt targets.Attempt, verdict targets.Verdict) {
			switch verdict {
			case targets.Try:
				fmt.Printf("%s: request for %s, which is %s\n", event, at.Key, attempt.Claim.State)
				attempt.Settle(targets.Outcome{State: targets.Done}, now)
			case targets.Refuse:
				fmt.Printf("%s: %s belongs to %s\n", event, at.Key, attempt.Claim.Asker.Key)
			}
		}
		for _, at := range wants {
			attempt, verdict := wave.Try(at, now)
			try(at, attempt, verdict)
		}
		for _, c := range dropped {
			attempt, verdict := wave.TryDropped(c.Target, now)
			try(c.Target, attempt, verdict)
		}
		if left := wave.Left(now); left.Waits+left.Untried == 0 {
			table.Forget(a)
		}
		for _, heir := range heirs {
			fmt.Printf("%s: %s now has %s\n", event, heir.Asker.Key, heir.Target.Key)
		}
	}
	perform(asker("sa"), "sa/dup comes", target)
	perform(asker("sb"), "sb/dup comes", target)
	perform(asker("sa"), "sa/dup goes")
	perform(asker("sb"), "sb/dup again", target)
	perform(asker("sb"), "sb/dup goes")
	// Output:
	// sa/dup comes: request for shop/dup, which is asked
	// sb/dup comes: shop/dup belongs to sa/dup
	// sa/dup goes: sb/dup now has shop/dup
	// sb/dup again: request for shop/dup, which is asked
	// sb/dup goes: request for shop/dup, which is dropped
}
