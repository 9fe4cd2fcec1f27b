package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// contest is a daemon with rules whose source objects ask for the same ConfigMaps. All is in the
// test's namespace. Two ConfigMaps are somebody else's: theirs, which a rule of another informd has
// applied, and trap, which has the marks of a rule of this one.
type contest struct {
	*harness.Kube
	t          *testing.T
	kubeconfig string
	dir, file  string // of the state, of the manifests
	d          *harness.Daemon
	seen       *sightings // all states of the objects that rules, or others, have made here
	theirs     []*unstructured.Unstructured
	known      map[string]bool // dead letters, by id
}

// sharing returns a rule and its source, which selects ConfigMaps with a label. For each of them,
// the rule applies the ConfigMaps that the keys of its data name. The rule's name is unique in the
// cluster: it begins with the name of the test's namespace.
func sharing(rule, label, more string) string {
	return harness.Source(rule, harness.ConfigMaps+", labelSelector: '"+label+"'") +
		harness.Rule("NS-"+rule, `source: `+rule+`, `+more+`actions: [
			{forEach: keys(object.data), apply: {resource: v1/configmaps, object: {
				metadata: {namespace: NS, name: "${item}"}, data: {
					x: "${object.data[item]}", by: "${object.metadata.name}", `+rule+`: "yes"}}}}]`)
}

// pruning is sharing with prune, for the ConfigMaps with the label of=RULE.
func pruning(rules ...string) (text string) {
	for _, rule := range rules {
		text += sharing(rule, "of="+rule, "prune: true, ")
	}
	return text
}

// newContest starts a daemon with some manifests.
func newContest(t *testing.T, kubeconfig, manifests string) *contest {
	t.Helper()
	c := &contest{
		Kube: harness.NewKube(t, cluster.Shared(t)), t: t, kubeconfig: kubeconfig,
		dir: harness.ShortDir(t), file: filepath.Join(t.TempDir(), "rules.yaml"),
		known: make(map[string]bool),
	}
	c.seen = follow(t, c.Kube, "configmaps", c.Ns, func(o metav1.Object) bool {
		return o.GetLabels()["of"] == "" && o.GetName() != "kube-root-ca.crt"
	})
	c.write(manifests)
	c.setTheirs()
	c.run()
	return c
}

