package peer

import "time"

// Refused remembers which processes were refused lately: to find out again whose process it is takes
// ten times as long as to accept its connection. So one that connects without end cannot keep others
// out. The zero Refused is ready. It is not safe for concurrent use.
type Refused struct{ since map[int]time.Time }

const (
	// refusedFor is how long a refusal holds. Another process cannot have the number that soon.
	refusedFor = time.Second
	maxRefused = 256 // processes; of more, all are forgotten, and looked at again
)

// Has reports whether a process was refused within the last second.
func (r *Refused) Has(pid int, now time.Time) bool {
	since, ok := r.since[pid]
	return ok && now.Sub(since) < refusedFor
}

// Add remembers that a process was refused.
func (r *Refused) Add(pid int, now time.Time) {
	if r.since == nil || len(r.since) >= maxRefused {
		r.since = make(map[int]time.Time)
	}
	r.since[pid] = now
}
