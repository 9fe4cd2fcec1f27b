package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// TestRenames renames a rule again and again under load, by reloads and restarts, and kills the
// daemon at random moments of both. The rule delivers each change in order, none under two ids, and
// nothing as synced or deleted.
func TestRenames(t *testing.T) {
	t.Parallel()
	rounds := 12
	if harness.Soak() {
		rounds = 300
	}
	random := rand.New(rand.NewPCG(harness.Seed(t), 0))
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	file := filepath.Join(t.TempDir(), "rules.yaml")
	name := func(n int) string { return fmt.Sprint("r-", n) }
	write := func(n int) {
		formerly := ""
		if n > 0 {
			formerly = ", formerly: " + name(n-1)
		}
		text := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
			harness.Rule(name(n), "source: configmaps, handler: log, delivery: every, where: object.data.size != nil, payload: {size: object.data.size}"+formerly))
		if err := os.WriteFile(file+".next", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".next", file); err != nil {
			t.Fatal(err)
		}
	}
	objects := make([]*unstructured.Unstructured, 6)
	latest := make(map[string]int)
	for i := range objects {
		objects[i] = k.Create(harness.ConfigMap(fmt.Sprintf("c-%d", i), "{size: '1'}"))
		latest[objects[i].GetName()] = 1
	}
	change := func() {
		for range random.IntN(8) {
			o := objects[random.IntN(len(objects))]
			latest[o.GetName()]++
			k.Patch(o, fmt.Sprintf("data: {size: '%d'}", latest[o.GetName()]))
		}
	}
	var told []handler.Event
	write(0)
	d := state.Run(file)
	d.AwaitReady()
	d.Until("all is synced", func() bool { return len(d.Events) >= len(objects) })
	d.AwaitDelivered()
	kill := func() {
		d.Kill()
		told = append(told, d.Events...)
		change()
		d = state.Run(file)
	}
	for n := 1; n <= rounds; n++ {
		change()
		isPaused := random.IntN(2) == 0
		if isPaused {
			state.Command("rule", "pause", name(n-1))
			change()
		}
		d.AwaitWritten()
		write(n)
		isReload := random.IntN(2) == 0
		if isReload {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _, _ = harness.Informd(t, "reload", "--state-dir", state.Dir) // it may end in a kill
			}()
			if random.IntN(2) == 0 {
				time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
				kill()
			}
			<-done
		} else {
			kill()
		}
		for range random.IntN(3) {
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			kill()
		}
		d.AwaitReady()
		d.Poll("the rename", func() bool {
			return strings.Contains(state.Command("status"), name(n))
		})
		if isPaused {
			state.Command("rule", "resume", name(n))
		}
	}
	change()
	d.Until("all is told", func() bool {
		last := make(map[string]int)
		for _, ev := range append(slices.Clone(told), d.Events...) {
			last[ev.Name] = max(last[ev.Name], sizeOf(t, ev))
		}
		for name, n := range latest {
			if last[name] != n {
				return false
			}
		}
		return true
	})
	d.AwaitDelivered()
	d.Stop()
	told = append(told, d.Events...)
	ids, former, synced := make(map[string]string), 0, 0
	sizes := make(map[string][]int)
	for _, ev := range told {
		what := fmt.Sprint(ev.Name, " ", sizeOf(t, ev))
		if id, ok := ids[what]; ok {
			if ev.ID != id {
				t.Errorf("%s was told as %s, and as %s", what, id, ev.ID)
			}
			continue
		}
		ids[what] = ev.ID
		sizes[ev.Name] = append(sizes[ev.Name], sizeOf(t, ev))
		if !strings.HasPrefix(ev.ID, ev.Rule+"/") {
			former++
		}
		switch {
		case ev.Event == "synced":
			synced++
		case ev.Event != "updated":
			t.Errorf("%s %s: %s", ev.Rule, what, ev.Event)
		}
	}
	if synced != len(objects) {
		t.Errorf("%d objects came as synced, and not %d", synced, len(objects))
	}
	for name, all := range sizes {
		if !slices.IsSorted(all) || len(all) != latest[name] {
			t.Errorf("%s has changed to %d; told %v", name, latest[name], all)
		}
	}
	t.Logf("%d events, %d of them with a former name's id", len(ids), former)
}

// TestARenameIsSaid has plan and reload say that a rule was renamed, and status show it by its new name.
func TestARenameIsSaid(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(rule, spec string) {
		text := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
			harness.Rule(rule, "source: configmaps, handler: log"+spec))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.Create(harness.ConfigMap("a", "{size: '1'}"))
	write("old", "")
	d := state.Run(file)
	d.AwaitReady()
	d.AwaitDelivered()
	says := func(text string, args ...string) {
		t.Helper()
		out := state.Command(args...)
		if !strings.Contains(out, text) {
			t.Errorf("informd %s: no %q in:\n%s", strings.Join(args, " "), text, out)
		}
	}
	write("new", ", formerly: old")
	says("rule new, formerly old, keeps what it had", "plan")
	says("rule new, formerly old, keeps what it had", "reload")
	says("new", "status")
	write("newer", ", formerly: new, where: 'object.data != nil'")
	says("rule newer, formerly new, changes: 1 object comes in (synced)", "plan")
	says("rule newer, formerly new, keeps what it had", "reload")
	d.Stop()
}
