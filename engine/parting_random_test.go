package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rules go from one selection to another and back, over restarts and reloads, while informers come, go
// and may list nothing. Objects come, go and get other labels, and informd is killed at any moment. In
// the end the rules know what is there.
func TestRandomSelectionsAndKills(t *testing.T) {
	t.Parallel()
	for _, of := range []schema.GroupVersionResource{configMaps, secrets} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(of.Resource, " seed ", seed), func(t *testing.T) {
				t.Parallel()
				selectionsAndKills(t, of, seed)
			})
		}
	}
}

func selectionsAndKills(t *testing.T, of schema.GroupVersionResource, seed uint64) {
	chance := rand.New(rand.NewPCG(seed, 11))
	l := newLife(t)
	if seed%2 == 0 {
		l.catchUpTurn = 1 // one object at a time
	}
	type is struct{ tier, size string }
	there := make(map[string]is)
	tiers := []string{"a", "b"}
	change := func() {
		name := string(rune('a' + chance.IntN(8)))
		if _, ok := there[name]; ok && chance.IntN(3) == 0 {
			l.server.Delete(of, "shop", name)
			delete(there, name)
			return
		}
		o := is{tiers[chance.IntN(2)], fmt.Sprint(1 + chance.IntN(2))}
		there[name] = o
		l.server.Apply(of, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"labels":{"tier":%q}},"data":{"size":%q}}`, name, o.tier, o.size))
	}
	for range 8 {
		change()
	}
	rules := map[string]string{"plain": "", "each": ", delivery: every", "ones": `, where: object.data.size == "1"`}
	selected := map[string]string{"plain": "", "each": "", "ones": ""}
	manifests := func() string {
		text := oneHandler
		for n, name := range []string{"plain", "each", "ones"} {
			if chance.IntN(2) == 0 {
				selected[name] = []string{"", "a", "b"}[chance.IntN(3)]
			}
			selection := "v1/" + of.Resource
			if tier := selected[name]; tier != "" {
				selection += ", labelSelector: tier=" + tier
			}
			source := sourceAndRule(name, selection, rules[name]+", payload: object.data.size")
			if n == 0 {
				source = strings.TrimPrefix(source, "---")
			}
			if chance.IntN(3) == 0 { // a source of another name has the same informers
				source = strings.Replace(source, "kind: Source\nmetadata: {name: ", "kind: Source\nmetadata: {name: x-", 1)
				source = strings.Replace(source, "{source: ", "{source: x-", 1)
			}
			text += source
		}
		return text
	}
	refuse := func() {
		var denied []string // selections
		for _, selection := range []string{"", "a", "b"} {
			if chance.IntN(3) == 0 {
				denied = append(denied, selection)
			}
		}
		l.server.Fail(func(r *http.Request) *metav1.Status {
			if !strings.Contains(r.URL.Path, of.Resource) {
				return nil
			}
			_, tier, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
			if slices.Contains(denied, tier) {
				return forbid("")(r)
			}
			return nil
		})
	}
	f := &follower{known: map[string]map[string]string{"plain": {}, "each": {}, "ones": {}}}
	for range 6 {
		m := &mortal{follower: f, copied: make(chan struct{})}
		refuse()
		e, stop := l.startWith(manifests(), m)
		for range chance.IntN(5) {
			for !e.phase.Loaded.Load() {
				time.Sleep(time.Millisecond)
			}
			for range chance.IntN(4) {
				change()
			}
			time.Sleep(time.Duration(chance.IntN(30)) * time.Millisecond)
			l.server.Bookmark()
			refuse()
			if chance.IntN(5) == 0 {
				l.server.Expire()
			}
			before := make(map[string]string)
			for name, is := range selected {
				before[name] = is
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+chance.IntN(100))*time.Millisecond)
			_, ended, err := e.Reload(ctx, planOf(t, manifests()), map[string]Handler{"record": m})
			cancel()
			if err != nil {
				selected = before
				continue
			}
			ended()
		}
		time.Sleep(time.Duration(chance.IntN(3000)) * time.Microsecond)
		l.kill(m, stop)
	}
	l.server.Fail(nil)
	last := manifests()
	want := map[string]map[string]string{"plain": {}, "each": {}, "ones": {}}
	for name, o := range there {
		for rule, tier := range selected {
			if (tier == "" || tier == o.tier) && (rule != "ones" || o.size == "1") {
				want[rule][name] = o.size
			}
		}
	}
	l.converges(last, f, want)
}