// setTheirs makes the object theirs, as a rule of another informd applies it.
func (c *contest) setTheirs() {
	c.t.Helper()
	o := must(c.Kube, "theirs")
	o.SetLabels(map[string]string{"informd.dev/rule": "elsewhere", "informd.dev/source": "somebody"})
	made, err := c.Resource(o).Apply(c.t.Context(), o.GetName(), o,
		metav1.ApplyOptions{FieldManager: "informd/elsewhere"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.theirs = append(c.theirs, made)
}

// write writes the manifests that the daemon reads next.
func (c *contest) write(manifests string) {
	c.t.Helper()
	if err := os.WriteFile(c.file, []byte(c.Text(manifests)), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// run starts the daemon where the last one ended, and waits until it has done what it knows of.
func (c *contest) run() {
	c.t.Helper()
	c.d = harness.NewStateDir(c.t, c.kubeconfig, c.dir).Settled(c.file)
}

// stop stops the daemon, or kills it, when the disk has everything.
func (c *contest) stop(kills bool) {
	c.t.Helper()
	c.d.AwaitWritten()
	if kills {
		c.d.Kill()
	} else {
		c.d.Stop()
	}
}

// lose stops the daemon and removes its state.
func (c *contest) lose() {
	c.t.Helper()
	c.stop(false)
	if err := os.RemoveAll(c.dir); err != nil {
		c.t.Fatal(err)
	}
	clear(c.known)
}

// change has the daemon go on with other manifests, by a reload or after a crash.
func (c *contest) change(how, manifests string) {
	c.t.Helper()
	if how == "crash" {
		c.stop(true)
	}
	c.write(manifests)
	if how == "crash" {
		c.run()
	} else if out, code := says(c.t, c.dir, "reload"); code != 0 {
		c.t.Fatalf("informd reload: exit code %d\n%s", code, out)
	}
}

// ask makes a source object of a rule. data says for what it asks, and with which values.
func (c *contest) ask(rule, name, data string) *unstructured.Unstructured {
	c.t.Helper()
	return c.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: ` + name +
		`, labels: {of: ` + rule + `}}, data: ` + data + `}`)
}

// key returns the key of a target among the sightings.
func (c *contest) key(target string) string { return c.Ns + "/" + target }

// setTrap makes the object trap with the marks of a target.
func (c *contest) setTrap(target string) {
	c.t.Helper()
	like := c.seen.now(c.key(target))
	o := must(c.Kube, "trap")
	o.SetLabels(like.GetLabels())
	o.SetAnnotations(like.GetAnnotations())
	made, err := c.Resource(o).Create(c.t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.theirs = append(c.theirs, made)
}

// isOf reports whether a target is as a source object asks for it.
func (c *contest) isOf(target, rule, owner, x string) bool {
	o := c.seen.now(c.key(target))
	return o != nil && dataOf(o, "by") == owner && dataOf(o, "x") == x &&
		appliedFor(o) == "v1/configmaps "+c.Ns+"/"+owner && appliedBy(o) == c.Ns+"-"+rule
}

// has waits until a target is as a source object asks for it.
func (c *contest) has(target, rule, owner, x string) {
	c.t.Helper()
	c.d.Poll(fmt.Sprintf("%s to be %s of %s, by the rule %s", target, x, owner, rule), func() bool {
		return c.isOf(target, rule, owner, x)
	})
}

// gone waits until a target is gone.
func (c *contest) gone(target string) {
	c.t.Helper()
	c.d.Poll(target+" to be gone", func() bool { return c.seen.now(c.key(target)) == nil })
}

// refused waits for another dead letter of a source object, which names a target and its owner.
func (c *contest) refused(asker, target, rule, owner string) {
	c.t.Helper()
	var all []letter
	is := false
	defer func() {
		if !is {
			c.t.Logf("the dead letters: %+v", all)
		}
	}()
	names := regexp.MustCompile(c.Text("NS/" + target + ": .*rule NS-" + rule +
		" .*v1/configmaps NS/" + owner + "[ ,;]"))
	what := fmt.Sprintf("%s to be refused %s, which %s of the rule %s has",
		asker, target, owner, rule)
	n := ""
	c.d.Poll(what, func() bool {
		// A look at all letters takes a process of its own.
		before := n
		if n = c.d.Metric("informd_dead_letters"); n == before {
			return false
		}
		all = letters(c.t, c.dir)
		for _, l := range all {
			if l.Name == asker && !c.known[l.ID] && names.MatchString(l.Reason) {
				is, c.known[l.ID] = true, true
			}
		}
		return is
	})
}

// wantOnly checks that a target was applied for no other source objects than these, in this order.
func (c *contest) wantOnly(target string, owners ...string) {
	c.t.Helper()
	var got []string
	for _, one := range c.seen.of(c.key(target)) {
		if by := dataOf(one.object, "by"); len(got) == 0 || got[len(got)-1] != by {
			got = append(got, by)
		}
	}
	if !slices.Equal(got, owners) {
		c.t.Errorf("%s was applied for %v, want %v", target, got, owners)
	}
}

// wantDeleted checks which targets were deleted.
func (c *contest) wantDeleted(targets ...string) {
	c.t.Helper()
	var keys []string
	for _, target := range targets {
		keys = append(keys, c.key(target))
	}
	c.seen.wantDeleted(keys...)
}

// wantFields checks that a target has the fields of a rule only, which manages it alone.
func (c *contest) wantFields(target, rule string) {
	c.t.Helper()
	o := c.seen.now(c.key(target))
	if o == nil {
		c.t.Errorf("%s is not there", target)
		return
	}
	data, _, _ := unstructured.NestedMap(o.Object, "data")
	for key := range data {
		if key != "x" && key != "by" && key != rule {
			c.t.Errorf("%s has the field %s, which the rule %s does not apply", target, key, rule)
		}
	}
	for _, m := range o.GetManagedFields() {
		if m.Manager != "informd/"+c.Ns+"-"+rule {
			c.t.Errorf("%s is managed by %s, too", target, m.Manager)
		}
	}
}

// end stops the daemon, and checks that nothing of somebody else's was touched.
func (c *contest) end() {
	c.t.Helper()
	c.d.Stop()
	for _, made := range c.theirs {
		is, err := c.Resource(made).Get(c.t.Context(), made.GetName(), metav1.GetOptions{})
		if err != nil || is.GetResourceVersion() != made.GetResourceVersion() ||
			is.GetUID() != made.GetUID() {
			c.t.Errorf("%s, which is somebody else's, was touched: %v, %v", made.GetName(), is, err)
		}
	}
}

// nextAttempt returns when a rule acts again for a source object: see nextAttempt.
func (c *contest) nextAttempt(rule, name string) time.Time {
	c.t.Helper()
	return nextAttemptOf(c.t, c.dir, c.Ns+"-"+rule, name)
}
