// This file owns the connections whose other side has not shown yet who it is.

package replica

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// These bound the connections that others opened: those on which nothing has come, and those whose
// other side has begun a handshake. maxWelcomes bounds the goroutines for both, with those of
// connections that have just been closed.
const (
	maxMute       = 256
	maxHandshakes = 64
	maxWelcomes   = 2 * (maxMute + maxHandshakes)
)

// strangers are connections that others opened. A member's is one for milliseconds. If there are too
// many, add closes the oldest connection of the address that has the most. So one address leaves
// room for others. If there are more addresses than connections may be, the oldest of all goes.
type strangers struct {
	most int

	mu       sync.Mutex // guards the fields below
	all      []stranger // the oldest first
	counts   map[netip.Addr]int
	isClosed bool
}

type stranger struct {
	conn net.Conn
	from netip.Addr
}

// add adds conn. To make room for it, add may close another one.
func (s *strangers) add(conn net.Conn) {
	if over := s.insert(conn); over != nil {
		_ = over.Close()
	}
}

// insert adds conn and returns the connection that has to be closed for it, or nil.
func (s *strangers) insert(conn net.Conn) (over net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return conn
	}
	if s.counts == nil {
		s.counts = make(map[netip.Addr]int)
	}
	from := addressOf(conn)
	s.all = append(s.all, stranger{conn, from})
	s.counts[from]++
	if len(s.all) <= s.most {
		return nil
	}
	at, most := 0, 0
	for i, one := range s.all {
		if count := s.counts[one.from]; count > most {
			at, most = i, count
		}
	}
	over = s.all[at].conn
	s.cut(at)
	return over
}

// cut removes the connection at an index. s.mu is held.
func (s *strangers) cut(at int) {
	from := s.all[at].from
	if s.counts[from]--; s.counts[from] == 0 {
		delete(s.counts, from)
	}
	s.all = slices.Delete(s.all, at, at+1)
}

// remove removes conn, if it has not been closed for another one.
func (s *strangers) remove(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.IndexFunc(s.all, func(one stranger) bool { return one.conn == conn }); at >= 0 {
		s.cut(at)
	}
}

// close closes all connections, and those that are added from now on.
func (s *strangers) close() {
	s.mu.Lock()
	s.isClosed = true
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, one := range all {
		_ = one.conn.Close()
	}
}

// addressOf returns the other side's address. Of IPv6 it returns the network, as a host has as many
// addresses of that as it likes.
func addressOf(conn net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	address := at.Addr().Unmap().WithZone("")
	if address.Is6() {
		address = netip.PrefixFrom(address, 64).Masked().Addr()
	}
	return address
}

// begun is a connection whose first byte was read already.
type begun struct {
	net.Conn
	first []byte // what Read returns first
}

// Read implements net.Conn.
func (b *begun) Read(to []byte) (int, error) {
	if len(b.first) > 0 {
		n := copy(to, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	return b.Conn.Read(to)
}
