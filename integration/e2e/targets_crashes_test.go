package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// crowd is source objects of two rules that ask for the same targets, in namespaces of which some
// come and go, while informd is killed again and again.
type crowd struct {
	*harness.Kube
	t          *testing.T
	random     *rand.Rand
	dir, file  string // of the state, of the manifests
	d          *harness.Daemon
	reloads    chan struct{} // closed once the last reload has ended; nil if there was none
	seen       *sightings    // of targets
	namespaces []string
	moving     map[string]bool // the namespaces that come and go; whether they are there
	members    []*member
	values     int  // so many values were asked for
	isStrict   bool // the manifests leave out what is odd
	hasLost    bool // the state was lost, and what informd may not decide alone was not put right
	journal    []string
}

// member is a source object that may be there.
type member struct {
	rule, name string
	exists     bool
	isSelected bool // by its label
	isOdd      bool
	wishes     map[string]string // values by target, as in its data
}

// outsiders are the names of the objects in the first two namespaces that are somebody else's.
var outsiders = []string{"foreign", "decoy"}

// Whenever informd is killed, and whatever becomes of its source objects, namespaces, manifests and
// state meanwhile: in the end, each target that source objects ask for is there, as one of them
// asks for it now. Nothing else that rules applied is left, and no object of somebody else was
// touched.
func TestCrashesOfTargets(t *testing.T) {
	t.Parallel()
	kills, between := 20, 20
	if harness.Soak() {
		kills, between = 300, 15
	}
	c := newCrowd(t)
	began := time.Now()
	for n := 1; n <= kills; n++ {
		c.run()
		if c.random.IntN(3) > 0 { // else perhaps while it starts
			c.d.AwaitReady()
		}
		for range c.random.IntN(10) {
			c.act(true)
			c.pause(60 * time.Millisecond)
		}
		c.pause(300 * time.Millisecond)
		c.kill()
		if c.random.IntN(6) == 0 {
			c.lose()
		}
		for range c.random.IntN(5) {
			c.act(false)
		}
		if n%between == 0 || n == kills {
			c.settle()
		}
	}
	t.Logf("%d kills and %d values in %v; the watch saw %d states of targets",
		kills, c.values, time.Since(began).Round(time.Second), len(c.seen.of("")))
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{
		Kube: harness.NewKube(t, cluster.Shared(t)), t: t,
		random: rand.New(rand.NewPCG(harness.Seed(t), 36)), dir: harness.ShortDir(t),
		file: filepath.Join(t.TempDir(), "rules.yaml"), moving: make(map[string]bool),
	}
	c.namespaces = c.Namespaces(4)
	for _, namespace := range c.namespaces[2:] {
		c.moving[namespace] = true
	}
	c.seen = follow(t, c.Kube, "configmaps", "", func(o metav1.Object) bool {
		return strings.HasPrefix(o.GetNamespace(), c.Ns+"-")
	})
	for i, rule := range []string{"p", "p", "p", "p", "q", "q", "q"} {
		name := fmt.Sprintf("%s-%d", rule, i)
		c.members = append(c.members, &member{rule: rule, name: name, isSelected: true})
	}
	t.Cleanup(func() {
		if t.Failed() {
			last := c.journal[max(0, len(c.journal)-logged):]
			t.Logf("what the test did last:\n%s", strings.Join(last, "\n"))
		}
	})
	c.write()
	first := c.members[0]
	first.exists, first.wishes = true, map[string]string{c.namespaces[0] + ".t0": "0"}
	c.store(first)
	c.run()
	c.d.AwaitReady()
	var like *unstructured.Unstructured
	c.d.Poll("a target", func() bool {
		keys := c.seen.keys()
		if len(keys) > 0 {
			like = c.seen.now(keys[0])
		}
		return like != nil
	})
	for i, name := range outsiders {
		o := must(c.Kube, name)
		o.SetNamespace(c.namespaces[i])
		if name == "decoy" {
			o.SetLabels(like.GetLabels())
			o.SetAnnotations(like.GetAnnotations())
		}
		if _, err := c.Resource(o).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.kill()
	return c
}

// write writes the manifests.
func (c *crowd) write() {
	c.t.Helper()
	selector, where := "", ""
	if c.isStrict {
		selector, where = ", odd!=yes", `where: 'object.metadata.labels.odd != "yes"', `
	}
	var text strings.Builder
	for rule, source := range map[string]string{"p": "of=p", "q": "of=q" + selector} {
		more := ""
		if rule == "p" {
			more = where
		}
		text.WriteString(harness.Source(rule, harness.ConfigMaps+", labelSelector: '"+source+"'") +
			harness.Rule("NS-"+rule, `source: `+rule+`, `+more+`prune: true, actions: [
				{forEach: keys(object.data), apply: {resource: v1/configmaps, object: {
					metadata: {namespace: '${split(item, ".")[0]}', name: '${split(item, ".")[1]}'}, data: {
						x: "${object.data[item]}", by: "${object.metadata.name}", `+rule+`: "yes"}}}}]`))
	}
	// So informd sees namespaces appear.
	text.WriteString(harness.Source("namespaces", "resource: v1/namespaces, labelSelector: of=NS") +
		harness.Handler("log", "builtin: log") +
		harness.Rule("NS-seen", "source: namespaces, handler: log"))
	if err := os.WriteFile(c.file+".next", []byte(c.Text(text.String())), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(c.file+".next", c.file); err != nil {
		c.t.Fatal(err)
	}
}

// isInside reports whether a member's rule selects it.
func (c *crowd) isInside(m *member) bool {
	return m.exists && m.isSelected && !(c.isStrict && m.isOdd)
}

func (c *crowd) note(format string, args ...any) {
	line := time.Now().Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
	c.journal = append(c.journal, line)
}

func (c *crowd) pause(most time.Duration) {
	time.Sleep(time.Duration(c.random.Int64N(int64(most))))
}

func (c *crowd) run() {
	c.t.Helper()
	c.note("informd starts")
	c.d = harness.NewStateDir(c.t, cluster.Shared(c.t).Kubeconfig(), c.dir).Run(c.file)
}

func (c *crowd) kill() {
	c.t.Helper()
	c.note("informd is killed")
	c.d.Kill()
	c.ended()
}

// ended waits for what the test asked the daemon, and looks into its log.
func (c *crowd) ended() {
	c.t.Helper()
	if c.reloads != nil {
		<-c.reloads
	}
	for _, bad := range []string{"DATA RACE", "panic:"} {
		if strings.Contains(c.d.Logged(), bad) {
			c.t.Fatalf("%q is in the log", bad)
		}
	}
}

func (c *crowd) lose() {
	c.t.Helper()
	c.note("the state is lost")
	c.hasLost = true
	if err := os.RemoveAll(c.dir); err != nil {
		c.t.Fatal(err)
	}
}

// act does one thing that changes who asks for what, or where it may be.
func (c *crowd) act(isUp bool) {
	c.t.Helper()
	m := c.members[c.random.IntN(len(c.members))]
	switch n := c.random.IntN(20); {
	case n < 9 || !m.exists:
		c.wish(m)
	case n < 12:
		c.remove(m)
	case n < 15:
		m.isSelected = !m.isSelected
		c.store(m)
	case n < 17:
		m.isOdd = !m.isOdd
		c.store(m)
	case n < 19:
		namespace := c.namespaces[2+c.random.IntN(2)]
		c.move(namespace, !c.moving[namespace])
	default:
		c.isStrict = !c.isStrict
		c.note("manifests that leave out what is odd: %v", c.isStrict)
		c.write()
		if isUp {
			c.reload()
		}
	}
}

// reload has the daemon read its manifests. It may be killed meanwhile, or not be ready yet: then
// the next one reads them.
func (c *crowd) reload() {
	if c.reloads != nil {
		<-c.reloads
	}
	done := make(chan struct{})
	c.reloads = done
	go func() {
		defer close(done)
		code, _, stderr := harness.Informd(c.t, "reload", "--state-dir", c.dir)
		c.t.Logf("%s informd reload: exit code %d %s", time.Now().Format("15:04:05.000"), code, stderr)
	}()
}

// wish has a member ask for some targets, with new values.
func (c *crowd) wish(m *member) {
	c.t.Helper()
	c.values++
	m.exists, m.wishes = true, make(map[string]string)
	for _, target := range c.targets() {
		if c.random.IntN(3) == 0 {
			m.wishes[target] = fmt.Sprint(c.values)
		}
	}
	c.store(m)
}

// targets returns everything that members ask for, also what is somebody else's.
func (c *crowd) targets() (all []string) {
	for _, namespace := range c.namespaces {
		for i := range 3 {
			all = append(all, fmt.Sprintf("%s.t%d", namespace, i))
		}
	}
	for i, name := range outsiders {
		all = append(all, c.namespaces[i]+"."+name)
	}
	return all
}

// store writes a member to the cluster.
func (c *crowd) store(m *member) {
	c.t.Helper()
	c.note("%s, selected: %v, odd: %v, asks for %v", m.name, m.isSelected, m.isOdd, m.wishes)
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: map[string]string{"of": "none"}},
		Data:       m.wishes,
	}
	if m.isSelected {
		object.Labels["of"] = m.rule
	}
	if m.isOdd {
		object.Labels["odd"] = "yes"
	}
	client := c.Typed.CoreV1().ConfigMaps(c.Ns)
	_, err := client.Update(c.t.Context(), object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(c.t.Context(), object, metav1.CreateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *crowd) remove(m *member) {
	c.t.Helper()
	c.note("%s is deleted", m.name)
	m.exists, m.wishes = false, nil
	c.Delete(must(c.Kube, m.name))
}

// move makes a namespace, or deletes it with what is in it, as the namespace controller would.
func (c *crowd) move(name string, isThere bool) {
	c.t.Helper()
	c.note("the namespace %s is there: %v", name, isThere)
	c.moving[name] = isThere
	ctx, namespaces := c.t.Context(), c.Typed.CoreV1().Namespaces()
	if isThere {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"of": c.Ns},
		}}
		if _, err := namespaces.Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
		return
	}
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.empty(ctx, name)
	namespace, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	namespace.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(ctx, namespace, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.empty(ctx, name) // of what was let in before the namespace began to end
}

