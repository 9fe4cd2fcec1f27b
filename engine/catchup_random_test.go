package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/plugins/handler"
)

// mortal is a follower of one process. An event that it gets after that was killed does not count.
type mortal struct {
	*follower
	isDead bool          // guarded by mu
	copied chan struct{} // closed when the next process has the state
}

func (m *mortal) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	m.mu.Lock()
	isDead := m.isDead
	m.mu.Unlock()
	if isDead {
		<-m.copied
		return handler.Answer{}, errors.New("killed")
	}
	return m.follower.Handle(ctx, ev)
}

// kill ends a daemon so that the next one finds what was on the disk at this moment.
func (l *life) kill(m *mortal, stop func()) {
	l.t.Helper()
	m.mu.Lock()
	m.isDead = true
	m.mu.Unlock()
	killed := filepath.Join(l.t.TempDir(), "killed")
	copied := fs.ErrNotExist // a file of a store that runs may go meanwhile
	for errors.Is(copied, fs.ErrNotExist) {
		copied = errors.Join(os.RemoveAll(killed), os.CopyFS(killed, os.DirFS(l.dir)))
	}
	if copied != nil {
		l.t.Fatal(copied)
	}
	close(m.copied)
	stop()
	l.dir = killed
}

// Rules change their where, and their source its namespaces, over restarts and reloads. Each object
// has a turn of its own, and informd is killed anywhere between the turns. In the end the rules
// know what is there, and they learn nothing at a further start.
func TestRandomTurnsAndKills(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			turnsAndKills(t, seed)
		})
	}
}

func turnsAndKills(t *testing.T, seed uint64) {
	chance := rand.New(rand.NewPCG(seed, 7))
	l := newLife(t)
	l.catchUpTurn = 1 // one object at a time
	namespaces := []string{"shop", "pay", "bar"}
	there := make(map[string]string) // sizes by name
	change := func() {
		namespace := namespaces[chance.IntN(len(namespaces))]
		name := fmt.Sprintf("%s-%d", namespace, chance.IntN(12))
		if _, ok := there[name]; ok && chance.IntN(3) == 0 {
			l.server.Delete(configMaps, namespace, name)
			delete(there, name)
			return
		}
		there[name] = fmt.Sprint(1 + chance.IntN(2))
		l.server.Apply(configMaps, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"data":{"size":%q}}`, namespace, name, there[name]))
	}
	for range 40 {
		change()
	}
	watched, size := namespaces, "1"
	manifests := func() string {
		if chance.IntN(4) > 0 {
			watched = slices.Clone(namespaces)
			chance.Shuffle(len(watched), func(i, j int) { watched[i], watched[j] = watched[j], watched[i] })
			watched = watched[:1+chance.IntN(len(watched))]
		}
		if chance.IntN(2) == 0 {
			size = fmt.Sprint(1 + chance.IntN(2))
		}
		source := strings.Replace(mapSource, "configmaps}", "configmaps, namespaces: ["+strings.Join(watched, ", ")+"]}", 1)
		return source + aRule("all", ", payload: object.data.size") +
			aRule("every", ", delivery: every, payload: object.data.size") +
			aRule("turns", fmt.Sprintf(", payload: object.data.size, where: object.data.size == %q", size))
	}
	hurried, end := context.WithCancel(t.Context())
	end()
	f := &follower{known: map[string]map[string]string{"all": {}, "every": {}, "turns": {}}}
	for range 10 {
		for range chance.IntN(4) {
			change()
		}
		if chance.IntN(4) == 0 {
			l.server.Expire()
		}
		m := &mortal{follower: f, copied: make(chan struct{})}
		e, stop := l.startWith(manifests(), m)
		begins := func() {
			for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); time.Sleep(50 * time.Microsecond) {
				if e.phase.Loaded.Load() && catchesUp(e) {
					break
				}
				if chance.IntN(40) == 0 {
					l.server.Bookmark()
				}
			}
			time.Sleep(time.Duration(chance.IntN(3000)) * time.Microsecond)
		}
		begins()
		for range chance.IntN(5) {
			change()
		}
		if isWhole := func() bool { // every rule knows everything
			for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				l.server.Bookmark()
				isBehind := func(in *intake.Intake) bool { return in.AwaitCaughtUp(hurried) != nil || in.CatchesUp() }
				if e.phase.Loaded.Load() && !slices.ContainsFunc(e.work().Intakes, isBehind) {
					return true
				}
			}
			return false
		}; chance.IntN(2) == 0 && isWhole() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+chance.IntN(400))*time.Millisecond)
			if _, ended, err := e.Reload(ctx, planOf(t, manifests()), map[string]live.Handler{"record": m}); err == nil {
				ended()
				time.Sleep(time.Duration(chance.IntN(3000)) * time.Microsecond)
				change()
			}
			cancel()
		}
		l.kill(m, stop)
	}
	last := manifests()
	want := map[string]map[string]string{"all": {}, "every": {}, "turns": {}}
	for name, is := range there {
		namespace, _, _ := strings.Cut(name, "-")
		if !slices.Contains(watched, namespace) {
			continue
		}
		want["all"][name], want["every"][name] = is, is
		if is == size {
			want["turns"][name] = is
		}
	}
	l.converges(last, f, want)
}
