package source

import (
	"context"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/internal/rawcall"
)

// gatherPause is the pause of a busy connection. Go's poller waits for whole milliseconds, rounded
// down. If the pause is not over then, it waits for another one, which is one more wake-up.
//
// Of 9.05 ms the poller waits for 9. Linux ends that some 0.1 ms late: its timer slack is 50 µs by
// default. So the pause is over at the poller's first look, and lasts some 9.15 ms. Any pause from
// 9.02 to 9.08 ms does that. A pause of 9.0 ms takes two looks, because the poller begins a moment
// later and waits for 8. A pause of 9.2 ms takes two as well, and lasts 10.2.
//
// If something else wakes up the process during the pause, the poller begins again with the time
// that is left. The pause then lasts between 9.1 and 10.2 ms.
//
// What is read together also becomes one entry of the log of several replicas, if there are any. An
// entry costs each of them more than a wake-up: a sync of its disk. So their pauses are longer, and
// the longest while little comes.
const (
	gatherPause = 9050 * time.Microsecond
	gatherShare = 11_050 * time.Microsecond // with replicas
	gatherSmall = 18_050 * time.Microsecond // with replicas, after less than gatherMany
	gatherMany  = 64 << 10                  // bytes from one pause to the next
	gatherSoon  = 5 * time.Millisecond      // what comes that soon after a read makes it busy
	gatherLate  = 2 * time.Millisecond      // what comes that late after a pause ends that
	gatherRow   = 4                         // reads in a row that make it busy
	gatherBytes = 32 << 10                  // bytes; one read takes at most that much
)

// gathering returns a client for watches, whose connections gather, and which takes only watches
// for an answer. It differs from the one for lists, so that lists and other requests do not wait.
func gathering(config *rest.Config, isReplicated bool) (*http.Client, error) {
	config = rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil { // as client-go does
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		g := newGatherer(conn)
		g.isReplicated = isReplicated
		return g, nil
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return watchesOnly{next} })
	client, err := rest.HTTPClientFor(config)
	if err == nil {
		Impatient(client, config)
	}
	return client, err
}

// gatherer is a connection that reads events together while many come. What costs most between an
// event on the wire and its handler is waking up: threads, goroutines, the handler, and all of that
// again for the answer. Events that are read together share it.
//
// An event that comes alone is read at once. When four reads in a row have each waited for at most
// 5 ms, the connection is busy. Before the next reads it pauses for some 9 ms (with replicas 11 or
// 18), while the kernel collects what comes and wakes nobody. A read that has to wait for more than
// 2 ms after its pause ends that. There is no pause while a read fills the whole buffer, because
// more is there.
//
// Go's poller would wake up for everything that comes during the pause, although nobody reads. So
// the pause raises the socket's SO_RCVLOWAT: the kernel then reports nothing below a full buffer.
//
// With HTTP/2, which API servers speak, up to a hundred watches share a connection, and gather
// together. Nothing behind the connection pauses again. Events that were read together come close
// to each other, and so share most messages to handlers and back.
//
// One goroutine reads at a time, as with any connection of package http.
type gatherer struct {
	net.Conn
	socket *rawcall.Conn // Conn, or nil if that is no socket
	buf    []byte        // nil before the first read
	rest   []byte        // what was read and not returned yet; part of buf
	row    int           // reads in a row that waited for a short time
	more   bool          // the last read filled the buffer

	isReplicated bool
	came         int // bytes since the last pause
}

// Read implements net.Conn.
func (g *gatherer) Read(p []byte) (n int, err error) {
	if len(g.rest) == 0 {
		err = g.fill()
	}
	n = copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, err
}

func newGatherer(conn net.Conn) *gatherer {
	if socket, ok := rawcall.Wrap(conn); ok {
		return &gatherer{Conn: socket, socket: socket}
	}
	return &gatherer{Conn: conn}
}

// fill reads into the buffer, which is empty, and may return an error beside.
func (g *gatherer) fill() error {
	if g.buf == nil {
		g.buf = make([]byte, gatherBytes)
	}
	soon, n := gatherSoon, 0
	if g.row >= gatherRow && !g.more {
		n, soon = g.pause(), gatherLate
	}
	var err error
	if n == 0 {
		read := g.Conn.Read
		if g.more && g.socket != nil {
			read = g.socket.ReadAnnounced // there is much to do
		}
		began := time.Now()
		n, err = read(g.buf)
		if time.Since(began) > soon {
			g.row = -1
		}
	}
	g.row++
	g.came += n
	g.rest, g.more = g.buf[:n], n == len(g.buf)
	return err
}

// pause pauses, and reads what has come by then. It returns 0 if there is nothing to read, or an
// error, which the next read returns.
func (g *gatherer) pause() (n int) {
	long := gatherPause
	if g.isReplicated {
		long = gatherShare
		if g.came < gatherMany {
			long = gatherSmall
		}
	}
	g.came = 0
	if g.socket == nil {
		time.Sleep(long)
		return 0
	}
	g.socket.WakeAt(gatherBytes)
	time.Sleep(long)
	n = g.socket.ReadNow(g.buf)
	g.socket.WakeAt(1) // only now: there is nothing left to wake up for
	return n
}
