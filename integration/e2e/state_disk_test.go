package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// informd works with a damaged state directory, whatever the damage. It reports the damage, and
// ignores or sets aside what it cannot read. What it delivers is true and complete.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	stub, kubeconfig := harness.NewStub(t)
	const objects = 300
	stub.Load(harness.ConfigMapResource, objects, func(i int) any {
		return fmt.Sprintf(`{"metadata":{"name":"cm-%04d","namespace":"shop"},"data":{"text":%q}}`, i, strings.Repeat(fmt.Sprint(i), 200))
	})
	rules := harness.Source("configmaps", "resource: v1/configmaps") + harness.Handler("log", "builtin: log") + harness.Away("away") +
		harness.Rule("rule", "source: configmaps, handler: log, payload: {}") + harness.Rule("waits", "source: configmaps, handler: away")
	good := harness.NewStateDir(t, kubeconfig, harness.ShortDir(t))
	d := good.Run(rules)
	d.Await("all objects", func(events []handler.Event) bool { return len(events) == objects })
	d.AwaitWritten()
	d.Kill()
	good.Settled(rules).Kill() // what was a log is tables then

	damages := map[string]func(*rand.Rand, string){
		"cut": func(random *rand.Rand, path string) {
			alter(t, path, func(b []byte) []byte { return b[:random.IntN(len(b))] })
		},
		"emptied": func(_ *rand.Rand, path string) { alter(t, path, func(b []byte) []byte { return nil }) },
		"removed": func(_ *rand.Rand, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"flipped": func(random *rand.Rand, path string) {
			alter(t, path, func(b []byte) []byte {
				for range 1 + len(b)/2000 {
					b[random.IntN(len(b))] ^= byte(1 + random.IntN(255))
				}
				return b
			})
		},
		"zeroed": func(random *rand.Rand, path string) {
			alter(t, path, func(b []byte) []byte {
				from := random.IntN(len(b))
				clear(b[from:min(from+4096, len(b))])
				return b
			})
		},
		"garbage": func(random *rand.Rand, path string) {
			alter(t, path, func(b []byte) []byte {
				for i := range b {
					b[i] = byte(random.IntN(256))
				}
				return b
			})
		},
	}
	rounds := 2
	if harness.Soak() {
		rounds = 200
	}
	seed := harness.Seed(t)
	kinds := slices.Sorted(maps.Keys(damages))
	for round := range rounds {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		name := kinds[random.IntN(len(kinds))]
		t.Run(fmt.Sprint(name, "-", round), func(t *testing.T) {
			state := harness.NewStateDir(t, kubeconfig, filepath.Join(harness.ShortDir(t), "state"))
			copyFolder(t, good.Dir, state.Dir)
			var files []string
			for _, path := range harness.FilesOf(t, state.Dir) {
				if info, err := os.Stat(path); err == nil && info.Size() > 0 {
					files = append(files, path)
				}
			}
			// The test damages one of the files, or all.
			if one := random.IntN(len(files) + 1); one < len(files) {
				files = files[one : one+1]
			}
			for _, path := range files {
				damages[name](random, path)
			}
			t.Log(name, files)
			d := state.Run(rules, "--log-level", "info")
			d.AwaitReady()
			d.Poll("the cache to be complete", func() bool {
				return d.Metric(`informd_source_objects{source="configmaps"}`) == fmt.Sprint(objects+round)
			})
			d.Poll("to be durable", func() bool { return d.Metric("informd_state_durable") == "1" })
			// Either informd resumes from the state that it read, and nothing has changed; or it
			// begins without state, and every object is new.
			added := fmt.Sprint("new-", round) // those of other rounds come as well
			stub.Apply(harness.ConfigMapResource, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop"},"data":{}}`, added))
			events := d.Await("the new object", func(events []handler.Event) bool {
				return slices.ContainsFunc(events, func(ev handler.Event) bool { return ev.Name == added && ev.Event == "added" })
			})
			d.AwaitWritten()
			d.Stop()
			anew := 0
			for _, ev := range events {
				if strings.HasPrefix(ev.Name, "cm-") {
					anew++
				}
				if strings.HasPrefix(ev.Name, "cm-") && ev.Event != "synced" {
					t.Errorf("unexpected: %s", harness.Brief(ev))
				}
			}
			// A missing file says nothing: a store without files is a new one.
			if anew == objects && name != "removed" && harness.Count(d.Logged(), "level=ERROR", state.Dir) == 0 {
				t.Errorf("it began anew, and nothing in the log says why:\n%s", d.Logged())
			}
			// informd starts again without complaints, and delivers once everything that waited.
			d = state.Run(strings.ReplaceAll(rules, harness.Away("away"), harness.Handler("away", "builtin: log")), "--log-level", "info")
			waited := map[string]int{}
			d.Await("all that waits", func(events []handler.Event) bool {
				clear(waited)
				for _, ev := range events {
					waited[ev.Rule+" "+ev.Name]++
				}
				return len(waited) > objects+round
			})
			d.Stop()
			for name, n := range waited {
				if n > 1 || !strings.HasPrefix(name, "waits ") {
					t.Errorf("%s was told of %d times", name, n)
				}
			}
			if harness.Count(d.Logged(), "level=ERROR") > 0 {
				t.Errorf("the run after that says:\n%s", d.Logged())
			}
		})
	}
}

func alter(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Two daemons cannot share a state directory. The second names the directory, its owner and what to
// do, and ends.
func TestStateIsLocked(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") + harness.Rule("rule", "source: configmaps, handler: log"))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	first := state.Settled(rules)
	second := state.Run(rules)
	if code := second.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{state.Dir, fmt.Sprint(first.Cmd.Process.Pid), "--state-dir"} {
		if !strings.Contains(second.Logged(), want) {
			t.Errorf("the second does not say %q:\n%s", want, second.Logged())
		}
	}
	k.Create(harness.ConfigMap("web", "{}"))
	k.Saw(first, "rule NS/web added")

	third := state.Settled(rules)
	third.Stop()
}

// Nobody else can read the state directory.
func TestStateIsPrivate(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Create(harness.ConfigMap("web", "{}"))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), filepath.Join(harness.ShortDir(t), "made", "by", "it"))
	d := state.Settled(k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") + harness.Rule("rule", "source: configmaps, handler: log")))
	k.Sees(d, "rule NS/web synced")
	err := filepath.WalkDir(state.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return nil // it has just gone
		}
		if info, err := entry.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Stop()
}

// With --state-dir none informd remembers and writes nothing.
func TestNoState(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Create(harness.ConfigMap("web", "{}"))
	home := harness.ShortDir(t)
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") + harness.Rule("rule", "source: configmaps, handler: log"))
	for range 2 {
		d := harness.RunInformdIn(t, []string{"XDG_STATE_HOME=" + home}, cluster.Shared(t).Kubeconfig(), rules, "--state-dir", "none")
		d.AwaitReady()
		k.Saw(d, "rule NS/web synced")
	}
	if files := harness.InFolder(t, home); len(files) > 0 {
		t.Errorf("it has written %q", files)
	}
}