// empty deletes the ConfigMaps of a namespace.
func (c *crowd) empty(ctx context.Context, namespace string) {
	c.t.Helper()
	err := c.Typed.CoreV1().ConfigMaps(namespace).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
}

// settle starts informd, and checks what becomes of everything when nothing more happens.
func (c *crowd) settle() {
	c.t.Helper()
	for _, namespace := range slices.Sorted(maps.Keys(c.moving)) {
		if !c.moving[namespace] {
			c.move(namespace, true)
		}
	}
	for _, m := range c.members {
		if c.hasLost && m.exists && !c.isInside(m) {
			// What was applied for it may be another informd's, so informd would leave it.
			if c.random.IntN(2) == 0 {
				c.remove(m)
			} else {
				m.isSelected, m.isOdd = true, false
				c.store(m)
			}
		}
	}
	c.hasLost = false
	c.run()
	c.d.AwaitReady()
	c.await(c.namespaces[:2])
	// Nobody told the rules what was deleted with a namespace.
	c.note("every member asks again")
	for _, m := range c.members {
		if m.exists {
			c.values++
			for target := range m.wishes {
				m.wishes[target] = fmt.Sprint(c.values)
			}
			c.store(m)
		}
	}
	c.await(c.namespaces)
	c.d.AwaitDelivered()
	if wrong := c.wrong(c.namespaces); wrong != "" {
		c.t.Fatalf("later, when everything is delivered: %s", wrong)
	}
	c.d.Stop()
	c.ended()
}

