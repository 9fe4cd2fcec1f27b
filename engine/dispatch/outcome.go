package dispatch

import (
	"time"

	"github.com/informd/informd/engine/delivery"
)

// outcome is what becomes of a delivery after an attempt. The dispatcher decides it before it opens
// the journal, applies it in one step, and then reports it.
type outcome struct {
	verdict
	delivery delivery.Delivery // what goes back to the lane, if the attempt is repeated
	letter   *delivery.Letter  // nil unless the event is dead
	at       time.Time         // when the attempt ended

	// why the letter was not kept; the dispatcher then repeats the event rather than lose it
	unkept  error
	evicted []delivery.Letter // letters that were dropped to make room
}
