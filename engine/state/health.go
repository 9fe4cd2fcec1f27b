// The store's condition: what the disk does not do, and when that is logged.

package state

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/informd/informd/engine/state/risk"
)

// complainEvery is how often lasting trouble is logged.
const complainEvery = time.Minute

// health knows whether the store can write, and logs when that changes.
type health struct {
	logger   *slog.Logger
	dir      string
	isStrict bool // deliveries wait for the log: see Options

	mu        sync.Mutex // guards the fields below; a leaf
	trouble   string
	lasts     bool // until the next start
	since     time.Time
	logged    time.Time
	hasSynced bool         // a sync has succeeded since the trouble began
	started   [2]time.Time // when the current append or sync began; zero if none is going on
	taken     time.Time    // when the records of the last append were taken
	lastWrite time.Time
	size      int64
}

// is sets the store's condition: a description of the trouble, or "" for none. It logs after it has
// unlocked: isWell is called within a cut, which must not wait for the log.
func (h *health) is(trouble string, now time.Time) { h.become(trouble, false, now) }

// remains sets trouble that lasts until the next start. Whatever is said later changes nothing:
// whoever looks at the disk at the same time may find nothing wrong with it.
func (h *health) remains(trouble string, now time.Time) { h.become(trouble, true, now) }

func (h *health) become(trouble string, lasts bool, now time.Time) {
	was, since, mayLog := h.set(trouble, lasts, now)
	switch {
	case trouble == "" && was != "":
		h.logger.Info("the state is durable again",
			"dir", h.dir, "after", now.Sub(since).Round(time.Second))
	case trouble != "" && mayLog:
		deliveries := "deliveries continue"
		if h.isStrict {
			deliveries = "deliveries wait"
		}
		h.logger.Error("the state is NOT durable: "+
			"a crash would lose what is recorded meanwhile; "+deliveries,
			"dir", h.dir, "reason", trouble, "since", since)
	}
}

// set does what become does, except for the log. It returns the condition before, since when there
// is or was trouble, and whether trouble that goes on may be logged again.
func (h *health) set(trouble string, lasts bool, now time.Time) (was string, since time.Time, mayLog bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lasts && trouble != h.trouble {
		return "", time.Time{}, false
	}
	isFinal := lasts && !h.lasts // it is logged, whatever was logged just before
	was, h.trouble, h.lasts = h.trouble, trouble, lasts || h.lasts
	if trouble == "" {
		since = h.since
		h.since, h.logged = time.Time{}, time.Time{}
		return was, since, false
	}
	if was == "" {
		h.since, h.hasSynced = now, false
	}
	if mayLog = isFinal || now.Sub(h.logged) >= complainEvery; mayLog {
		h.logged = now
	}
	return was, h.since, mayLog
}

func (h *health) isWell() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trouble == ""
}

// isProven reports whether there is no trouble, or a sync has succeeded since it began.
func (h *health) isProven() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trouble == "" || h.hasSynced
}

func (h *health) describe(s *Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Trouble, s.TroubleSince, s.LastWrite, s.SizeBytes = h.trouble, h.since, h.lastWrite, h.size
}

// These are the operations whose time is watched.
const (
	appending = iota
	syncing
)

func (h *health) begin(operation int, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started[operation] = now
}

// appended ends the append that began. The log has everything that was recorded before taken.
func (h *health) appended(taken time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started[appending], h.taken = time.Time{}, taken
}

// sync begins a sync. It returns the time before which everything is on disk after it.
func (h *health) sync(now time.Time) (asOf time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started[syncing] = now
	return h.taken
}

// wrote ends the sync that began. asOf is what sync returned.
func (h *health) wrote(asOf time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started[syncing], h.lastWrite, h.hasSynced = time.Time{}, asOf, true
}

// slow returns how long the current append or sync has taken, or 0.
func (h *health) slow(now time.Time) (longest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, started := range h.started {
		if !started.IsZero() {
			longest = max(longest, now.Sub(started))
		}
	}
	return longest
}

func (h *health) measured(size int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.size = size
}

// examine determines the store's condition and reports it to health.
func (s *Store) examine(now time.Time) {
	d := s.db.Load()
	if d == nil {
		return // the goroutine that failed to open it has reported why
	}
	if err := d.fail.reported(); err != nil {
		s.breakDown(d, err)
		return
	}
	if d.readOnly != nil || s.broken.Load() {
		return // the goroutine that found it has reported why
	}
	switch trouble := s.diskTrouble(d, now); {
	case trouble != "":
		s.health.is(trouble, now)
	case s.unwrittenRecords() > 0 && !s.health.isProven():
		// whatever failed goes on, but nobody knows yet whether the disk keeps anything
	default:
		s.health.is("", now)
	}
}

// diskTrouble returns what the disk does not do, or "".
func (s *Store) diskTrouble(d *database, now time.Time) string {
	if failed := d.fs.Trouble(); failed != nil {
		return failed.Error()
	}
	if s.health.slow(now) > s.opts.limits.patience {
		return "a write to the disk hangs"
	}
	return ""
}

// stopWriting stops writing because a cut cannot be written, which says nothing about what is on
// disk: the next start goes on from that. A new log cannot be begun, because everything would have
// to be recorded again.
func (s *Store) stopWriting(err error) {
	s.broken.Store(true)
	defer s.end()
	if errors.Is(err, ErrDeposed) { // another process goes on, and says so
		_, _, _ = s.health.set(err.Error(), true, s.opts.Clock.Now())
		return
	}
	if s.opts.replica != nil {
		_ = s.opts.replica.fail(err) // whoever waits for Failed gets it
	}
	s.health.remains("informd writes nothing more: "+err.Error()+
		"; the next start goes on from what is on disk", s.opts.Clock.Now())
}

// breakDown stops using a store that is damaged although the daemon depends on it. A new store
// cannot take its place, because everything would have to be recorded again; the next start does
// that.
func (s *Store) breakDown(d *database, err error) {
	// Before the mark, because the disk may hang.
	s.health.remains(err.Error()+"; the next start sets it aside", s.opts.Clock.Now())
	if !s.broken.Swap(true) {
		if s.opts.replica != nil {
			_ = s.opts.replica.fail(err) // whoever waits for Failed gets it
		}
		s.end()
		risk.Begin(s.opts.disk, s.opts.disk.PathJoin(s.dir, storeName), risk.Damaged)
		d.fs.End()
	}
}
