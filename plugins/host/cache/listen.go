package cache

import (
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/informd/informd/internal/peer"
)

// listener accepts connections of one process and its descendants.
type listener struct {
	*net.UnixListener
	log      *slog.Logger
	ancestor int           // process id; set before Accept
	places   places        // one per connection
	pages    places        // one per page that was not read yet
	pace     *rate.Limiter // bytes read
	closed   chan struct{}
	end      func()

	// Only Accept uses these:
	warning rate.Sometimes
	quiet   int // connections refused since the last warning
	refused peer.Refused
}

func newListener(unix *net.UnixListener, log *slog.Logger) *listener {
	l := &listener{
		UnixListener: unix, log: log,
		places: make(places, maxConnections), pages: make(places, maxPages),
		pace: rate.NewLimiter(readRate, readBurst), closed: make(chan struct{}),
		warning: rate.Sometimes{Interval: time.Minute},
	}
	l.end = sync.OnceFunc(func() {
		close(l.closed)
		_ = l.UnixListener.Close()
	})
	return l
}

// Accept implements net.Listener. Connections of other processes take no place.
func (l *listener) Accept() (net.Conn, error) {
	for {
		select {
		case l.places <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
		conn, err := l.AcceptUnix()
		for err == nil && !l.admits(conn) {
			_ = conn.Close()
			conn, err = l.AcceptUnix()
		}
		if err != nil {
			l.places.leave()
			select {
			case <-l.closed:
				return nil, net.ErrClosed
			case <-time.After(stay): // perhaps no descriptor is left
			}
			continue
		}
		c := &connection{UnixConn: conn, listener: l, since: time.Now()}
		c.account = &account{
			Addr: conn.RemoteAddr(), pages: l.pages, out: map[*page]struct{}{},
			abort: func() { _ = c.Close() },
		}
		c.close = sync.OnceValue(c.end)
		return c, nil
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.end()
	return nil
}

// admits reports whether the process at the other end is ancestor or a descendant of it.
func (l *listener) admits(conn *net.UnixConn) bool {
	if l.ancestor == 0 {
		return true
	}
	pid, is, err := l.examine(conn)
	if is {
		return true
	}
	l.quiet++
	l.warning.Do(func() {
		args := []any{"process", pid, "times", l.quiet}
		if err != nil {
			args = append(args, "error", err)
		}
		l.log.Warn("refused a process on the socket where a handler reads the cache: "+
			"it is not the handler's", args...)
		l.quiet = 0
	})
	return false
}

// examine returns which process is at the other end, and whether it is the handler's.
func (l *listener) examine(conn *net.UnixConn) (pid int, is bool, err error) {
	now := time.Now()
	if pid, _, err := peer.Of(conn); err == nil && l.refused.Has(pid, now) {
		return pid, false, nil
	}
	pid, is, err = peer.Descends(conn, l.ancestor)
	if err == nil && !is {
		l.refused.Add(pid, now)
	}
	return pid, is, err
}

// connection is one connection of a process. The connections of one process share a pace of
// reading. informd reads nothing while the process does not read its answers: gRPC would keep up to
// ten thousand answers of cancelled calls, and as many ends of them.
type connection struct {
	*net.UnixConn
	listener *listener
	since    time.Time
	account  *account
	close    func() error
	writing  sync.Mutex // held during a write, which Close ends; Read waits for it
}

// Read implements net.Conn.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.UnixConn.Read(b)
	c.writing.Lock()
	wait := c.listener.pay(n, time.Now())
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

// pay returns how long to wait after n bytes were read.
func (l *listener) pay(n int, now time.Time) (wait time.Duration) {
	for ; n > 0; n -= readBurst { // a reservation cannot exceed the burst
		wait = l.pace.ReserveN(now, min(n, readBurst)).DelayFrom(now)
	}
	return wait
}

// Write implements net.Conn.
func (c *connection) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.UnixConn.Write(b)
}

// RemoteAddr returns the connection's account: gRPC passes it to calls as the peer's address.
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
