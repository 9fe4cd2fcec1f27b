package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// The example copies Secrets into all namespaces. Two Secrets of one name ask for the same copies.
// They are the first one's, and the second one's change becomes a dead letter that names both. When
// the first one is deleted, the second one gets the copies as they are, and they go with it. A
// Secret of somebody else, which is in the way, stays as it is.
func TestSecretsHaveOneOwner(t *testing.T) {
	t.Parallel()
	c := cluster.New(t) // the rule acts in all namespaces
	k, dir := harness.NewKube(t, c), harness.ShortDir(t)
	for _, namespace := range []string{"sa", "sb", "theirs"} {
		harness.CreateNamespace(t, k.Typed, namespace)
	}
	secret := func(namespace, password string) *unstructured.Unstructured {
		return k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: ` + namespace +
			`, name: dup}, data: {password: ` + password + `}}`)
	}
	sa, sb, theirs := secret("sa", "YTE="), secret("sb", "YjE="), secret("theirs", "dDE=")
	isTheirs := func(key string) bool {
		return slices.Contains([]string{"sa/dup", "sb/dup", "theirs/dup"}, key)
	}
	seen := follow(t, k, "secrets", "", func(o metav1.Object) bool {
		return o.GetName() == "dup" && !isTheirs(o.GetNamespace()+"/dup")
	})
	var copies []string
	list, err := k.Typed.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range list.Items {
		if key := namespace.Name + "/dup"; !isTheirs(key) {
			copies = append(copies, key)
		}
	}
	d := harness.RunInformd(t, c.Kubeconfig(),
		filepath.Join(automations, "secrets-everywhere.yaml"), "--state-dir", dir)
	d.AwaitReady()
	const label = "metadata: {labels: {example.com/copy: everywhere}}"
	await := func(owner, password string) {
		t.Helper()
		for _, key := range copies {
			d.Poll(fmt.Sprintf("%s to be %s of %s", key, password, owner), func() bool {
				o := seen.now(key)
				return o != nil && appliedFor(o) == "v1/secrets "+owner && dataOf(o, "password") == password
			})
		}
	}
	names := regexp.MustCompile("/dup: .*rule secrets-everywhere .*v1/secrets sa/dup[ ,;]")
	refused := func(known ...string) (id string) {
		t.Helper()
		d.Poll("sb/dup to be refused", func() bool {
			for _, l := range letters(t, dir) {
				if l.Namespace != "sb" || slices.Contains(known, l.ID) {
					continue
				}
				if !names.MatchString(l.Reason) {
					t.Fatalf("the letter of sb/dup does not name the owner sa/dup: %s", l.Reason)
				}
				id = l.ID
			}
			return id != ""
		})
		return id
	}

	k.Patch(sa, label)
	await("sa/dup", "YTE=")
	k.Patch(sb, label)
	first := refused()
	k.Patch(sb, "data: {password: YjI=}")
	second := refused(first)
	k.Patch(sa, "data: {password: YTI=}")
	await("sa/dup", "YTI=")
	d.AwaitDelivered()
	for _, one := range seen.of("") {
		if appliedFor(one.object) != "v1/secrets sa/dup" {
			t.Errorf("a copy was not sa/dup's: %s", one)
		}
	}

	k.Delete(sa)
	await("sb/dup", "YjI=")
	d.AwaitDelivered()
	seen.wantDeleted()
	if !hasLetter(t, dir, second) {
		t.Errorf("the letter %s is gone", second)
	}
	k.Patch(sb, "data: {password: YjM=}")
	await("sb/dup", "YjM=")

	k.Delete(sb)
	d.Poll("the copies to be gone", func() bool { return len(seen.keys()) == 0 })
	d.AwaitDelivered()
	seen.wantDeleted(copies...)
	_, err = k.Resource(sa).Get(t.Context(), "dup", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("sa has the copy of sb/dup, although that is gone: %v", err)
	}
	is, err := k.Resource(theirs).Get(t.Context(), "dup", metav1.GetOptions{})
	if err != nil || is.GetResourceVersion() != theirs.GetResourceVersion() {
		t.Errorf("the Secret of somebody else was changed: %v, %v", is, err)
	}
	d.Stop()
}

// An owner asks for a target no more, in every way in which that happens. The next one in line gets
// it, of the same rule or of another one, without a deletion in between. What nobody else asks for
// is deleted.
func TestTargetsAreHandedOver(t *testing.T) {
	t.Parallel()
	for name, kills := range map[string]bool{"while it runs": false, "while it is down": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newContest(t, cluster.Shared(t).Kubeconfig(),
				sharing("p", "of=p", `where: 'object.metadata.annotations.out == nil', prune: true, `)+
					pruning("q"))
			ways := map[string]func(*unstructured.Unstructured){
				"deleted": func(o *unstructured.Unstructured) { c.Delete(o) },
				"unselected": func(o *unstructured.Unstructured) {
					c.Patch(o, "metadata: {labels: {of: none}}")
				},
				"outside": func(o *unstructured.Unstructured) {
					c.Patch(o, `metadata: {annotations: {out: "yes"}}`)
				},
				"shorter": func(o *unstructured.Unstructured) {
					c.Patch(o, "data: {shorter-p: null, shorter-q: null, "+
						"shorter-alone: null, theirs: null}")
				},
			}
			every := slices.Sorted(maps.Keys(ways))
			owners, wishes := make(map[string]*unstructured.Unstructured), make(map[string]string)
			for _, way := range every {
				owners[way] = c.ask("p", way, strings.ReplaceAll(
					`{WAY-p: "1", WAY-q: "1", WAY-alone: "1", rest: "1", theirs: "1"}`, "WAY", way))
				for _, heir := range []string{"p", "q", "alone"} {
					c.has(way+"-"+heir, "p", way, "1")
				}
				wishes["p"] += way + `-p: "2", `
				wishes["q"] += way + `-q: "2", `
			}
			c.setTrap("deleted-p")
			known := make(map[string]string)
			for _, rule := range []string{"p", "q"} {
				c.ask(rule, "heir-"+rule, "{"+wishes[rule]+`theirs: "2", trap: "2"}`)
				c.d.Poll("heir-"+rule+" to be refused", func() bool {
					for _, l := range letters(t, c.dir) {
						if l.Name == "heir-"+rule {
							known[l.Name] = l.ID
						}
					}
					return known["heir-"+rule] != ""
				})
			}
			c.d.AwaitDelivered()
			if kills {
				c.stop(true)
			}
			for _, way := range every {
				ways[way](owners[way])
			}
			if kills {
				c.run()
			}
			var gone []string
			for _, way := range every {
				c.has(way+"-p", "p", "heir-p", "2")
				c.has(way+"-q", "q", "heir-q", "2")
				c.gone(way + "-alone")
				gone = append(gone, way+"-alone")
			}
			c.d.AwaitDelivered()
			c.wantDeleted(gone...)
			for _, way := range every {
				c.wantOnly(way+"-p", way, "heir-p")
				c.wantOnly(way+"-q", way, "heir-q")
				c.wantFields(way+"-p", "p")
				c.wantFields(way+"-q", "q")
			}
			for name, id := range known {
				if !hasLetter(t, c.dir, id) {
					t.Errorf("the letter of %s is gone", name)
				}
			}
			c.end()
		})
	}
}

// A target that is deleted may stay for a while, as its finalizers say. Whoever asks for it meanwhile
// gets it once it is gone: what would be applied before that would go with it.
func TestTargetsThatAreBeingDeleted(t *testing.T) {
	t.Parallel()
	c := newContest(t, cluster.Shared(t).Kubeconfig(), pruning("p", "q"))
	owner := c.ask("p", "owner", `{t: "1", again: "1"}`)
	c.has("t", "p", "owner", "1")
	c.has("again", "p", "owner", "1")
	for _, name := range []string{"t", "again"} {
		c.Patch(c.seen.now(c.key(name)), "metadata: {finalizers: [example.com/slow]}")
	}
	isBeingDeleted := func(name string) func() bool {
		return func() bool {
			o := c.seen.now(c.key(name))
			return o != nil && o.GetDeletionTimestamp() != nil
		}
	}
	c.Patch(owner, "data: {t: null, again: null, rest: '1'}")
	c.d.Poll("t to be deleted", isBeingDeleted("t"))
	c.d.Poll("again to be deleted", isBeingDeleted("again"))
	c.d.AwaitDelivered()
	c.ask("q", "heir", `{t: "2", other: "2"}`)
	c.Patch(owner, `data: {again: "3"}`)
	c.has("other", "q", "heir", "2")
	for rule, name := range map[string]string{"q": "heir", "p": "owner"} {
		c.d.Poll("the deletion to be the reason that "+name+" waits", func() bool {
			out, _ := says(t, c.dir, "explain", c.Ns+"-"+rule, c.Ns+"/"+name)
			return strings.Contains(out, "it is being deleted: informd applies it again once it is gone")
		})
	}
	for _, name := range []string{"t", "again"} {
		if o := c.seen.now(c.key(name)); dataOf(o, "x") != "1" {
			t.Errorf("%s was applied while it is being deleted: %v", name, o)
		}
		c.Patch(c.seen.now(c.key(name)), "metadata: {finalizers: null}")
	}
	c.has("t", "q", "heir", "2")
	c.has("again", "p", "owner", "3")
	c.d.AwaitDelivered()
	c.wantDeleted("t", "again")
	c.end()
}

// A target that several source objects ask for goes from the first to the next, in the order in
// which they asked, and is deleted with the last of them. Each has it as it asks for it now.
func TestTargetsGoDownTheLine(t *testing.T) {
	t.Parallel()
	c := newContest(t, cluster.Shared(t).Kubeconfig(), pruning("p", "q"))
	type asker struct {
		rule, name string
		object     *unstructured.Unstructured
	}
	line := []*asker{
		{rule: "p", name: "d"}, {rule: "q", name: "c"}, {rule: "p", name: "b"}, {rule: "q", name: "a"},
	}
	for i, a := range line {
		a.object = c.ask(a.rule, a.name, `{t: "1", own-`+a.name+`: "1", theirs: "1"}`)
		c.has("own-"+a.name, a.rule, a.name, "1")
		if i > 0 {
			c.refused(a.name, "t", "p", "d")
			c.Patch(a.object, `data: {t: "2"}`)
			c.refused(a.name, "t", "p", "d")
		}
	}
	c.has("t", "p", "d", "1")
	c.setTrap("t")
	var gone, owners []string
	for i, a := range line {
		c.Patch(a.object, `data: {t: "3"}`)
		c.has("t", a.rule, a.name, "3")
		c.d.AwaitDelivered()
		c.wantFields("t", a.rule)
		owners, gone = append(owners, a.name), append(gone, "own-"+a.name)
		if i == 1 {
			c.Patch(a.object, `data: {t: null}`) // and asks again: it is the last one now
			c.has("t", line[2].rule, line[2].name, "2")
			c.Patch(a.object, `data: {t: "4"}`)
			c.refused(a.name, "t", line[2].rule, line[2].name)
		}
		c.Delete(a.object)
		c.gone("own-" + a.name)
	}
	c.gone("t")
	c.d.AwaitDelivered()
	c.wantOnly("t", owners...)
	c.wantDeleted(append(gone, "t")...)
	c.end()
}

// Other manifests take the owner of a target away: its rule, the rule's prune, or its selection.
// The source object of another rule that asks for the target gets it, without a deletion in
// between. What nobody asks for stays if the rule prunes no more, and is deleted otherwise.
func TestReloadsHandTargetsOver(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, manifests string
		stays           bool
	}{
		{"the rule is gone", pruning("q"), true},
		{"the rule prunes no more", sharing("p", "of=p", "") + pruning("q"), true},
		{"the source selects others", sharing("p", "of=p, out!=yes", "prune: true, ") +
			pruning("q"), false},
		{"the rule selects others", sharing("p", "of=p",
			"where: object.metadata.labels.out == nil, prune: true, ") + pruning("q"), false},
	} {
		for _, how := range []string{"reload", "crash"} {
			if how == "crash" && !harness.Soak() {
				continue
			}
			t.Run(test.name+", by a "+how, func(t *testing.T) {
				t.Parallel()
				c := newContest(t, cluster.Shared(t).Kubeconfig(), pruning("p", "q"))
				owner := c.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: owner,
					labels: {of: p, out: "yes"}}, data: {t: "1", alone: "1", theirs: "1"}}`)
				c.has("t", "p", "owner", "1")
				c.has("alone", "p", "owner", "1")
				heir := c.ask("q", "heir", `{t: "2", theirs: "2"}`)
				c.refused("heir", "t", "p", "owner")
				c.d.AwaitDelivered()
				c.change(how, test.manifests)
				c.has("t", "q", "heir", "2")
				gone := []string{"t"}
				if !test.stays {
					c.gone("alone")
					gone = append(gone, "alone")
				}
				c.d.AwaitDelivered()
				c.wantDeleted(gone[1:]...)
				c.wantFields("t", "q")
				c.Patch(heir, `data: {t: "3"}`)
				c.has("t", "q", "heir", "3")
				c.Delete(owner)
				c.Delete(heir)
				c.gone("t")
				c.d.AwaitDelivered()
				c.wantOnly("t", "owner", "heir")
				c.wantDeleted(gone...)
				if test.stays && !c.isOf("alone", "p", "owner", "1") {
					t.Error("what the rule has left is not as it was")
				}
				c.end()
			})
		}
	}
}

