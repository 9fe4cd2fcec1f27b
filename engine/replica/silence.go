// This file owns the open connections, and silence: while a member is silent, it has none.

package replica

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"sync"
)

// errSilent is why a silent member does not connect.
var errSilent = errors.New("the replica is silent")

// maxConnections bounds the connections that others opened and that have passed the handshake.
const maxConnections = 256

// connections are all of a member's. Any goroutine may use them.
type connections struct {
	mu     sync.Mutex // guards the fields below
	open   map[*connection]struct{}
	silent int                // how many reasons there are to be silent
	talk   context.Context    // ends when silence begins
	hush   context.CancelFunc // ends talk
}

// connection is one of them. It leaves the set when it is closed.
type connection struct {
	net.Conn
	raw       net.Conn // below TLS: to close it waits for nobody
	of        *connections
	isInbound bool
	cert      *x509.Certificate // the other side's, after the handshake of an inbound one
}

func newConnections() *connections {
	c := &connections{open: make(map[*connection]struct{})}
	c.talk, c.hush = context.WithCancel(context.Background())
	return c
}

// add takes conn into the set, or closes it and returns false, because the member is silent or
// others have opened too many.
func (c *connections) add(conn *connection) bool {
	c.mu.Lock()
	ok := c.silent == 0 && (!conn.isInbound || len(c.open) < maxConnections)
	if ok {
		conn.of = c
		c.open[conn] = struct{}{}
	}
	c.mu.Unlock()
	if !ok {
		_ = conn.raw.Close()
	}
	return ok
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.raw.Close()
}

// begin adds a reason to be silent: it closes all connections and makes dials fail.
func (c *connections) begin() {
	c.mu.Lock()
	c.silent++
	c.hush()
	c.mu.Unlock()
	c.drop(func(*connection) bool { return true })
}

// end takes a reason to be silent away.
func (c *connections) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent--
	if c.silent == 0 {
		c.talk, c.hush = context.WithCancel(context.Background())
	}
}

// isSilent reports whether the member is silent.
func (c *connections) isSilent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.silent > 0
}

// whileTalking returns a context that ends when silence begins. It has ended if the member is
// silent.
func (c *connections) whileTalking() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.talk
}

// drop closes the connections for which isMeant returns true.
func (c *connections) drop(isMeant func(*connection) bool) {
	c.mu.Lock()
	var meant []*connection
	for conn := range c.open {
		if isMeant(conn) {
			meant = append(meant, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range meant {
		_ = conn.Close()
	}
}
