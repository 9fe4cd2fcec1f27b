package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// places is how many deliveries a handler takes, as Recipient has it.
type places struct {
	n       int
	isProbe bool
	grown   chan struct{}
}

func (p *places) recipient(h handler.Handler) Recipient {
	return Recipient{
		Handler: h, Grown: p.grown,
		Limit: func() (int, bool) { return p.n, p.isProbe },
	}
}

func (p *places) grow(isProbe bool) {
	p.n++
	p.isProbe = isProbe
	p.grown <- struct{}{}
	synctest.Wait()
}

// With a place for a probe goes what became ready last. Without anything new, a probe is any of
// those that wait, and only few go.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h inbox
		p := places{n: 2, grown: make(chan struct{})}
		d := New(p.recipient(&h), NewLetterBox(LetterBoxOptions{}), Options{})
		l, other := d.Lane("r", pods, LaneOptions{}), d.Lane("o", pods, LaneOptions{})
		start(t, d)
		for i := range 100 {
			l.Offer(added(fmt.Sprint("hangs-", i), fmt.Sprint(i), 1))
		}
		synctest.Wait()
		equal(t, "in turn", h.ids(), []string{"r/0/added/1", "r/1/added/1"})
		p.grow(true)
		equal(t, "the first probe", h.ids()[2], "r/99/added/1")
		for range 10 {
			p.grow(true)
		}
		equal(t, "probes without anything new", len(h.ids()), 3+maxUnanswered)
		p.n = len(h.ids()) + 1 // one place is left
		other.Offer(added("new", "n", 1))
		synctest.Wait()
		equal(t, "something new", h.ids()[3+maxUnanswered:], []string{"o/n/added/1"})
		other.Offer(added("later", "l", 1))
		synctest.Wait()
		equal(t, "there is no place", len(h.ids()), 4+maxUnanswered)

		// The handler answers the new one. Those that hang take no places any more.
		p.n, p.isProbe = 2+len(h.ids())-1, false
		h.answer("o/n/added/1", handler.Answer{}, nil)
		synctest.Wait()
		ids := h.ids()
		equal(t, "two more, in turn", len(ids), 3+maxUnanswered+2)
		if last := ids[len(ids)-2:]; !slices.Contains(last, "o/l/added/1") {
			t.Errorf("%v went, and the other lane had no turn", last)
		}
		p.n = 1000
		for len(h.ids()) > 0 {
			for _, id := range h.ids() {
				h.answer(id, handler.Answer{}, nil)
			}
			synctest.Wait()
		}
	})
}

// What the handler hung with at a crash comes back after what it had just got, and does not hold
// that up.
func TestHungSuspectsGoLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h inbox
		d := New(Recipient{Handler: &h, Concurrency: 20}, NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		for i := range 10 {
			l.Offer(added(fmt.Sprint("hangs-", i), fmt.Sprint("h", i), 1))
		}
		pass(time.Minute)
		for i := range 5 {
			l.Offer(added(fmt.Sprint("good-", i), fmt.Sprint("g", i), 1))
		}
		synctest.Wait()
		crash := func() {
			for _, id := range h.ids() {
				h.answer(id, handler.Answer{}, handler.ErrLost)
			}
		}
		crash()
		good := 0
		for range 200 {
			for _, id := range h.ids() {
				if strings.HasPrefix(id, "r/g") {
					good++
					h.answer(id, handler.Answer{}, nil)
				}
			}
			pass(10 * time.Millisecond)
		}
		equal(t, "good ones within two seconds", good, 5)

		// Each of the hung ones has timed out once more. Then the handler crashes at a good one.
		for range 10 {
			pass(30 * time.Second)
			for _, id := range h.ids() {
				h.answer(id, handler.Answer{}, handler.ErrNoAnswer)
			}
		}
		pass(time.Minute)
		l.Offer(added("good", "g", 1))
		synctest.Wait()
		h.answer("r/g/added/1", handler.Answer{}, handler.ErrLost)
		pass(2 * time.Second) // it waits for the one that is out, and for no other
		for _, id := range h.ids() {
			h.answer(id, handler.Answer{}, handler.ErrNoAnswer)
		}
		pass(0)
		equal(t, "after that", h.ids(), []string{"r/g/added/1"})
		for len(h.ids()) > 0 {
			for _, id := range h.ids() {
				h.answer(id, handler.Answer{}, nil)
			}
			pass(time.Hour)
		}
	})
}
