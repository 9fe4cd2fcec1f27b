package source

import "sync/atomic"

// maxStrikes is how many watches in a row may break before the source is failing.
const maxStrikes = 3

// strikes counts the watches in a row that have broken: with an ERROR event, history that is gone
// (410), a text that is no event, or an event that is too large. Each makes the informer list, or
// watch, again, and all of that succeeds; so only their number tells that it never gets anywhere. A
// watch that has lasted for a minute, or as long as the informer has asked for, ends the row.
type strikes struct{ row atomic.Int32 }

// broke notes that a watch has broken.
func (i *Informer) broke(reason string) {
	if i.strikes.row.Add(1) >= maxStrikes {
		i.health.doubt(brokenWatch, "watches break again and again, and informd lists instead: "+reason)
	}
}

// held notes that a watch has lasted.
func (i *Informer) held() {
	i.strikes.row.Store(0)
	i.health.dispel(brokenWatch)
}
