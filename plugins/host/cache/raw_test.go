package cache

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"google.golang.org/protobuf/proto"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// rawConn speaks HTTP/2 itself, and does not read.
type rawConn struct{ net.Conn }

func raw(t *testing.T, s *Server) rawConn {
	t.Helper()
	conn, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := rawConn{conn}
	if _, err := io.WriteString(conn, preface); err != nil {
		t.Fatal(err)
	}
	// Windows as large as can be: nothing but the connection itself holds the server up.
	const settings, windowUpdate, initialWindow = 4, 8, 4
	if err := c.frame(settings, 0, 0, binary.BigEndian.AppendUint32([]byte{0, initialWindow}, 1<<31-1)); err != nil {
		t.Fatal(err)
	}
	if err := c.frame(windowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, 1<<30)); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c rawConn) frame(kind, flags byte, stream uint32, payload []byte) error {
	n := len(payload)
	header := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	_, err := c.Write(append(binary.BigEndian.AppendUint32(header, stream), payload...))
	return err
}

// headers begins a call.
func (c rawConn) headers(stream uint32, method string) error {
	const kind, endHeaders = 1, 4
	var block []byte
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/informd.handler.v1.Cache/" + method}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} { // HPACK's literals without indexing, each shorter than 127 bytes
		block = append(append(block, 0, byte(len(h[0]))), h[0]...)
		block = append(append(block, byte(len(h[1]))), h[1]...)
	}
	return c.frame(kind, endHeaders, stream, block)
}

// reset gives up a call.
func (c rawConn) reset(stream uint32) error {
	const kind, cancel = 3, 8
	return c.frame(kind, 0, stream, binary.BigEndian.AppendUint32(nil, cancel))
}

// call makes a call and does not wait for its answer.
func (c rawConn) call(t *testing.T, stream uint32, method string, request proto.Message) {
	t.Helper()
	if err := c.try(stream, method, request); err != nil {
		t.Fatal(err)
	}
}

func (c rawConn) try(stream uint32, method string, request proto.Message) error {
	message, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	if err := c.headers(stream, method); err != nil {
		return err
	}
	const kind, endStream = 0, 1
	data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	return c.frame(kind, endStream, stream, data)
}

// atOnce sends everything that send writes with one write, which must be shorter than gRPC's buffer.
func (c rawConn) atOnce(t *testing.T, send func(rawConn)) {
	t.Helper()
	held := &heldConn{Conn: c.Conn}
	send(rawConn{held})
	const readBuffer = 32 << 10
	if n := held.all.Len(); n > readBuffer {
		t.Fatalf("%d bytes are more than the server reads at once", n)
	}
	if _, err := c.Write(held.all.Bytes()); err != nil {
		t.Fatal(err)
	}
}

// heldConn is a connection that keeps what is written to it.
type heldConn struct {
	net.Conn
	all bytes.Buffer
}

func (h *heldConn) Write(b []byte) (int, error) { return h.all.Write(b) }
