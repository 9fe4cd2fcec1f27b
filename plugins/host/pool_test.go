package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// send submits n events and counts how they end.
func send(t *testing.T, p *pool, n int, ended map[string]int) {
	t.Helper()
	for i := range n {
		p.submit(t.Context(), &handler.Event{Rule: "r", Name: fmt.Sprint(i)}, func(_ handler.Answer, err error) { ended[fmt.Sprint(err)]++ })
	}
}

func joined(p *pool, events int) *deliveries {
	d := p.member()
	d.attach(window{events: events, bytes: 1 << 20})
	return d
}

// Events go where the least of what can be taken is, wait while nobody takes them, and go on when they had not been sent.
func TestPool(t *testing.T) {
	p := newPool(time.Minute)
	ended := make(map[string]int)
	send(t, p, 2, ended)
	if n := p.waiting(); n != 2 {
		t.Errorf("%d wait, want 2", n)
	}
	small := joined(p, 2) // gets what waited
	if taken := has(small); taken != 2 || p.waiting() != 0 {
		t.Errorf("the first to join has %d, %d wait", taken, p.waiting())
	}
	large := joined(p, 6)
	if got := p.room(); got != 8 {
		t.Errorf("room for %d, want 8", got)
	}
	send(t, p, 6, ended)
	if a, b := has(small), has(large); a != 2 || b != 6 {
		t.Errorf("they have %d and %d, want 2 and 6", a, b)
	}

	// The small one is let go of when one of its events was sent.
	small.window.events = 1
	if b := small.take(time.Now()); len(b.calls) != 1 {
		t.Fatalf("%d events were taken", len(b.calls))
	}
	held := small.hold()
	if a, b := has(small), has(large); a != 1 || b != 6 || p.waiting() != 1 {
		t.Errorf("they have %d and %d, want 1 and 6; %d wait, want 1", a, b, p.waiting())
	}
	select {
	case <-held:
		t.Error("it is let go of with an event")
	default:
	}
	if again := small.hold(); again != held {
		t.Error("who lets go of it a second time waits for something else")
	}
	small.complete([]outcome{{seq: 1}})
	<-held
	small.detach(lost(errStopping))

	// The large one is lost: what it was sent is told so, what it was not waits for the next.
	large.window.events = 3
	if b := large.take(time.Now()); len(b.calls) != 3 {
		t.Fatalf("%d events were taken", len(b.calls))
	}
	large.fail(lost(errors.New("gone")))
	if n := p.waiting(); n != 4 || p.room() != 0 {
		t.Errorf("%d wait, want 4; room for %d", n, p.room())
	}
	p.stop(errStopped)
	want := map[string]int{"<nil>": 1, lost(errors.New("gone")).Error(): 3, errStopped.Error(): 4}
	if fmt.Sprint(ended) != fmt.Sprint(want) {
		t.Errorf("they ended as %v, want %v", ended, want)
	}
	send(t, p, 1, ended)
	if ended[errStopped.Error()] != 5 {
		t.Errorf("after the end: %v", ended)
	}
}

func has(d *deliveries) int {
	return d.standing(0).has
}

// An object with whose late event one endpoint went away is told of it wherever it goes next.
func TestPoolOwes(t *testing.T) {
	p := newPool(time.Millisecond)
	ended := make(map[string]int)
	one := joined(p, 1)
	send(t, p, 1, ended)
	now := time.Now()
	one.take(now)
	one.expire(now.Add(time.Second))
	one.fail(lost(errors.New("gone")))
	joined(p, 1)
	send(t, p, 1, ended)
	if ended[lost(errEndedWith).Error()] != 1 {
		t.Errorf("%v", ended)
	}
}

// Of more addresses than that, maxEndpoints are taken.
func TestRemoteHasABound(t *testing.T) {
	r := NewRemote(RemoteSpec{Name: "many"}, Options{})
	r.SetLookUp(func(context.Context) (all []netip.AddrPort, err error) {
		for i := range 4 * maxEndpoints {
			all = append(all, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1))
		}
		return all, nil
	})
	if got, err := r.look(t.Context()); err == nil || !strings.Contains(err.Error(), "has 512 addresses") || len(got) != maxEndpoints {
		t.Errorf("%d endpoints, %v; want %d, and to be told", len(got), err, maxEndpoints)
	}
	r.SetLookUp(func(context.Context) ([]netip.AddrPort, error) { return nil, nil })
	if got, err := r.look(t.Context()); err == nil || len(got) > 0 {
		t.Errorf("of an empty answer: %v, %v", got, err)
	}
}

// An address that came back while its endpoint was being let go of is used again as soon as that is gone.
func TestRemoteAddressComesBack(t *testing.T) {
	r := NewRemote(RemoteSpec{Name: "flapping"}, Options{})
	address := netip.MustParseAddrPort("127.0.0.1:1")
	e := r.endpoint(address)
	r.endpoints[address] = e
	r.remove(address, e)
	select {
	case <-r.pool.left:
	default:
		t.Error("nobody looks again")
	}
}
