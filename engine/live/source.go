package live

import (
	"context"
	"sync/atomic"

	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/plugins/handler"
)

// Source is a source of the plan at work.
type Source struct {
	*plan.Source
	View     *source.Source // over its informers
	Failures []*Failures    // of its indexes; other sources may share them
}

// Dispatcher delivers to one handler, or performs the rules' own actions.
type Dispatcher struct {
	*dispatch.Dispatcher
	Name    string      // the handler's, or OwnActions
	Handler Handler     // nil: it performs the rules' own actions
	Digest  plan.Digest // of the handler's manifest
	// End ends Deliver, and returns when it has ended; nil before Deliver runs. Whoever starts
	// Deliver sets it.
	End func()

	// HasSecrets means that the handler may have seen text of a Secret, and ReadsSecrets that it
	// may have read it from a source. Neither becomes false again.
	HasSecrets, ReadsSecrets atomic.Bool
}

// Deliver delivers events until ctx ends.
func (d *Dispatcher) Deliver(ctx context.Context) { _ = d.Run(ctx) } // always nil

// OwnActions is the handler name that reports use for the actions a rule performs itself. No
// manifest can have it.
const OwnActions = "(actions)"

// OnlyMetrics is the handler name that reports use for a rule that has metrics and delivers
// nothing.
const OnlyMetrics = "(metrics)"

// Handler delivers the events of one Handler manifest.
type Handler interface {
	handler.Handler
	// Ready blocks until the handler can take an event, or ctx ends.
	Ready(ctx context.Context) error
	// Limit returns how many events the handler takes at once, at least 1. The number may change.
	// isProbe is what dispatch.Recipient says.
	Limit() (n int, isProbe bool)
	// Grown returns a channel that delivers a token when Limit has grown, other than by an answer.
	Grown() <-chan struct{}
}