// The owner's rule was renamed, and then goes. Its target bears a name that is not the one under
// which informd knows the rule. The next in line gets it all the same.
func TestTargetsOfARenamedRuleThatGoes(t *testing.T) {
	t.Parallel()
	c := newContest(t, cluster.Shared(t).Kubeconfig(), pruning("p", "q"))
	owner := c.ask("p", "owner", `{t: "1", theirs: "1"}`)
	c.has("t", "p", "owner", "1")
	c.change("reload", sharing("r", "of=p", "formerly: NS-p, prune: true, ")+pruning("q"))
	c.Patch(owner, `data: {t: "2"}`)
	c.has("t", "r", "owner", "2")
	heir := c.ask("q", "heir", `{t: "3", theirs: "3"}`)
	c.refused("heir", "t", "r", "owner")
	c.d.AwaitDelivered()
	c.change("reload", pruning("q"))
	c.has("t", "q", "heir", "3")
	c.d.AwaitDelivered()
	c.wantDeleted()
	c.Delete(heir)
	c.gone("t")
	c.wantOnly("t", "owner", "heir")
	c.end()
}

// Two rules of one informd ask for one target, and the rule of the owner is renamed. The target
// stays the owner's, under the new name. After the other one has it, nothing is left of the fields
// that only the owner's rule applied. It is the same the other way round.
func TestOwnersOfTwoRules(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"reload", "crash"} {
		t.Run("renamed by a "+how, func(t *testing.T) {
			t.Parallel()
			c := newContest(t, cluster.Shared(t).Kubeconfig(), pruning("p", "q"))
			p := c.ask("p", "p1", `{t: "1", alone: "1", theirs: "1"}`)
			c.has("t", "p", "p1", "1")
			c.has("alone", "p", "p1", "1")
			c.setTrap("t")
			q := c.ask("q", "q1", `{t: "2", trap: "2"}`)
			c.refused("q1", "t", "p", "p1")

			renamed := sharing("r", "of=p", "formerly: NS-p, prune: true, ") + pruning("q")
			c.change(how, renamed)
			c.Patch(q, `data: {t: "3"}`)
			c.refused("q1", "t", "r", "p1")
			c.Patch(p, `data: {t: "4", alone: "4"}`)
			c.has("t", "r", "p1", "4")
			c.has("alone", "r", "p1", "4")
			c.d.AwaitDelivered() // what it applies no more goes with a request of its own
			c.d.Poll("the fields of the renamed rule", func() bool {
				return dataOf(c.seen.now(c.key("t")), "p") == ""
			})
			c.wantFields("t", "r")
			c.wantFields("alone", "r")

			c.Delete(p)
			c.gone("alone")
			c.has("t", "q", "q1", "3")
			c.d.AwaitDelivered()
			c.wantFields("t", "q")

			p = c.ask("p", "p2", `{t: "5", theirs: "5"}`)
			c.refused("p2", "t", "q", "q1")
			c.Patch(p, `data: {t: "6"}`)
			c.refused("p2", "t", "q", "q1")
			c.Patch(q, `data: {t: null}`)
			c.has("t", "r", "p2", "6")
			c.d.AwaitDelivered()
			c.wantFields("t", "r")
			c.wantDeleted("alone")
			c.Delete(p)
			c.gone("t")
			c.wantOnly("t", "p1", "q1", "p2")
			c.d.AwaitDelivered()
			c.wantDeleted("alone", "t")
			c.end()
		})
	}
}
