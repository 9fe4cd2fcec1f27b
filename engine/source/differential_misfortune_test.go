package source

import (
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// misfortune is a fault of the server or of its connections while changes are made.
type misfortune struct {
	name         string
	losesHistory bool
	strikes      func(d *differential, changes int)
	lists        bool // informd lists again, although it loses no history
}

var (
	calm = misfortune{name: "nothing happened", strikes: (*differential).changes}

	dropped = misfortune{name: "watches ended", strikes: func(d *differential, n int) {
		first := d.random.IntN(n + 1)
		d.changes(first)
		d.server.DropWatches()
		d.changes(n - first)
	}}

	broken = misfortune{name: "connections broke", strikes: func(d *differential, n int) {
		for _, s := range d.sides() {
			s.wire.breakAfter(d.random.IntN(500 * n))
		}
		d.changes(n)
	}}

	brownOut = misfortune{name: "the server refused everything for a while", strikes: func(d *differential, n int) {
		d.server.Fail(unavailable)
		d.server.DropWatches()
		d.changes(n)
		d.server.Fail(nil)
	}}

	expire = misfortune{name: "history was lost under open watches", losesHistory: true, strikes: func(d *differential, n int) {
		first := d.random.IntN(n + 1)
		d.changes(first)
		d.server.Expire()
		d.toggleWatchList()
		d.changes(n - first)
	}}

	outage = misfortune{name: "history was lost while the server refused everything", losesHistory: true, strikes: func(d *differential, n int) {
		d.server.Fail(unavailable)
		d.server.DropWatches()
		d.changes(n)
		d.server.Expire()
		d.toggleWatchList()
		d.server.Fail(nil)
	}}

	refuse = misfortune{name: "history was lost, and each side's next initial state was refused", losesHistory: true, strikes: func(d *differential, n int) {
		var mu sync.Mutex
		refused := map[string]bool{}
		d.server.Fail(func(r *http.Request) *metav1.Status {
			mu.Lock()
			defer mu.Unlock()
			q := r.URL.Query()
			if q.Has("watch") && !q.Has("sendInitialEvents") || refused[r.UserAgent()] {
				return nil
			}
			refused[r.UserAgent()] = true
			return unavailable(r)
		})
		d.changes(n)
		d.server.Expire()
		d.changes(n)
	}}

	withdraw = misfortune{name: "the resource was not served for a while", losesHistory: true, strikes: func(d *differential, n int) {
		d.changes(n)
		d.server.Withdraw(gadgets)
		d.truth.withdrawn()
		clear(d.objects)
		await(d.t, "informd without objects", func() bool { return len(d.ours.list("", labels.Everything())) == 0 })
		d.server.Serve(gadgets, "Gadget", true)
		d.changes(n)
	}}
)

// widened has the informer list again while another misfortune strikes, as Widen does.
func widened(other misfortune) misfortune {
	return misfortune{name: "informd lists to keep more, and " + other.name, lists: true, strikes: func(d *differential, n int) {
		var calling sync.WaitGroup
		calling.Go(func() {
			for range 3 {
				d.ours.widen()
			}
		})
		other.strikes(d, n)
		calling.Wait()
	}}
}

func (d *differential) toggleWatchList() {
	d.watchList = !d.watchList
	d.server.SetWatchList(d.watchList)
}

func unavailable(*http.Request) *metav1.Status {
	return &apierrors.NewServiceUnavailable("differential").ErrStatus
}