// await waits until all is as it should be in some namespaces. What waits for its next attempt is
// tried now and then.
func (c *crowd) await(namespaces []string) {
	c.t.Helper()
	wrong := ""
	defer func() {
		if wrong != "" {
			c.t.Logf("what is wrong: %s", wrong)
		}
	}()
	looks := 0
	c.d.PollFor(2*harness.Patience, "everything to be as it is asked for", func() bool {
		if looks++; looks%10 == 0 {
			for _, rule := range []string{"p", "q"} {
				says(c.t, c.dir, "rule", "retry", c.Ns+"-"+rule)
			}
		}
		wrong = c.wrong(namespaces)
		return wrong == ""
	})
}

// wrong says what is not as it should be, or returns "".
func (c *crowd) wrong(namespaces []string) string {
	c.t.Helper()
	is := make(map[string]*unstructured.Unstructured)
	for _, namespace := range namespaces {
		o := must(c.Kube, "any")
		o.SetNamespace(namespace)
		list, err := c.Resource(o).List(c.t.Context(), metav1.ListOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		for i := range list.Items {
			is[namespace+"."+list.Items[i].GetName()] = &list.Items[i]
		}
	}
	for i, name := range outsiders {
		if states := c.seen.of(c.namespaces[i] + "/" + name); len(states) != 1 {
			c.t.Fatalf("%s is somebody else's, and was touched: %v", name, states)
		}
	}
	for _, target := range c.targets() {
		namespace, name, _ := strings.Cut(target, ".")
		if !slices.Contains(namespaces, namespace) || slices.Contains(outsiders, name) {
			continue
		}
		if wrong := c.wrongWith(target, is[target]); wrong != "" {
			return target + ": " + wrong
		}
	}
	return ""
}

// wrongWith says what is wrong with a target, or returns "". is may be nil.
func (c *crowd) wrongWith(target string, is *unstructured.Unstructured) string {
	var names []string
	var owner *member
	for _, m := range c.members {
		if m.wishes[target] == "" || !c.isInside(m) {
			continue
		}
		names = append(names, m.name)
		isFor := func() bool { return appliedFor(is) == "v1/configmaps "+c.Ns+"/"+m.name }
		if is != nil && isFor() && appliedBy(is) == c.Ns+"-"+m.rule {
			owner = m
		}
	}
	switch {
	case is == nil && len(names) > 0:
		return fmt.Sprintf("%v ask for it, and it is not there", names)
	case is == nil:
		return ""
	case owner == nil:
		return fmt.Sprintf("%v ask for it, and it is for %s of %s", names, appliedFor(is), appliedBy(is))
	}
	data, _, _ := unstructured.NestedMap(is.Object, "data")
	want := map[string]any{"x": owner.wishes[target], "by": owner.name, owner.rule: "yes"}
	if !maps.Equal(data, want) {
		return fmt.Sprintf("it is %v, and its owner asks for %v", data, want)
	}
	for _, m := range is.GetManagedFields() {
		if m.Manager != "informd/"+c.Ns+"-"+owner.rule {
			return fmt.Sprintf("it is for %s, and %s manages it, too", owner.name, m.Manager)
		}
	}
	return ""
}
