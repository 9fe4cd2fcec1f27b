package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// Everything that decides who has a target happens while informd is down, one thing at a time. It
// is as if informd had been there.
func TestOwnersOverRestarts(t *testing.T) {
	t.Parallel()
	harness.NeedSoak(t)
	c := newContest(t, cluster.Shared(t).Kubeconfig(), pruning("p", "q"))
	random := rand.New(rand.NewPCG(harness.Seed(t), 36))
	meanwhile := func(do func()) {
		t.Helper()
		c.d.AwaitDelivered()
		c.stop(random.IntN(2) == 0)
		do()
		c.run()
	}
	var a, b, q *unstructured.Unstructured
	meanwhile(func() { b = c.ask("p", "b", `{t: "1", theirs: "1"}`) })
	c.has("t", "p", "b", "1")
	meanwhile(func() { a = c.ask("p", "a", `{t: "2", own: "2", theirs: "2"}`) })
	c.refused("a", "t", "p", "b")
	meanwhile(func() { q = c.ask("q", "q1", `{t: "3"}`) })
	c.refused("q1", "t", "p", "b")
	meanwhile(func() { c.Patch(a, `data: {t: "4"}`) })
	c.refused("a", "t", "p", "b")
	meanwhile(func() { c.Patch(b, `data: {t: "5"}`) })
	c.has("t", "p", "b", "5")
	c.wantOnly("t", "b")
	meanwhile(func() { c.Delete(b) })
	c.has("t", "p", "a", "4")
	meanwhile(func() { c.Patch(a, `data: {t: null}`) })
	c.has("t", "q", "q1", "3")
	meanwhile(func() { c.Patch(a, `data: {t: "6"}`) })
	c.refused("a", "t", "q", "q1")
	meanwhile(func() { c.Patch(q, `metadata: {labels: {of: none}}`) })
	c.has("t", "p", "a", "6")
	c.d.AwaitDelivered()
	c.wantDeleted()
	c.wantOnly("t", "b", "a", "q1", "a")
	meanwhile(func() { c.Delete(a) })
	c.gone("t")
	c.gone("own")
	c.d.AwaitDelivered()
	c.wantDeleted("t", "own")

	// Of two that ask at once, either one has it, and keeps it.
	meanwhile(func() {
		c.ask("p", "u1", `{u: "1"}`)
		c.ask("q", "u2", `{u: "1"}`)
	})
	c.d.Poll("one of them to have it", func() bool {
		return c.isOf("u", "p", "u1", "1") || c.isOf("u", "q", "u2", "1")
	})
	owner := dataOf(c.seen.now(c.key("u")), "by")
	meanwhile(func() {
		c.Patch(must(c.Kube, "u1"), `data: {u: "2"}`)
		c.Patch(must(c.Kube, "u2"), `data: {u: "2"}`)
	})
	rule, other, heir := "p", "q", "u2"
	if owner == "u2" {
		rule, other, heir = "q", "p", "u1"
	}
	c.has("u", rule, owner, "2")
	c.wantOnly("u", owner)
	meanwhile(func() { c.Delete(must(c.Kube, owner)) })
	c.has("u", other, heir, "2")
	c.d.AwaitDelivered()
	c.wantDeleted("t", "own")
	c.end()
}

// informd is killed while a target goes from one source object to another, at any moment of that.
// The other one has it after the start, and it is not deleted in between.
func TestKilledWhileATargetIsHandedOver(t *testing.T) {
	t.Parallel()
	harness.NeedSoak(t)
	rounds := 5
	if harness.Soak() {
		rounds = 100
	}
	random := rand.New(rand.NewPCG(harness.Seed(t), 36))
	gate := newGate(t, cluster.Shared(t).Kubeconfig())
	c := newContest(t, gate.kubeconfig, pruning("p", "q"))
	rules, owner := []string{"p", "q"}, 0
	name := func(i int) string { return fmt.Sprintf("%s-%d", rules[i%2], i) }
	c.ask("p", name(0), `{t: "0", theirs: "0"}`)
	c.has("t", "p", name(0), "0")
	c.setTrap("t")
	owners := []string{name(0)}
	for range rounds {
		heir := owner + 1
		c.ask(rules[heir%2], name(heir), fmt.Sprintf(`{t: "%d", theirs: "0"}`, heir))
		c.refused(name(heir), "t", rules[owner%2], name(owner))
		c.d.AwaitWritten() // else a crash may forget that there is an heir
		isHeld := owner == 0
		if isHeld { // the heir's apply takes effect, and informd does not know that
			gate.close(func(r *http.Request) bool {
				return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/t")
			})
		}
		c.Delete(must(c.Kube, name(owner)))
		if isHeld {
			gate.awaitHeld(t, 1)
		} else {
			time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
		}
		c.d.Kill()
		gate.close(nil)
		c.run()
		c.has("t", rules[heir%2], name(heir), fmt.Sprint(heir))
		c.d.AwaitDelivered()
		c.wantFields("t", rules[heir%2])
		owner, owners = heir, append(owners, name(heir))
	}
	c.wantDeleted()
	c.wantOnly("t", owners...)
	c.Delete(must(c.Kube, name(owner)))
	c.gone("t")
	c.d.AwaitDelivered()
	c.wantDeleted("t")
	c.end()
}

