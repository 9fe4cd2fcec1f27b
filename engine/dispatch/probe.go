package dispatch

// probes chooses the deliveries that go to a handler while others seem to hang and take its places:
// see Recipient.Limit. The handler goes on as soon as it answers one of them. Objects that hang
// often come together, so the next in turn is a bad choice. The best choice is an object that
// became ready since the last probe. Without one, a probe takes any object that waits. Only a few
// probes do so: as long as nothing is answered, all of them may hang, and a new object would find
// no place.
//
// Dispatcher.mu guards probes.
type probes struct {
	fresh   *Lane // where something became ready since the last probe; nil: nowhere
	unheard int   // probes since a delivery ended, with objects that had waited
}

// maxUnheard bounds probes.unheard.
const maxUnheard = 4

// probe takes a job for a probe. d.mu is held.
func (d *Dispatcher) probe() (j job, ok bool) {
	if lane := d.probes.fresh; lane != nil {
		d.probes.fresh = nil
		if !lane.stands() {
			if item, ok := lane.queue.TakeNewest(); ok {
				return job{lane, item}, true
			}
		}
	}
	if d.probes.unheard >= maxUnheard {
		return job{}, false
	}
	d.probes.unheard++
	return d.takeInTurn((*deliveries).TakeAny)
}
