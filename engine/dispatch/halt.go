package dispatch

import (
	"context"
	"errors"
	"fmt"
)

// ErrUnwritten is wrapped by the error of Actor.Perform if it has stopped because the Journal's
// Await has failed. The attempt does not count, and the Dispatcher delivers nothing more.
var ErrUnwritten = fmt.Errorf("%w: what was recorded is not written", ErrStopped)

// ErrNotLeading is wrapped by the error of Actor.Do and Actor.Perform if they have performed
// nothing, because this informd may not lead any more. The attempt does not count, and the
// Dispatcher delivers nothing more.
var ErrNotLeading = fmt.Errorf("%w: this informd may not lead any more", ErrStopped)

// await waits for the records of a cut, until ctx ends, and reports whether the event may go on. If
// not, d delivers nothing more, and the caller puts the event back.
func (d *Dispatcher) await(ctx context.Context, cut uint64) (goesOn bool) {
	if d.isHalted.Load() {
		return false
	}
	err := d.opts.Journal.Await(ctx, cut)
	if err != nil && ctx.Err() == nil { // the end of Run is no trouble
		d.halt(ctx, err)
	}
	return err == nil && !d.isHalted.Load()
}

// halt makes d take nothing more, and keeps attempts in flight from performing more actions. The
// next run, or another process, continues from what is written.
func (d *Dispatcher) halt(ctx context.Context, err error) {
	if d.isHalted.Swap(true) || ctx.Err() != nil {
		return // the end of Run is no trouble
	}
	text := "deliveries stop until the next start, because their records are not written"
	if errors.Is(err, ErrNotLeading) {
		text = "deliveries stop, because this informd may not lead any more"
	}
	d.log.Error(text, "error", bounded(err.Error(), maxLogged))
}
