package e2e

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// A rule does not get its own changes. It gets everybody else's, or a later one, however they fall
// between its own. If informd is killed meanwhile, the rule may get one of its own whose answer
// informd did not get.
func TestOwnChangesAmongForeignOnes(t *testing.T) {
	for _, test := range []struct {
		delivery string
		kills    int
	}{{"latest", 0}, {"every", 0}, {"latest", 3}, {"every", 3}} {
		t.Run(fmt.Sprintf("%s, %d kills", test.delivery, test.kills), func(t *testing.T) {
			t.Parallel()
			ownAmongForeign(t, test.delivery, test.kills)
		})
	}
}

func ownAmongForeign(t *testing.T, delivery string, kills int) {
	const objects, writers, writesEach = 8, 8, 20
	k := harness.NewKube(t, cluster.Shared(t))
	kubeconfig, stage := k.Limited(t), newTheater(t)
	k.Allow("acting", acting)
	state := harness.NewStateDir(t, kubeconfig, harness.ShortDir(t))
	manifests := k.Text(harness.Source("configmaps", harness.ConfigMaps) +
		stage.puppet("concurrency: 16, access: {write: ["+anyAction+"]}") + harness.Handler("log", "builtin: log") +
		harness.Rule("copies", "source: configmaps, where: object.data.actions != nil, handler: puppet, delivery: "+delivery) +
		harness.Rule("watches", "source: configmaps, where: object.data.actions != nil, handler: log, delivery: every, payload: {turn: object.data.turn, seen: object.data.seen}"))
	d := state.Settled(manifests)
	// Each foreign change has another turn. The rule copies the turn, which is its own change. It
	// also applies a label, which changes something the first time only.
	const copies = `[{"Verb":"patch","Patch":{"data":{"seen":"${turn}"}}},{"Verb":"apply","Object":{"metadata":{"labels":{"example.com/seen":"yes"}}}}]`
	name := func(i int) string { return fmt.Sprintf("o-%d", i%objects) }
	for i := range objects {
		k.Create(scripted(name(i), copies, `turn: "0"`))
	}
	var last atomic.Int64
	var killing atomic.Bool
	killing.Store(kills > 0)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := 0; i < writesEach || killing.Load(); i++ {
				patch := fmt.Appendf(nil, `{"data":{"turn":"%d"}}`, last.Add(1))
				if _, err := k.Typed.CoreV1().ConfigMaps(k.Ns).Patch(t.Context(), name(w+i), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Millisecond) // so that the rule comes in between
			}
		})
	}
	log := ""
	for range kills {
		before := len(stage.told(""))
		k.Eventually("more to be told", func() bool { return len(stage.told("")) > before+20 })
		d.Kill()
		log += d.Logged()
		d = state.Run(manifests)
	}
	killing.Store(false)
	group.Wait()
	for i := range objects {
		k.Eventually("the last change of "+name(i)+" to be told", func() bool {
			cm, err := k.ConfigMap(name(i))
			return err == nil && cm.Data["seen"] == cm.Data["turn"] && cm.Labels["example.com/seen"] == "yes"
		})
	}
	d.AwaitDelivered()
	if n := d.Metric("informd_dead_letters"); n != "0" {
		t.Errorf("%s dead letters", n)
	}
	d.Stop()
	log += d.Logged()

	all, echoes, seen := stage.told(""), 0, 0
	for _, what := range all {
		if what.Data["turn"] == what.Data["seen"] {
			echoes++
		}
	}
	for _, line := range k.Briefs(d.Events) {
		var turn, copied string
		if _, err := fmt.Sscanf(line[strings.Index(line, "{"):], `{"turn":%q,"seen":%q}`, &turn, &copied); err == nil && turn == copied {
			seen++
		}
	}
	conflicts := harness.Count(log, "msg=action ", "rule=copies ", "result=conflict")
	t.Logf("%d foreign changes; the rule was told %d times, %d times of its own; %d conflicts; the other rule saw %d of the rule's",
		last.Load(), len(all), echoes, conflicts, seen)
	if kills == 0 && (echoes > 0 || seen == 0) || conflicts == 0 {
		t.Errorf("the rule was told %d times of its own changes; another rule %d times; %d conflicts, without which the test shows nothing", echoes, seen, conflicts)
	}
}

// If informd is killed right after a change of a rule's own, before the API server has shown it, the
// next process does not deliver it to the rule. It delivers it to other rules, and what somebody else
// changes to both.
func TestOwnChangesAreKnownAfterAKill(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	kubeconfig, stage := k.Limited(t), newTheater(t)
	k.Allow("acting", acting)
	gate := newGate(t, kubeconfig)
	state := harness.NewStateDir(t, gate.kubeconfig, harness.ShortDir(t))
	manifests := k.Text(harness.Source("configmaps", harness.ConfigMaps) +
		stage.puppet("access: {write: ["+anyAction+"]}") + harness.Handler("log", "builtin: log") +
		harness.Rule("acts", "source: configmaps, where: object.data.actions != nil, handler: puppet, delivery: every") +
		harness.Rule("watches", "source: configmaps, where: object.data.actions != nil, handler: log, delivery: every, payload: {turn: object.data.turn, seen: object.data.seen}"))
	d := state.Settled(manifests)
	own := k.Create(scripted("own", `[{"Verb":"patch","Patch":{"data":{"seen":"${turn}"}}}]`, `turn: "1", hold: "yes"`))
	k.Eventually("the rule to be told", func() bool { return len(stage.told("own")) == 1 })
	thaw := gate.freeze()
	stage.release("own")
	k.Has("own", "seen", "1")
	d.AwaitWritten()
	d.Kill()
	thaw()
	d = state.Run(manifests)
	k.Patch(own, `data: {turn: "2"}`)
	k.Has("own", "seen", "2")
	d.AwaitDelivered()
	d.Stop()
	var turns []string
	for _, cue := range stage.told("own") {
		turns = append(turns, cue.Data["turn"]+cue.Data["seen"])
	}
	if got := strings.Join(turns, " "); got != "1 21" {
		t.Errorf("the rule was told of the turns, and what it had seen of them: %q, want 1 21", got)
	}
	if n := harness.Count(strings.Join(k.Briefs(d.Events), "\n"), `"turn":"1"`, `"seen":"1"`); n != 1 {
		t.Errorf("the other rule was told %d times of what the rule had done: %q", n, k.Briefs(d.Events))
	}
}

