package rawcall

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pairs calls test with the two ends of a connection over each kind of socket, of which one is
// wrapped.
func pairs(t *testing.T, test func(t *testing.T, c *Conn, peer net.Conn)) {
	for network, address := range map[string]string{
		"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s"),
	} {
		t.Run(network, func(t *testing.T) {
			listener, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			conn, err := net.Dial(network, listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			peer, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			c, ok := Wrap(conn)
			if !ok {
				t.Fatal("it is a socket")
			}
			defer c.Close()
			test(t, c, peer)
		})
	}
}

// Large writes go in parts, because the other side reads slowly, and both sides may write at once.
func TestAllBytesGoBothWays(t *testing.T) {
	pairs(t, func(t *testing.T, c *Conn, peer net.Conn) {
		sent := make([]byte, 8<<20)
		for i := range sent {
			sent[i] = byte(rand.Uint32())
		}
		go func() { // an echo
			_, _ = io.Copy(peer, io.LimitReader(peer, int64(len(sent))))
			_ = peer.Close()
		}()
		wrote := make(chan error, 1)
		go func() {
			n, err := c.Write(sent)
			if err == nil && n != len(sent) {
				err = io.ErrShortWrite
			}
			wrote <- err
		}()
		got, err := io.ReadAll(c) // up to the end
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d of %d bytes came back, %v", len(got), len(sent), err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	})
}

func TestEmptyBuffers(t *testing.T) {
	pairs(t, func(t *testing.T, c *Conn, _ net.Conn) {
		if n, err := c.Read(nil); n != 0 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		if n, err := c.Write(nil); n != 0 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		if n := c.ReadNow(nil); n != 0 {
			t.Errorf("read %d", n)
		}
	})
}

// Errors are those of package net.
func TestErrors(t *testing.T) {
	is := func(t *testing.T, err, want error, op string) {
		t.Helper()
		e, ok := errors.AsType[*net.OpError](err)
		if !ok || e.Op != op || !errors.Is(err, want) {
			t.Errorf("error %v, want %s: %v", err, op, want)
		}
	}
	big := make([]byte, 32<<20)
	t.Run("deadline", func(t *testing.T) {
		pairs(t, func(t *testing.T, c *Conn, _ net.Conn) {
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			is(t, err, os.ErrDeadlineExceeded, "read")
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			n, err := c.Write(big) // nobody reads
			is(t, err, os.ErrDeadlineExceeded, "write")
			if n == 0 || n >= len(big) {
				t.Errorf("%d of %d bytes were written", n, len(big))
			}
		})
	})
	t.Run("closed while it waits", func(t *testing.T) {
		pairs(t, func(t *testing.T, c *Conn, _ net.Conn) {
			time.AfterFunc(10*time.Millisecond, func() { _ = c.Close() })
			_, err := c.Read(make([]byte, 1))
			is(t, err, net.ErrClosed, "read")
		})
		pairs(t, func(t *testing.T, c *Conn, _ net.Conn) {
			time.AfterFunc(100*time.Millisecond, func() { _ = c.Close() })
			_, err := c.Write(big)
			is(t, err, net.ErrClosed, "write")
			_, err = c.Read(nil)
			is(t, err, net.ErrClosed, "read")
		})
	})
	t.Run("the other side is gone", func(t *testing.T) {
		pairs(t, func(t *testing.T, c *Conn, peer net.Conn) {
			_ = peer.Close()
			if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("read %d, %v, want the end", n, err)
			}
			var err error
			for deadline := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(deadline); {
				_, err = c.Write([]byte("x")) // TCP learns of it from an answer
			}
			is(t, err, syscall.EPIPE, "write")
		})
	})
}

func TestReadNow(t *testing.T) {
	pairs(t, func(t *testing.T, c *Conn, peer net.Conn) {
		p := make([]byte, 10)
		if n := c.ReadNow(p); n != 0 {
			t.Errorf("%d bytes of nothing", n)
		}
		if _, err := io.WriteString(peer, "hello"); err != nil {
			t.Fatal(err)
		}
		arrives(t, c)
		if n := c.ReadNow(p); string(p[:n]) != "hello" {
			t.Errorf("read %q", p[:n])
		}
		_ = peer.Close()
		if n := c.ReadNow(p); n != 0 {
			t.Errorf("%d bytes after the end", n)
		}
		if _, err := c.Read(p); err != io.EOF {
			t.Errorf("error %v, want the end", err)
		}
	})
}

func TestWakeAt(t *testing.T) {
	pairs(t, func(t *testing.T, c *Conn, peer net.Conn) {
		if c.LocalAddr().Network() != "tcp" {
			return // Linux heeds it for TCP only
		}
		c.WakeAt(3)
		if _, err := io.WriteString(peer, "ab"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		if isReadable(t, c, 0) {
			t.Error("two bytes make it readable")
		}
		if _, err := io.WriteString(peer, "c"); err != nil {
			t.Fatal(err)
		}
		arrives(t, c)
		c.WakeAt(10)
		_ = peer.Close()
		arrives(t, c)
		p := make([]byte, 10)
		if n, err := c.Read(p); string(p[:n]) != "abc" || err != nil {
			t.Errorf("read %q, %v", p[:n], err)
		}
		if _, err := c.Read(p); err != io.EOF {
			t.Errorf("error %v, want the end", err)
		}
	})
}

// arrives waits until the kernel says that the socket can be read.
func arrives(t *testing.T, c *Conn) {
	t.Helper()
	if !isReadable(t, c, 10*time.Second) {
		t.Fatal("nothing to read")
	}
}

func isReadable(t *testing.T, c *Conn, within time.Duration) (is bool) {
	t.Helper()
	if err := c.raw.Control(func(fd uintptr) {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(within.Milliseconds()))
		is = n > 0
	}); err != nil {
		t.Fatal(err)
	}
	return is
}

func TestNoSocket(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, ok := Wrap(a); ok {
		t.Error("a pipe in memory has no system calls")
	}
	pairs(t, func(t *testing.T, c *Conn, _ net.Conn) {
		if _, ok := Wrap(c); ok {
			t.Error("what has a Read of its own would lose it")
		}
	})
}
