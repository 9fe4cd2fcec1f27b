package replica

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
)

// tangle is a network of which directions can be cut: then nothing arrives, and nobody is told.
type tangle struct {
	mu        sync.Mutex
	listeners map[string]net.Listener
	cut       map[[2]string]bool
	conns     map[*cuttable]struct{}
}

func newTangle() *tangle {
	return &tangle{
		listeners: make(map[string]net.Listener), cut: make(map[[2]string]bool),
		conns: make(map[*cuttable]struct{}),
	}
}

// of returns what the member name has for Options.Listen and Options.Dial.
func (n *tangle) of(
	name string,
) (func() (net.Listener, error), func(context.Context, string) (net.Conn, error)) {
	listen := func() (net.Listener, error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		n.mu.Lock()
		defer n.mu.Unlock()
		n.listeners[name] = listener
		return listener, err
	}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		to := strings.TrimSuffix(address, ".example:1")
		n.mu.Lock()
		listener, isCut := n.listeners[to], n.cut[[2]string{name, to}]
		n.mu.Unlock()
		if isCut {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if listener == nil {
			return nil, errors.New("nobody listens there")
		}
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", listener.Addr().String())
		if err != nil {
			return nil, err
		}
		c := &cuttable{Conn: conn, of: n, way: [2]string{name, to}}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.conns[c] = struct{}{}
		return c, nil
	}
	return listen, dial
}

// isolate cuts name off.
func (n *tangle) isolate(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other := range n.listeners {
		n.cut[[2]string{name, other}] = true
		n.cut[[2]string{other, name}] = true
	}
}

// heal makes all ways whole.
func (n *tangle) heal() {
	n.mu.Lock()
	cut := n.cut
	n.cut = make(map[[2]string]bool)
	conns := slices.Collect(maps.Keys(n.conns))
	n.mu.Unlock()
	for _, c := range conns {
		if cut[c.way] {
			_ = c.Close()
		}
	}
}

type cuttable struct {
	net.Conn
	of  *tangle
	way [2]string
}

func (c *cuttable) isCut() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.of.cut[c.way]
}

func (c *cuttable) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.isCut() {
			return n, err
		}
	}
}

func (c *cuttable) Write(b []byte) (int, error) {
	if c.isCut() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *cuttable) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
