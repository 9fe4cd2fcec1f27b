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
			_ = c.SetDeadline(time.Now().Add(10 * time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			is(t, err, os.ErrDeadlineExceeded, "read")
			n, err := c.Write(big) // nobody reads
			is(t, err, os.ErrDeadlineExceeded, "write")
			if n >= len(big) {
				t.Error("all of it was written")
			}
		})
	})
	t.Run("closed while it waits", func(t *testing.T) {
		pairs(t, func(t *testing.T, c *Conn, _ net.Conn) {
			time.AfterFunc(10*time.Millisecond, func() { _ = c.Close() })
			_, err := c.Read(make([]byte, 1))
			is(t, err, net.ErrClosed, "read")
			_, err = c.Write(big)
			is(t, err, net.ErrClosed, "write")
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
		read := make(chan string)
		go func() {
			p := make([]byte, 10)
			n, err := c.Read(p)
			read <- string(p[:n])
			if err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(10 * time.Millisecond) // the reader waits
		if _, err := io.WriteString(peer, "ab"); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-read:
			t.Errorf("woken up for %q", got)
		case <-time.After(50 * time.Millisecond):
		}
		if _, err := io.WriteString(peer, "c"); err != nil {
			t.Fatal(err)
		}
		if got := <-read; got != "abc" {
			t.Errorf("read %q", got)
		}
		_ = peer.Close()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("error %v, want the end", err)
		}
	})
}

func TestNoSocket(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, ok := Wrap(a); ok {
		t.Error("a pipe in memory has no system calls")
	}
}
