package dispatch

import "slices"

// suspects are deliveries during which the handler was lost. Any delivery in flight at a crash may
// have caused it. So suspects go one at a time, next to deliveries that are not suspect, until each
// has been answered. The next crash then counts against only one of them, which comes back after
// the others: see Retry.judge. Innocent ones are cleared before they have been in flight at three
// crashes. Suspects that the handler hangs with go last, so that they do not hold up the others.
//
// Dispatcher.mu guards suspects.
type suspects struct {
	out bool // a suspect is in flight
	// held were taken from their lanes, and wait for the suspect in flight to land. There are at
	// most as many as the objects that were in flight at a crash and have not been answered since.
	held []job
}

func (j job) isSuspect() bool { return j.item.Value.Losses > 0 }

// next takes the suspect that goes next, if one may go now.
func (s *suspects) next() (j job, ok bool) {
	i := s.first()
	if i < 0 {
		return job{}, false
	}
	j = s.held[i]
	s.held = slices.Delete(s.held, i, i+1)
	s.out = true
	return j, true
}

// first returns the index of the suspect that goes next, or -1 if none may go now: of those that
// failed least often, the one that was held longest.
func (s *suspects) first() int {
	first := -1
	for i, j := range s.held {
		if s.out || j.lane.isStopped() {
			continue
		}
		if first < 0 || j.item.Value.Failures < s.held[first].item.Value.Failures {
			first = i
		}
	}
	return first
}

// pass reports whether j, just taken, may go now. If not, pass holds it.
func (s *suspects) pass(j job) bool {
	if j.isSuspect() && s.out {
		s.held = append(s.held, j)
		return false
	}
	s.out = s.out || j.isSuspect()
	return true
}

// landed notes that a job has ended.
func (s *suspects) landed(j job) {
	if j.isSuspect() {
		s.out = false
	}
}

// canGo reports whether a held suspect may go now.
func (s *suspects) canGo() bool { return s.first() >= 0 }

// giveUp returns the held suspects of a lane, and no longer holds them.
func (s *suspects) giveUp(lane *Lane) (held []job) {
	for _, j := range s.held {
		if j.lane == lane {
			held = append(held, j)
		}
	}
	s.forget(lane)
	return held
}

// forget drops the held suspects of a lane.
func (s *suspects) forget(lane *Lane) {
	s.held = slices.DeleteFunc(s.held, func(j job) bool { return j.lane == lane })
}
