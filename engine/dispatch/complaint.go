package dispatch

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

const (
	complainEvery = time.Minute
	maxReason     = 1024 // bytes of a reason that are kept
	maxLogged     = 256  // bytes of a reason that are logged
	maxComplaints = 4    // different ones per complainEvery
)

// complaint lets through one of what would be logged again and again, at most once a minute, and of different ones a few.
type complaint struct {
	mu     sync.Mutex
	next   time.Time
	said   []string // since the minute began
	unsaid int
}

// due tells whether to speak about something, and how often it was said not to since the last time.
func (c *complaint) due(now time.Time, about string) (unsaid int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(c.next) {
		c.next = now.Add(complainEvery)
		c.said = c.said[:0]
	}
	if len(c.said) == maxComplaints || slices.Contains(c.said, about) {
		c.unsaid++
		return 0, false
	}
	c.said = append(c.said, about)
	unsaid, c.unsaid = c.unsaid, 0
	return unsaid, true
}

// Failure is a delivery that failed and will be repeated.
type Failure struct {
	Key     delta.Key
	Reason  string // of the handler's, or of what carries out its actions: at most 256 bytes
	Attempt int
	At      time.Time
}

// LastFailure is the last there was. If ok is false there was none.
func (l *Lane) LastFailure() (f Failure, ok bool) {
	if last := l.failed.Load(); last != nil {
		return *last, true
	}
	return Failure{}, false
}

// logFailure says that a delivery failed and will be repeated.
func (l *Lane) logFailure(now time.Time, ev handler.Event, key delta.Key, v verdict) {
	reason := bounded(v.reason, maxLogged)
	l.failed.Store(&Failure{Key: key, Reason: reason, Attempt: ev.Attempt, At: now})
	unsaid, ok := l.failing.due(now, reason)
	if !ok {
		return
	}
	l.dispatcher.log.Warn("delivery failed and will be repeated", "rule", l.rule, "key", key.String(), "id", ev.ID,
		"attempt", ev.Attempt, "reason", reason, "after", v.after.Round(time.Millisecond),
		"unreported", unsaid)
}

// logCrowding says that more waits than is kept, if that has become more.
func (l *Lane) logCrowding() {
	stats := l.queue.Stats()
	if lost := stats.Shortened + stats.Dropped; l.lost.Swap(lost) >= lost {
		return
	}
	if _, ok := l.crowded.due(time.Now(), ""); ok {
		l.dispatcher.log.Warn("more changes wait for the handler than are kept", "rule", l.rule,
			"waiting", stats.Waiting, "bytes", stats.Bytes, "merged", stats.Shortened, "dropped", stats.Dropped)
	}
}

// logLoading says that deliveries could not be loaded.
func (l *Lane) logLoading(err error) {
	if unsaid, ok := l.loading.due(time.Now(), ""); ok {
		l.dispatcher.log.Error("deliveries that wait on disk could not be read", "rule", l.rule,
			"error", bounded(err.Error(), maxLogged), "unreported", unsaid)
	}
}

// logUnrecorded says that actions were carried out without a record of them.
func (l *Lane) logUnrecorded(err error) {
	if unsaid, ok := l.unrecorded.due(time.Now(), ""); ok {
		l.dispatcher.log.Warn("actions are carried out that could not be recorded before: a crash would have the handler asked again",
			"rule", l.rule, "error", bounded(err.Error(), maxLogged), "unreported", unsaid)
	}
}

// bounded is at most limit bytes of s, as valid UTF-8.
func bounded(s string, limit int) string {
	const more = "…"
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit-len(more)], "") + more
	}
	return strings.ToValidUTF8(s, "")
}
