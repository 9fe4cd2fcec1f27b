package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/plugins/handler"
)

// follower knows the objects of each rule as its events describe them.
type follower struct {
	mu    sync.Mutex
	known map[string]map[string]string // rule, object, payload
	told  int
}

func (f *follower) Ready(context.Context) error { return nil }

func (f *follower) Limit() (int, bool) { return 8, false }

func (f *follower) Grown() <-chan struct{} { return nil }

func (f *follower) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told++
	if f.known[ev.Rule] == nil {
		f.known[ev.Rule] = make(map[string]string)
	}
	if ev.Event == handler.Deleted {
		delete(f.known[ev.Rule], ev.Name)
		return handler.Answer{}, nil
	}
	var size string
	if err := json.Unmarshal(ev.Payload, &size); err != nil {
		return handler.Answer{}, handler.Reject(err)
	}
	f.known[ev.Rule][ev.Name] = size
	return handler.Answer{}, nil
}

func (f *follower) copy() (known map[string]map[string]string, told int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known = make(map[string]map[string]string)
	for rule, objects := range f.known {
		known[rule] = maps.Clone(objects)
	}
	return known, f.told
}

// A rule waits while anything happens: informd ends any number of times, and its watch breaks
// anywhere. In the end the rule has learned the outcome. So do three rules next to it: one that
// does not wait, one whose where selects some of the objects, and one whose where changes all the
// time.
func TestRandomChangesWhileARuleWaits(t *testing.T) {
	t.Parallel()
	for _, of := range []schema.GroupVersionResource{configMaps, secrets} {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(of.Resource, " seed ", seed), func(t *testing.T) {
				t.Parallel()
				happens(t, of, seed)
			})
		}
	}
}

func happens(t *testing.T, of schema.GroupVersionResource, seed uint64) {
	chance := rand.New(rand.NewPCG(seed, 6))
	l := newLooking(t)
	if seed%2 == 0 {
		l.catchUpTurn = 1 // rules catch up one object at a time
	}
	there := make(map[string]string)
	change := func() {
		name := string(rune('a' + chance.IntN(6)))
		if _, ok := there[name]; ok && chance.IntN(3) == 0 {
			l.server.Delete(of, "shop", name)
			delete(there, name)
			return
		}
		there[name] = fmt.Sprint(1 + chance.IntN(2))
		l.server.Apply(of, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"data":{"size":%q}}`, name, there[name]))
	}
	const looking = `len(lookup("nodes.byName", "1")) == 1 ? object.data.size : "none"`
	rules := strings.Replace(lookupSources, "v1/configmaps", "v1/"+of.Resource, 1) + aRule("waits", `, payload: '`+looking+`'`) + aRule("goes-on", `, payload: object.data.size`) +
		aRule("each", `, delivery: every, payload: '`+looking+`'`) +
		aRule("ones", `, where: object.data.size == "1", payload: '`+looking+`'`)
	inside := "" // the size inside the rule whose where changes all the time
	turned := func() string {
		inside = fmt.Sprint(1 + chance.IntN(2))
		where := fmt.Sprintf(`, where: object.data.size == %q, payload: `, inside)
		return rules + aRule("turns", where+"object.data.size") + aRule("turns-and-waits", where+"'"+looking+"'")
	}
	f := &follower{known: map[string]map[string]string{"waits": {}, "goes-on": {}, "each": {}, "ones": {}, "turns": {}, "turns-and-waits": {}}}
	for range 8 {
		broken := chance.IntN(2) == 0
		l.breakNodes(broken)
		for range chance.IntN(6) {
			change()
		}
		if chance.IntN(4) == 0 {
			l.server.Expire()
		}
		_, stop := l.startWith(turned(), f)
		for range chance.IntN(8) {
			change()
			// so that it comes at any moment of a start
			time.Sleep(time.Duration(chance.IntN(20)) * time.Millisecond)
		}
		if broken && chance.IntN(2) == 0 {
			l.breakNodes(false)
		}
		time.Sleep(time.Duration(chance.IntN(50)) * time.Millisecond)
		stop()
	}
	l.breakNodes(false)
	sized := func(size string) map[string]string {
		all := maps.Clone(there)
		maps.DeleteFunc(all, func(_, is string) bool { return is != size })
		return all
	}
	rules = turned()
	want := map[string]map[string]string{
		"waits": there, "goes-on": there, "each": there, "ones": sized("1"), "turns": sized(inside), "turns-and-waits": sized(inside),
	}
	l.converges(rules, f, want)
}

// converges starts with the manifests until the rules know what they should, by rule and name, and
// then once more: that start must deliver nothing.
func (l *life) converges(manifests string, f *follower, want map[string]map[string]string) {
	l.t.Helper()
	settle := func() (delivered int) {
		l.t.Helper()
		e, stop := l.startWith(manifests, f)
		defer stop()
		quiet, before := 0, -1
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			known, delivered := f.copy()
			if delivered != before || catchesUp(e) || !reflect.DeepEqual(want, known) || !isQuiet(e.Status()) {
				quiet, before = 0, delivered
				l.server.Bookmark()
				// what a watch brings may be on its way to where it is counted
			} else if quiet++; quiet == 100 {
				return delivered
			}
			if time.Now().After(deadline) {
				l.t.Fatalf("%+v\n%s", e.Status(), cmp.Diff(want, known))
			}
		}
	}
	delivered := settle()
	if now := settle(); now != delivered {
		l.t.Errorf("%d more events, though nothing has happened", now-delivered)
	}
}

// isQuiet reports whether everything has been delivered.
func isQuiet(s admin.Status) bool {
	for _, source := range s.Sources {
		if !source.Ready || source.Pending > 0 {
			return false
		}
	}
	for _, r := range s.Rules {
		if r.Reason != "" || r.Queue.Waiting+r.Queue.Away+r.Queue.InFlight > 0 {
			return false
		}
	}
	return true
}
