package session

import (
	"cmp"
	"slices"

	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host/outbox"
)

// How many slow events a handler may have in addition to its others, unless it described a bound.
const (
	// slowEvents is that number for each event of its concurrency, and maxSlowEvents in all.
	slowEvents    = 16
	maxSlowEvents = 1024
	// slowBytes bounds their JSON.
	slowBytes = 16 << 20
)

// Window returns what may be with the handler at once, where the operator allows concurrency, or
// did not say (0). What the handler described bounds everything, slow events included. An operator
// who allows one event at once means just that.
func (d Description) Window(concurrency int) outbox.Window {
	if concurrency == 0 {
		concurrency = d.defaultConcurrency()
	}
	w := outbox.Window{
		Events:   concurrency,
		Bytes:    cmp.Or(d.WindowBytes, handlerpb.DefaultWindowBytes),
		MaxBytes: cmp.Or(d.WindowBytes, handlerpb.DefaultWindowBytes+slowBytes),
	}
	if d.Concurrency > 0 {
		w.Events = min(concurrency, d.Concurrency)
	}
	w.MaxEvents = w.Events + min(slowEvents*w.Events, maxSlowEvents)
	if d.Concurrency > 0 {
		w.MaxEvents = min(w.MaxEvents, d.Concurrency)
	}
	if concurrency == 1 {
		w.MaxEvents = 1
	}
	w.Abandoned = max(16, 2*w.Events)
	return w
}

// last returns the attempt from which on events go alone, or 0. A handler that takes batches may fail
// with all events of a message because of one of them. If that happens again and again, the others
// must not die with it. Where the first attempt is the last, all events would go alone.
func (d Description) last(attempts int) int {
	if attempts > 1 && d.TakesBatches() {
		return attempts
	}
	return 0
}

// TakesBatches reports whether the handler does with one call what a message brings.
func (d Description) TakesBatches() bool {
	return slices.Contains(d.Capabilities, handlerpb.CapabilityBatches)
}

// defaultConcurrency is larger for a handler that takes batches: all events of one message then cost
// it little more than one.
func (d Description) defaultConcurrency() int {
	if d.TakesBatches() {
		return handlerpb.DefaultBatchConcurrency
	}
	return handlerpb.DefaultConcurrency
}
