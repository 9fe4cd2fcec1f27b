package running

import "sync/atomic"

// Phase says how far a run is.
type Phase struct {
	// Loaded says that the saved state has been loaded, or that nothing is kept. Until then,
	// letters and what waits are not known, and intakes are not at work.
	Loaded atomic.Bool
	// Stopping says that the run has begun to stop: nothing new is delivered.
	Stopping atomic.Bool
	// Ended says that operators' requests are refused. It is set before the state's last write
	// begins, and read within a cut. So that write has every request that was accepted.
	Ended atomic.Bool
}
