package dispatch

import "slices"

// suspects are deliveries with which the handler was lost. Any of those in flight at a crash may have caused it, so they
// go one at a time, with others that are not suspect beside them, until each has been answered: the next crash then
// counts against one of them only, and the innocent are cleared before they have been in flight at three.
type suspects struct {
	out bool // one is in flight
	// held are those that were taken and wait for that one to land. No more than the objects that were in flight at a
	// crash and have not been answered since.
	held []job
}

func (j job) suspect() bool { return j.item.Value.Losses > 0 }

// next is the one that was held the longest, if it may go now.
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

// first is the index of the one that was held the longest, if one may go now, or -1.
func (s *suspects) first() int {
	if s.out {
		return -1
	}
	return slices.IndexFunc(s.held, func(j job) bool { return !j.lane.stands() })
}

// pass tells whether j, just taken, may go now. If not it is held.
func (s *suspects) pass(j job) bool {
	if j.suspect() && s.out {
		s.held = append(s.held, j)
		return false
	}
	s.out = s.out || j.suspect()
	return true
}

// landed is told of each job that ended.
func (s *suspects) landed(j job) {
	if j.suspect() {
		s.out = false
	}
}

// wait tells whether there is one that may go now.
func (s *suspects) wait() bool { return s.first() >= 0 }

// forget drops what is held of a lane.
func (s *suspects) forget(lane *Lane) {
	s.held = slices.DeleteFunc(s.held, func(j job) bool { return j.lane == lane })
}
