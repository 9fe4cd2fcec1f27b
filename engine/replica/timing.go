// This file owns how long things may take and how much the log may hold.

package replica

import "time"

// timing holds the durations and sizes that tests change. A zero field means the default.
type timing struct {
	heartbeat time.Duration // without a word from the leader, a follower asks for votes after this
	lease     time.Duration // see LeaseTimeout
	commit    time.Duration // after this, an idle leader tells followers what is committed
	hang      time.Duration // a write that takes longer makes the member silent
	rpc       time.Duration // bounds a request of raft
	handshake time.Duration // bounds what comes before the first request on a connection
	ask       time.Duration // bounds a request for a report
	look      time.Duration // between two looks at the others while something is to be done
	rest      time.Duration // between two looks at the others otherwise
	stall     time.Duration // a snapshot of which nothing comes for this long is given up
	grace     time.Duration // bounds Close while the disk hangs

	logBytes   int64  // of entries, before the member takes a snapshot
	logEntries uint64 // at least so many
	segment    int    // size of a file of the log
}

// withDefaults returns t with the defaults in the place of zeros.
func (t timing) withDefaults() timing {
	for field, value := range map[*time.Duration]time.Duration{
		&t.heartbeat: time.Second,
		&t.lease:     LeaseTimeout,
		&t.commit:    500 * time.Millisecond,
		&t.hang:      time.Second,
		&t.rpc:       10 * time.Second,
		&t.handshake: 5 * time.Second,
		&t.ask:       time.Second,
		&t.look:      500 * time.Millisecond,
		&t.rest:      10 * time.Second,
		&t.stall:     10 * time.Second,
		&t.grace:     10 * time.Second,
	} {
		if *field == 0 {
			*field = value
		}
	}
	if t.logBytes == 0 {
		t.logBytes = 64 << 20
	}
	if t.logEntries == 0 {
		t.logEntries = 256
	}
	if t.segment == 0 {
		t.segment = 16 << 20
	}
	return t
}
