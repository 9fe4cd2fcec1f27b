package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
)

// The files of a state folder, damaged in any way, keep informd from nothing: it says so, and what it cannot read it does
// without, or sets aside. What it tells is true, and complete.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	stub, kubeconfig := newStub(t)
	const objects = 300
	stub.Load(stubConfigMaps, objects, func(i int) any {
		return fmt.Sprintf(`{"metadata":{"name":"cm-%04d","namespace":"shop"},"data":{"text":%q}}`, i, strings.Repeat(fmt.Sprint(i), 200))
	})
	rules := source("configmaps", "resource: v1/configmaps") + toldBy("log", "builtin: log") + away("away") +
		ruleFor("rule", "source: configmaps, handler: log, payload: {}") + ruleFor("waits", "source: configmaps, handler: away")
	good := newStateDir(t, kubeconfig, shortDir(t))
	d := good.run(rules)
	d.await("all objects", func(events []handler.Event) bool { return len(events) == objects })
	d.awaitWritten()
	d.kill()
	good.settled(rules).kill() // what was a log is tables then

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
	if soak() {
		rounds = 200
	}
	seed := seed(t)
	kinds := slices.Sorted(maps.Keys(damages))
	for round := range rounds {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		name := kinds[random.IntN(len(kinds))]
		t.Run(fmt.Sprint(name, "-", round), func(t *testing.T) {
			state := newStateDir(t, kubeconfig, filepath.Join(shortDir(t), "state"))
			copyFolder(t, good.dir, state.dir)
			var files []string
			for _, path := range filesOf(t, state.dir) {
				if info, err := os.Stat(path); err == nil && info.Size() > 0 {
					files = append(files, path)
				}
			}
			// One of the files, or all.
			if one := random.IntN(len(files) + 1); one < len(files) {
				files = files[one : one+1]
			}
			for _, path := range files {
				damages[name](random, path)
			}
			t.Log(name, files)
			d := state.run(rules, "--log-level", "info")
			d.awaitReady()
			d.poll("the cache to be complete", func() bool {
				return d.metric(`informd_source_objects{source="configmaps"}`) == fmt.Sprint(objects+round)
			})
			d.poll("to be durable", func() bool { return d.metric("informd_state_durable") == "1" })
			// Either it goes on from what it read, and nothing has changed, or from nothing, and all comes as at first sight.
			added := fmt.Sprint("new-", round) // those of other rounds come as well
			stub.Apply(stubConfigMaps, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop"},"data":{}}`, added))
			events := d.await("the new object", func(events []handler.Event) bool {
				return slices.ContainsFunc(events, func(ev handler.Event) bool { return ev.Name == added && ev.Event == "added" })
			})
			d.awaitWritten()
			d.stop()
			anew := 0
			for _, ev := range events {
				if strings.HasPrefix(ev.Name, "cm-") {
					anew++
				}
				if strings.HasPrefix(ev.Name, "cm-") && ev.Event != "synced" {
					t.Errorf("unexpected: %s", brief(ev))
				}
			}
			// A file that is not there says nothing: a store without any is a new one.
			if anew == objects && name != "removed" && count(d.logged(), "level=ERROR", state.dir) == 0 {
				t.Errorf("it began anew, and nothing in the log says why:\n%s", d.logged())
			}
			// It comes up again without anything to complain of; and what waited all the time is told, all of it, once.
			d = state.run(strings.ReplaceAll(rules, away("away"), toldBy("away", "builtin: log")), "--log-level", "info")
			waited := map[string]int{}
			d.await("all that waits", func(events []handler.Event) bool {
				clear(waited)
				for _, ev := range events {
					waited[ev.Rule+" "+ev.Name]++
				}
				return len(waited) > objects+round
			})
			d.stop()
			for name, n := range waited {
				if n > 1 || !strings.HasPrefix(name, "waits ") {
					t.Errorf("%s was told of %d times", name, n)
				}
			}
			if count(d.logged(), "level=ERROR") > 0 {
				t.Errorf("the run after that says:\n%s", d.logged())
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

// Two daemons do not share a state folder: the second says which, whose, and what to do, and ends.
func TestStateIsLocked(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	rules := k.text(source("configmaps", configMaps) + toldBy("log", "builtin: log") + ruleFor("rule", "source: configmaps, handler: log"))
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t))
	first := state.settled(rules)
	second := state.run(rules)
	if code := second.exitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{state.dir, fmt.Sprint(first.cmd.Process.Pid), "--state-dir"} {
		if !strings.Contains(second.logged(), want) {
			t.Errorf("the second does not say %q:\n%s", want, second.logged())
		}
	}
	k.create(configMap("web", "{}"))
	k.saw(first, "rule NS/web added")

	third := state.settled(rules)
	third.stop()
}

// Nobody else can read what informd remembers.
func TestStateIsPrivate(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	k.create(configMap("web", "{}"))
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), filepath.Join(shortDir(t), "made", "by", "it"))
	d := state.settled(k.text(source("configmaps", configMaps) + toldBy("log", "builtin: log") + ruleFor("rule", "source: configmaps, handler: log")))
	k.sees(d, "rule NS/web synced")
	err := filepath.WalkDir(state.dir, func(path string, entry os.DirEntry, err error) error {
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
	d.stop()
}

// With --state-dir none nothing is remembered, and nothing written.
func TestNoState(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	k.create(configMap("web", "{}"))
	home := shortDir(t)
	rules := k.text(source("configmaps", configMaps) + toldBy("log", "builtin: log") + ruleFor("rule", "source: configmaps, handler: log"))
	for range 2 {
		d := runInformdIn(t, []string{"XDG_STATE_HOME=" + home}, cluster.Shared(t).Kubeconfig(), rules, "--state-dir", "none")
		d.awaitReady()
		k.saw(d, "rule NS/web synced")
	}
	if files := inFolder(t, home); len(files) > 0 {
		t.Errorf("it has written %q", files)
	}
}

// durability is what the daemon says of its state: in /readyz, which it does not make unready, and as a metric.
func (d *daemon) durability() (says string, durable bool) {
	d.t.Helper()
	code, body := d.get("/readyz")
	if code != http.StatusOK {
		return "", false
	}
	for line := range strings.Lines(body) {
		if _, text, found := strings.Cut(line, "state: "); found {
			says = strings.TrimSpace(text)
		}
	}
	return says, d.metric("informd_state_durable") == "1"
}

// awaitDurability waits until it says that it is durable, or that it is not.
func (d *daemon) awaitDurability(want bool) {
	d.t.Helper()
	d.poll(fmt.Sprintf("durable to be %v", want), func() bool {
		says, durable := d.durability()
		return durable == want && strings.HasPrefix(says, "NOT durable") == !want && says != ""
	})
}
