package source

import "sync/atomic"

// maxStrikes is how many watches in a row may break before the source is failing.
const maxStrikes = 3

// watchHistory is what an informer remembers of its watches, over all generations. It needs no
// lock: pace has its own.
type watchHistory struct {
	health *health
	pace   pace
	// strikes counts the watches in a row that have broken: with an ERROR event, history that is
	// gone (410), a text that is no event, or an event that is too large. Each makes the informer
	// list, or watch, again, and all of that succeeds; so only their number tells that it never
	// gets anywhere. A watch that has lasted for a minute, or as long as the informer has asked
	// for, ends the row.
	strikes atomic.Int32
	// isEndless says that the server does not end the initial events of watches: see errEndless.
	isEndless atomic.Bool
}

// broke notes that a watch has broken.
func (w *watchHistory) broke(reason string) {
	if w.strikes.Add(1) >= maxStrikes {
		w.health.doubt(brokenWatch, "watches break again and again, and informd lists instead: "+reason)
	}
}

// held notes that a watch has lasted.
func (w *watchHistory) held() {
	w.strikes.Store(0)
	w.health.dispel(brokenWatch)
}
