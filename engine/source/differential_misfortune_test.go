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
}

var (
	calm = misfortune{"nothing happened", false, (*differential).changes}

	dropped = misfortune{"watches ended", false, func(d *differential, n int) {
		first := d.random.IntN(n + 1)
		d.changes(first)
		d.server.DropWatches()
		d.changes(n - first)
	}}

	broken = misfortune{"connections broke", false, func(d *differential, n int) {
		for _, s := range d.sides() {
			s.wire.breakAfter(d.random.IntN(500 * n))
		}
		d.changes(n)
	}}

	brownOut = misfortune{"the server refused everything for a while", false, func(d *differential, n int) {
		d.server.Fail(unavailable)
		d.server.DropWatches()
		d.changes(n)
		d.server.Fail(nil)
	}}

	expire = misfortune{"history was lost under open watches", true, func(d *differential, n int) {
		first := d.random.IntN(n + 1)
		d.changes(first)
		d.server.Expire()
		d.toggleWatchList()
		d.changes(n - first)
	}}

	outage = misfortune{"history was lost while the server refused everything", true, func(d *differential, n int) {
		d.server.Fail(unavailable)
		d.server.DropWatches()
		d.changes(n)
		d.server.Expire()
		d.toggleWatchList()
		d.server.Fail(nil)
	}}

	refuse = misfortune{"history was lost, and each side's next initial state was refused", true, func(d *differential, n int) {
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

	withdraw = misfortune{"the resource was not served for a while", true, func(d *differential, n int) {
		d.changes(n)
		d.server.Withdraw(gadgets)
		d.truth.withdrawn()
		clear(d.objects)
		await(d.t, "informd without objects", func() bool { return len(d.ours.list("", labels.Everything())) == 0 })
		d.server.Serve(gadgets, "Gadget", true)
		d.changes(n)
	}}
)

func (d *differential) toggleWatchList() {
	d.watchList = !d.watchList
	d.server.SetWatchList(d.watchList)
}

func unavailable(*http.Request) *metav1.Status {
	return &apierrors.NewServiceUnavailable("differential").ErrStatus
}
