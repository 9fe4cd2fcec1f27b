package cache

import (
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/informd/informd/internal/peer"
)

// listener accepts connections of one process and its descendants.
type listener struct {
	*net.UnixListener
	log      *slog.Logger
	ancestor int    // set before Accept
	places   places // one per connection
	pages    places // one per page that was not taken yet
	pace     pace
	closed   chan struct{}
	end      func()

	// Accept's alone:
	again time.Time // when it is worth a line in the log that somebody was turned away
	quiet int       // turned away since the last line
}

func newListener(unix *net.UnixListener, log *slog.Logger) *listener {
	l := &listener{
		UnixListener: unix, log: log,
		places: make(places, maxConnections), pages: make(places, maxPages), closed: make(chan struct{}),
	}
	l.end = sync.OnceFunc(func() {
		close(l.closed)
		_ = l.UnixListener.Close()
	})
	return l
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		select {
		case l.places <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
		conn, err := l.AcceptUnix()
		if err != nil {
			l.places.leave()
			select {
			case <-l.closed:
				return nil, net.ErrClosed
			case <-time.After(stay): // no descriptor is left, perhaps
			}
			continue
		}
		c := &connection{UnixConn: conn, listener: l, since: time.Now()}
		c.account = &account{Addr: conn.RemoteAddr(), pages: l.pages, out: map[*page]struct{}{}, abort: func() { _ = c.Close() }}
		c.close = sync.OnceValue(c.end)
		if l.admits(conn) {
			return c, nil
		}
		_ = c.Close()
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.end()
	return nil
}

// admits looks who is at the other end.
func (l *listener) admits(conn *net.UnixConn) bool {
	if l.ancestor == 0 {
		return true
	}
	pid, is, err := peer.Descends(conn, l.ancestor)
	if is {
		return true
	}
	l.quiet++
	if now := time.Now(); !now.Before(l.again) {
		l.again = now.Add(time.Minute)
		args := []any{"process", pid, "times", l.quiet}
		if err != nil {
			args = append(args, "error", err)
		}
		l.log.Warn("a process was turned away from the socket on which a handler reads the cache: it is not the handler's", args...)
		l.quiet = 0
	}
	return false
}

// connection is one of a process. What is read from all of them together is paced, and nothing is read while the process does not
// take what is written: gRPC keeps up to ten thousand answers of calls that were given up, and as many ends of them.
type connection struct {
	*net.UnixConn
	listener *listener
	since    time.Time
	account  *account
	close    func() error
	writing  sync.Mutex // held while something is written; Close ends that
}

// Read implements net.Conn.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.UnixConn.Read(b)
	c.writing.Lock()
	wait := c.listener.pace.pay(n, time.Now())
	c.writing.Unlock()
	if wait > 0 && err == nil {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.listener.closed:
		}
	}
	return n, err
}

// Write implements net.Conn.
func (c *connection) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.UnixConn.Write(b)
}

// RemoteAddr is how a call finds its connection's account: gRPC hands it on as the peer's address.
func (c *connection) RemoteAddr() net.Addr { return c.account }

// Close implements net.Conn.
func (c *connection) Close() error { return c.close() }

func (c *connection) end() error {
	err := c.UnixConn.Close()
	c.account.end()
	if left := stay - time.Since(c.since); left > 0 {
		time.AfterFunc(left, c.listener.places.leave)
	} else {
		c.listener.places.leave()
	}
	return err
}
