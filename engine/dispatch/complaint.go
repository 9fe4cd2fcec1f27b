package dispatch

import (
	"log/slog"
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
)

// complaint logs that deliveries of a lane fail, at most once a minute, with how many have since the last time.
type complaint struct {
	mu     sync.Mutex
	next   time.Time
	unsaid int
}

func (c *complaint) log(log *slog.Logger, now time.Time, ev handler.Event, key delta.Key, v verdict) {
	c.mu.Lock()
	if now.Before(c.next) {
		c.unsaid++
		c.mu.Unlock()
		return
	}
	unsaid := c.unsaid
	c.next, c.unsaid = now.Add(complainEvery), 0
	c.mu.Unlock()
	log.Warn("delivery failed and will be repeated", "rule", ev.Rule, "key", key.String(), "event", ev.ID,
		"attempt", ev.Attempt, "reason", bounded(v.reason, maxLogged), "after", v.after.Round(time.Millisecond),
		"unsaid", unsaid)
}

// bounded is at most limit bytes of s, as valid UTF-8.
func bounded(s string, limit int) string {
	const more = "…"
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit-len(more)], "") + more
	}
	return strings.ToValidUTF8(s, "")
}
