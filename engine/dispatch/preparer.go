package dispatch

import (
	"context"

	"github.com/informd/informd/engine/delivery"
)

// Preparer completes the deliveries of one rule. Its methods are called concurrently.
type Preparer interface {
	// Prepare returns what an attempt delivers, made from the caches as they are now. The
	// dispatcher calls it just before the attempt. It may take its time, and ends early when ctx
	// ends.
	//
	// The dispatcher treats an error like a handler's. If it wraps handler.ErrReject, the event
	// becomes a dead letter; otherwise the dispatcher repeats the delivery. If Prepared.Delta is
	// set besides an error, later attempts begin with what was prepared. The error's text quotes
	// nothing of objects.
	Prepare(ctx context.Context, d delivery.Draft) (delivery.Prepared, error)
	// IsConfidential reports whether answers and reasons of the rule may quote a Secret. They are
	// then neither recorded nor shown. The result may change from false to true, but not back.
	IsConfidential() bool
}
