package count

import "time"

// Have returns how many events of a value count within the time that ends now.
func (w *Windows) Have(of Value, now time.Time) (n int) {
	e := w.all[of]
	if e == nil {
		return 0
	}
	for _, s := range e.Value.(*window).stamps {
		if s.state == counting && s.at >= now.UnixMilli()-w.within {
			n++
		}
	}
	return n
}