// A rule with ownChanges: deliver gets the changes that it made itself. A rule without it does not.
func TestOwnChangesDelivered(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	kubeconfig, stage := k.Limited(t), newTheater(t)
	k.Allow("acting", acting)
	d := harness.RunInformd(t, kubeconfig, k.Text(harness.Source("configmaps", harness.ConfigMaps)+stage.puppet("access: {write: ["+anyAction+"]}")+
		harness.Rule("stops", "source: configmaps, where: object.metadata.name == 'stops', handler: puppet")+
		harness.Rule("goes-on", "source: configmaps, where: object.metadata.name == 'goes-on', handler: puppet, ownChanges: deliver")))
	d.AwaitReady()
	const grow = `[{"Verb":"patch","Patch":{"data":{"turn":"${turn}x"}}}]`
	k.Create(scripted("stops", grow, "turn: x, until: xxxx"))
	k.Has("stops", "turn", "xx")
	k.Create(scripted("goes-on", grow, "turn: x, until: xxxx"))
	k.Has("goes-on", "turn", "xxxx")
	d.AwaitDelivered()
	k.Has("stops", "turn", "xx")
	d.Stop()
	if n := len(stage.told("stops")); n != 1 {
		t.Errorf("told %d times of what the rule did itself", n-1)
	}
	if n := len(stage.told("goes-on")); n != 4 {
		t.Errorf("told %d times, want of the creation and of three changes of its own", n)
	}
}

// informd slows down two rules that undo each other's changes, and names both. They still act on
// anybody else's change at once.
func TestRulesThatChaseEachOther(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	kubeconfig := k.Limited(t)
	k.Allow("acting", acting)
	state := harness.NewStateDir(t, kubeconfig, harness.ShortDir(t))
	strike := func(rule, ball, back string) string {
		return harness.Rule(rule, `source: configmaps, when: 'object.data.ball == "`+ball+`"', actions: [
			{patch: {merge: {data: {ball: `+back+`, hits: '${string(int(object.data.hits) + 1)}'}}}}]`)
	}
	d := state.Settled(k.Text(harness.Source("configmaps", harness.ConfigMaps) + strike("forehand", "left", "right") + strike("backhand", "right", "left")))
	ball := k.Create(harness.ConfigMap("ball", "{ball: left, hits: '0'}"))
	hits := func() int {
		cm, err := k.ConfigMap("ball")
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(cm.Data["hits"])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	named := func(text string) bool {
		for line := range strings.Lines(text) {
			if strings.Contains(line, "forehand") && strings.Contains(line, "backhand") && strings.Contains(line, "chase each other") {
				return true
			}
		}
		return false
	}
	d.Until("the log to name both", func() bool { return named(d.Log.String()) })
	began := time.Now()
	k.Eventually("the status to name both", func() bool { return named(state.Command("status")) })
	if n := hits(); n < 7 || n > 14 { // eight without a delay, then after 1, 2, 4… seconds
		t.Errorf("%d hits; want eight and a few", n)
	}
	k.Patch(ball, "data: {hits: '100', ball: left}")
	k.Eventually("a change of another's to be acted upon", func() bool { return hits() > 100 })
	d.Stop()
	n, took := harness.Count(d.Logged(), "level=WARN", "chase each other"), time.Since(began)
	if n < 1 || n > 1+int(took/time.Minute) {
		t.Errorf("said %d times in %v; want once a minute", n, took)
	}
}

// Two informds that undo each other's changes say so and slow down, although neither knows the other's
// rules.
func TestTwoInformdsThatUndoEachOther(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	kubeconfig := k.Limited(t)
	k.Allow("acting", acting)
	paints := func(color string) (*harness.Daemon, string) {
		socket := filepath.Join(harness.ShortDir(t), "control")
		return harness.RunInformd(t, kubeconfig, k.Text(harness.Source("configmaps", harness.ConfigMaps)+
			harness.Rule("paint-"+color, `source: configmaps, when: 'object.data.color != "`+color+`"', actions: [
			{patch: {merge: {data: {color: `+color+`}}}}]`)), "--control", socket), socket
	}
	red, redSocket := paints("red")
	blue, blueSocket := paints("blue")
	red.AwaitReady()
	blue.AwaitReady()
	wall := k.Create(harness.ConfigMap("wall", "{color: white}"))
	red.AwaitLog("somebody else keeps undoing what the rule writes")
	blue.AwaitLog("somebody else keeps undoing what the rule writes")
	for _, socket := range []string{redSocket, blueSocket} {
		k.Eventually("the status to say that it is slowed", func() bool {
			_, out, _ := harness.Informd(t, "status", "--control", socket)
			return strings.Contains(out, "is undone: somebody else reverts what it writes to v1/configmaps "+k.Ns+"/wall") &&
				strings.Contains(out, "slowed, next in")
		})
	}
	writes := harness.Count(red.Logged(), "msg=action", "rule=paint-red", "result=done")
	if writes > 20 { // nine without a delay, then after 1, 2, 4… seconds
		t.Errorf("%d writes", writes)
	}
	k.Delete(wall)
}
