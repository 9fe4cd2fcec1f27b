package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/integration/bench/fleet"
	"github.com/informd/informd/plugins/handler"
)

// stopwatch is a handler that measures how long changes take to it.
type stopwatch struct {
	teller
	mu       sync.Mutex
	sent     map[string]time.Time // by resourceVersion
	took     []time.Duration
	newcomer time.Time // when the rule "last" received its first event
	told     int       // how many events it received
}

func (h *stopwatch) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if ev.Rule == "last" && ev.Event == "synced" {
		if h.told++; h.told == 1 {
			h.newcomer = now
		}
		return handler.Answer{}, nil
	}
	if at, ok := h.sent[ev.ID[strings.LastIndexByte(ev.ID, '/')+1:]]; ok && ev.Rule == "all" {
		h.took = append(h.took, now.Sub(at))
	}
	return handler.Answer{}, nil
}

// p99 returns the 99th percentile since it was last called, and the most.
func (h *stopwatch) p99() (p99, most time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.took)
	if len(h.took) > 0 {
		p99, most = h.took[len(h.took)*99/100], h.took[len(h.took)-1]
	}
	h.took = nil
	return p99, most
}

// change waits until the sources are ready, and then changes 200 objects a second until end.
func (l *life) change(e *Engine, h *stopwatch) (end func()) {
	for slices.ContainsFunc(e.Status().Sources, func(s admin.SourceStatus) bool { return !s.Ready }) {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			h.mu.Lock()
			h.sent[strconv.FormatInt(l.server.Update(configMaps, 1), 10)] = time.Now()
			h.mu.Unlock()
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// BenchmarkReload reloads a plan of a hundred rules about 100,000 objects, of which one rule has
// changed, while 200 objects change a second. p99-alone and p99-reload are from the server's
// sending to the handler of another rule, in the two seconds before the reload and from its
// beginning on; ms-first is until the first event of the changed rule, ms-told until the event of
// the last object that it has inside: the objects of one application.
func BenchmarkReload(b *testing.B) {
	const objects = 100_000
	l := newLife(b)
	l.server.Synthesize(configMaps, "ConfigMap", true, fleet.NewConfigMaps(objects))
	manifests := func(last string) string {
		text := mapSource + aRule("all", ", events: [updated], payload: 1")
		for n := range 98 {
			text += aRule(fmt.Sprint("r", n), fmt.Sprintf(`, where: object.metadata.labels.app == "none-%d", payload: 1`, n))
		}
		return text + aRule("last", `, payload: 1, where: object.metadata.labels.app == "`+last+`"`)
	}
	h := &stopwatch{sent: make(map[string]time.Time)}
	e, stop := l.startWith(manifests("none"), h)
	defer stop()
	defer l.change(e, h)()
	var alone, during, most, first, told, reload time.Duration
	n := 0
	for b.Loop() {
		n++
		h.p99()
		time.Sleep(2 * time.Second)
		p99, _ := h.p99()
		alone += p99
		h.mu.Lock()
		h.told = 0
		h.mu.Unlock()
		began := time.Now()
		if _, err := l.reload(e, manifests(fleet.AppAt(n%fleet.Apps).Name), h); err != nil {
			b.Fatal(err)
		}
		reload += time.Since(began)
		l.quiet(e)
		told += time.Since(began)
		h.mu.Lock()
		first += h.newcomer.Sub(began)
		if h.told < objects/fleet.Apps {
			b.Errorf("the rule was told of %d objects", h.told)
		}
		h.mu.Unlock()
		p99, high := h.p99()
		during, most = during+p99, most+high
	}
	for name, d := range map[string]time.Duration{
		"ms-p99-alone": alone, "ms-p99-reload": during, "ms-most-reload": most,
		"ms-first": first, "ms-told": told, "ms-reload": reload,
	} {
		b.ReportMetric(float64(d.Microseconds())/1000/float64(n), name)
	}
}

// BenchmarkReloadToAnotherSelection moves a rule between two selections of 100,000 objects, of
// which another rule keeps watching the first, while 200 objects change a second. So the rule leaves
// an informer that stays, and comes back. The rule has one application inside, or everything.
// ms-most-alone and ms-most-reload are the longest from the server's sending to the handler of the
// other rule.
func BenchmarkReloadToAnotherSelection(b *testing.B) {
	for name, where := range map[string]string{
		"some": `, where: object.metadata.labels.app == "` + fleet.AppAt(1).Name + `"`, "all": "",
	} {
		b.Run(name, func(b *testing.B) {
			const objects = 100_000
			l := newLife(b)
			l.server.Synthesize(configMaps, "ConfigMap", true, fleet.NewConfigMaps(objects))
			of := strings.NewReplacer("name: maps", "name: few", "spec: {r", "spec: {namespaces: ["+fleet.Namespace(1)+"], r").Replace("---\n" + strings.TrimPrefix(mapSource, oneHandler))
			manifests := func(source string) string {
				last := aRule("last", ", events: [deleted], payload: 1"+where)
				return mapSource + of + aRule("all", ", events: [updated], payload: 1") +
					strings.Replace(aRule("few", ", events: [deleted], payload: 1"), "source: maps", "source: few", 1) +
					strings.Replace(last, "source: maps", "source: "+source, 1)
			}
			h := &stopwatch{sent: make(map[string]time.Time)}
			e, stop := l.startWith(manifests("maps"), h)
			defer stop()
			defer l.change(e, h)()
			var alone, during, reload time.Duration
			n := 0
			for b.Loop() {
				n++
				h.p99()
				time.Sleep(2 * time.Second)
				_, most := h.p99()
				alone += most
				began := time.Now()
				if _, err := l.reload(e, manifests("few"), h); err != nil {
					b.Fatal(err)
				}
				reload += time.Since(began)
				l.quiet(e)
				_, most = h.p99()
				during += most
				if _, err := l.reload(e, manifests("maps"), h); err != nil {
					b.Fatal(err)
				}
				l.quiet(e)
			}
			for name, d := range map[string]time.Duration{
				"ms-most-alone": alone, "ms-most-reload": during, "ms-reload": reload,
			} {
				b.ReportMetric(float64(d.Microseconds())/1000/float64(n), name)
			}
		})
	}
}
