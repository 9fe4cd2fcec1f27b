package source

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/engine/object"
)

// barrier travels the way of a change, through client-go's queue and buffers to the handler, as the deletion of an object that
// no store has. When it comes out, all that went in before it has been evaluated: the only way to know, for client-go does
// not tell when it has handed on a list, and its own bookmarks do not get as far as the handler.
type barrier struct {
	// version is the server's where the barrier went in: what a list or a bookmark said.
	version string
	// caughtUp says that the informer is then as fresh as the server was when it began.
	caughtUp bool
}

// pass sends a barrier after what was sent.
func (w *watching) pass(ctx context.Context, b *barrier) bool {
	e := &entry{
		Object:  object.FromIdentity("", "", "", b.version), // no object has an empty name
		arrival: &arrival{barrier: b},
	}
	number, err := w.wire.gate.enter(ctx)
	if err != nil {
		return false
	}
	e.arrival.number = number
	if !w.send(ctx, watch.Event{Type: watch.Deleted, Object: e}) {
		w.wire.gate.withdraw(number)
		return false
	}
	return true
}

// passed is called when a barrier has come out.
func (g *generation) passed(b *barrier) {
	g.informer.passed(b)
	if b.caughtUp {
		g.catchUp()
	}
}
