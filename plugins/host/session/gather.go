package session

import (
	"time"

	"github.com/informd/informd/plugins/host/outbox"
)

const (
	gatherPause = 500 * time.Microsecond // Go's timers make it up to a millisecond
	gatherSoon  = 2 * time.Millisecond   // what comes that soon after a message comes with others
	gatherAgain = 20 * time.Millisecond  // so does what comes that soon after a message of several
)

// gathering makes events that come together share a message. What an informer has read together
// reaches the sender one by one, within a millisecond or two. A message of its own for each event
// would wake up the handler's process for each, and this one for each answer. That is most of what
// an event costs while few come.
//
// So before it takes a message, the sender waits for gatherPause, or until the message is full. It
// waits only while events come together: an event that comes alone goes at once, and so does a
// backlog, which fills messages.
type gathering struct {
	consumer *outbox.Consumer
	pause    *time.Timer
	last     time.Time // when the last message was sent
	several  bool      // it had several events
}

func newGathering(c *outbox.Consumer) *gathering {
	g := &gathering{consumer: c, pause: time.NewTimer(0)}
	g.pause.Stop()
	return g
}

// sent notes that a message with that many events was sent.
func (g *gathering) sent(events int) { g.last, g.several = time.Now(), events > 1 }

// wait returns when the next message should be taken, or when done is closed.
func (g *gathering) wait(done <-chan struct{}) {
	since := time.Since(g.last)
	if since >= gatherAgain || !g.several && since >= gatherSoon {
		return
	}
	g.pause.Reset(gatherPause)
	defer g.pause.Stop()
	for g.consumer.ExpectsMore() {
		select {
		case <-g.consumer.Wake():
		case <-g.pause.C:
			return
		case <-done:
			return
		}
	}
}

func (g *gathering) stop() { g.pause.Stop() }