// The state is lost. A target stays that of the source object that its marks name, whoever asks
// first. Those who ask are heirs again.
func TestOwnersAfterALostState(t *testing.T) {
	t.Parallel()
	harness.NeedSoak(t)
	rounds := 4
	if harness.Soak() {
		rounds = 40
	}
	c := newContest(t, cluster.Shared(t).Kubeconfig(), pruning("p", "q"))
	owner := c.ask("p", "m", `{t: "0", alone: "0", theirs: "0"}`)
	c.has("t", "p", "m", "0")
	c.has("alone", "p", "m", "0")
	c.setTrap("t")
	askers := map[string]string{"a": "p", "z": "p", "b": "q", "x": "q"} // in a list around m
	for name, rule := range askers {
		c.ask(rule, name, `{t: "heir", own-`+name+`: "heir", theirs: "heir"}`)
		c.refused(name, "t", "p", "m")
	}
	for i := range rounds {
		c.d.AwaitDelivered()
		c.lose()
		x := fmt.Sprint(i + 1)
		if i%2 == 0 {
			c.Patch(owner, `data: {t: "`+x+`"}`)
		}
		c.run()
		for name := range askers {
			c.refused(name, "t", "p", "m")
		}
		if i%2 == 1 {
			c.Patch(owner, `data: {t: "`+x+`"}`)
		}
		c.has("t", "p", "m", x)
		c.wantOnly("t", "m")
	}
	// The heirs are known, and there is no deletion.
	c.d.AwaitDelivered()
	left := len(askers)
	for holder := owner.GetName(); left > 0; left-- {
		c.Delete(must(c.Kube, holder))
		c.d.Poll("another one to have t", func() bool {
			by := dataOf(c.seen.now(c.key("t")), "by")
			return by != holder && by != ""
		})
		holder = dataOf(c.seen.now(c.key("t")), "by")
		c.has("t", askers[holder], holder, "heir")
	}
	c.gone("alone")
	c.d.AwaitDelivered()
	isT := func(key string) bool { return key == c.key("t") }
	if slices.ContainsFunc(c.seen.deleted(), isT) {
		t.Error("t was deleted between two owners")
	}
	c.end()
}

// The state is lost, and the owner of a target is deleted meanwhile. Another source object that
// asks for the target takes it over as it is. What nobody asks for is deleted.
func TestOwnersThatAreGoneWithTheState(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"p", "q"} {
		t.Run("the heir is of rule "+rule, func(t *testing.T) {
			t.Parallel()
			c := newContest(t, cluster.Shared(t).Kubeconfig(), pruning("p", "q"))
			owner := c.ask("p", "m", `{t: "1", u: "1", alone: "1", theirs: "1"}`)
			for _, target := range []string{"t", "u", "alone"} {
				c.has(target, "p", "m", "1")
			}
			c.setTrap("t")
			heir := c.ask(rule, "heir", `{t: "2", theirs: "2"}`)
			c.refused("heir", "t", "p", "m")
			c.lose()
			c.Delete(owner)
			late := c.ask(rule, "late", `{u: "3", trap: "3"}`)
			c.run()
			c.has("t", rule, "heir", "2")
			c.has("u", rule, "late", "3")
			c.gone("alone")
			c.d.AwaitDelivered()
			c.wantDeleted("alone")
			c.wantFields("t", rule)
			c.wantFields("u", rule)
			c.Delete(heir)
			c.Delete(late)
			c.gone("t")
			c.gone("u")
			c.d.AwaitDelivered()
			c.wantDeleted("alone", "t", "u")
			c.end()
		})
	}
}

// The state is lost, and a target is marked for a source object that exists and that the rule does
// not select: it may be another informd's. A source object that asks for the target waits, until
// that one is deleted, or is selected again and then refuses it.
func TestOwnersThatAreNotSelectedAfterALostState(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"p", "q"} {
		for _, then := range []string{"deleted", "selected"} {
			t.Run(fmt.Sprintf("an heir of rule %s, and the owner is %s", rule, then), func(t *testing.T) {
				t.Parallel()
				c := newContest(t, cluster.Shared(t).Kubeconfig(), pruning("p", "q"))
				owner := c.ask("p", "m", `{t: "1", theirs: "1"}`)
				c.has("t", "p", "m", "1")
				c.setTrap("t")
				c.d.AwaitDelivered()
				c.lose()
				c.Patch(owner, "metadata: {labels: {of: none}}")
				c.ask(rule, "heir", `{t: "2", own: "2"}`)
				c.run()
				c.has("own", rule, "heir", "2")
				c.d.Poll("the heir to wait", func() bool {
					return !c.nextAttempt(rule, "heir").IsZero()
				})
				explained, _ := says(t, c.dir, "explain", c.Ns+"-"+rule, c.Ns+"/heir")
				if !strings.Contains(explained, c.Ns+"/m") {
					t.Errorf("informd explain does not name the owner:\n%s", explained)
				}
				if len(letters(t, c.dir)) != 0 {
					t.Errorf("there are dead letters: %v", letters(t, c.dir))
				}
				if n := len(c.seen.of(c.key("t"))); n != 1 {
					t.Errorf("t was changed %d times, and it may be another informd's", n-1)
				}
				if then == "deleted" {
					c.Delete(owner)
					c.has("t", rule, "heir", "2")
					c.d.AwaitDelivered()
					c.wantFields("t", rule)
					c.wantOnly("t", "m", "heir")
				} else {
					c.Patch(owner, "metadata: {labels: {of: p}}")
					c.refused("heir", "t", "p", "m")
					c.Patch(owner, `data: {t: "3"}`)
					c.has("t", "p", "m", "3")
					c.d.AwaitDelivered()
					c.wantOnly("t", "m")
				}
				c.wantDeleted()
				c.end()
			})
		}
	}
}
