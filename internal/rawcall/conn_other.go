//go:build !linux

package rawcall

import "net"

// Conn is a connection whose Read and Write are raw. There is none on this system.
type Conn struct{ net.Conn }

// Wrap returns false.
func Wrap(net.Conn) (c *Conn, ok bool) { return nil, false }

// ReadAnnounced reads.
func (c *Conn) ReadAnnounced(p []byte) (int, error) { return c.Read(p) }

// ReadNow returns 0.
func (*Conn) ReadNow([]byte) int { return 0 }

// WakeAt does nothing.
func (*Conn) WakeAt(int) {}
