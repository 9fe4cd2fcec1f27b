package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/engine/object"
)

// Whatever comes, the answer is an error as JSON, and the next one is served.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	c, socket := serve(t, newBackend())
	tests := []struct {
		name, method, path, body string
		code                     int
		want                     string
	}{
		{"an unknown path", "GET", "/v2/status", "", 404, "use the informd command of the same version"},
		{"no path", "GET", "/", "", 404, "does not know"},
		{"the wrong method", "POST", "/v1/status", "{}", 404, "does not know"},
		{"to change by reading", "GET", "/v1/letters/drop", "", 404, "does not know"},
		{"an endless path", "GET", "/" + strings.Repeat("x", 10_000), "", 404, "does not know"},
		{"an endless header", "GET", "/v1/letter?id=" + strings.Repeat("x", 100_000), "", 431, ""},
		{"a huge body", "POST", "/v1/letters/drop", `{"rule":"` + strings.Repeat("x", 10<<20), 413, "larger than 4 MiB"},
		{"no JSON", "POST", "/v1/letters/drop", "all", 400, "the request's body"},
		{"two values", "POST", "/v1/letters/drop", `{"all":true}{"all":true}`, 400, "more than one JSON value"},
		{"something behind it", "POST", "/v1/letters/drop", `{"all":true}x`, 400, ""},
		{"an unknown field", "POST", "/v1/letters/drop", `{"al":true}`, 400, "unknown field"},
		{"another type", "POST", "/v1/letters/drop", `{"all":"yes"}`, 400, "the request's body"},
		{"deep JSON", "POST", "/v1/letters/drop", strings.Repeat("[", 1<<20), 400, "the request's body"},
		{"no body", "POST", "/v1/rules/pause", "", 400, "the request's body"},
		{"a selector that is none", "GET", "/v1/objects?source=pods&as=rows&selector=%21%21", "", 400, "label selector"},
		{"an unknown form", "GET", "/v1/objects?source=pods&as=xml", "", 400, "want names, rows or objects"},
		{"a query that is none", "GET", "/v1/objects?source=pods&as=rows&%zz=;", "", 200, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := http.NewRequest(test.method, "http://x"+test.path, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			response, text, err := send(socket, r)
			if err != nil {
				if len(test.path)+len(test.body) < 100_000 {
					t.Error(err)
				}
				return // who sends that much may be hung up on before it reads an answer
			}
			if response.StatusCode != test.code || !strings.Contains(string(text), test.want) {
				t.Errorf("%d %s, want %d %s", response.StatusCode, text, test.code, test.want)
			}
			var said Error
			if test.want != "" && (json.Unmarshal(text, &said) != nil || said.Message == "") {
				t.Errorf("%s is no error as JSON", text)
			}
		})
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func send(socket string, r *http.Request) (*http.Response, []byte, error) {
	response, err := raw(socket).Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response, text, err
}

func TestRequestsThatAreNotHTTP(t *testing.T) {
	t.Parallel()
	c, socket := serve(t, newBackend())
	for _, text := range []string{"\x00\x01\x02", "GET / HTTP/9.9\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", strings.Repeat("x", 1<<20)} {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text+"\r\n\r\n") // it may be hung up on
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPanicsAreContained(t *testing.T) {
	b := newBackend()
	well := b.status
	b.status = func() Status { panic("boom") }
	var log bytes.Buffer
	c, _ := serve(t, b, func(s *Server) { s.log = slog.New(slog.NewTextHandler(&log, nil)) })
	if _, err := c.Status(t.Context()); err == nil || err.Error() != "informd failed to answer: boom; its log says more" {
		t.Errorf("got %v", err)
	}
	b.status = well
	if _, err := c.Status(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "stack=") {
		t.Errorf("logged %s", log.String())
	}
}

// An answer that fails halfway does not look like a whole one.
func TestTruncatedAnswer(t *testing.T) {
	t.Parallel()
	b := newBackend()
	o := parse(t, `{"metadata":{"name":"`+strings.Repeat("x", 200)+`"}}`)
	b.objects.Objects = append(slices.Repeat([]*object.Object{o}, 5000), nil) // of which nobody can make a line
	c, _ := serve(t, b)
	objects, err := c.Objects(t.Context(), Query{Source: "pods"}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	n := 0
	for _, err = range objects.All() {
		n++
	}
	if err == nil || !strings.Contains(err.Error(), "broke off") || n > 5001 {
		t.Errorf("after %d objects: %v", n, err)
	}
}

// A client that does not read costs the daemon no more than a chunk.
func TestSlowClient(t *testing.T) {
	b := newBackend()
	o := parse(t, `{"metadata":{"name":"large"},"data":"`+strings.Repeat("x", 64<<10)+`"}`)
	b.objects.Objects = slices.Repeat([]*object.Object{o}, 4000) // 256 MB
	c, socket := serve(t, b)
	before := heap()
	conn := ask(t, socket, "/v1/objects?source=pods&as=objects")
	defer func() { _ = conn.Close() }()
	for range 10 {
		if grown := heap() - before; grown > 16<<20 {
			t.Fatalf("a client that does not read costs %d MB", grown>>20)
		}
		if _, err := c.Status(t.Context()); err != nil { // meanwhile others are served
			t.Fatal(err)
		}
	}
}

// It is hung up on in the end.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	b := newBackend()
	o := parse(t, `{"metadata":{"name":"large"},"data":"`+strings.Repeat("x", 64<<10)+`"}`)
	b.objects.Objects = slices.Repeat([]*object.Object{o}, 4000)
	_, socket := serve(t, b, func(s *Server) { s.stall = time.Second })
	conn := ask(t, socket, "/v1/objects?source=pods&as=objects")
	defer func() { _ = conn.Close() }()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := conn.Write([]byte{'x'}); errors.Is(err, syscall.EPIPE) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server still waits for somebody who does not read")
		}
	}
}

// ask sends a request and reads the first line of the answer.
func ask(t *testing.T, socket, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	if err != nil || !strings.Contains(line, "200 OK") {
		t.Fatal(line, err)
	}
	return conn
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestConcurrentClients(t *testing.T) {
	t.Parallel()
	b := newBackend()
	for n := range 100 {
		b.letters = append(b.letters, letter(fmt.Sprintf("crashes/%d", n), "crashes"))
	}
	var busy, most atomic.Int64
	well := b.status
	b.status = func() Status {
		n := busy.Add(1)
		defer busy.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return well()
	}
	c, _ := serve(t, b)
	var done atomic.Int64
	var clients sync.WaitGroup
	for n := range 100 { // three times what is served at once
		clients.Go(func() {
			if _, err := c.Status(t.Context()); err != nil {
				t.Error(err)
			}
			o, err := c.Drop(t.Context(), LetterChoice{IDs: []string{fmt.Sprintf("crashes/%d", n)}})
			if err != nil {
				t.Error(err)
			}
			done.Add(int64(o.Done))
		})
	}
	clients.Wait()
	if done.Load() != 100 || most.Load() > maxConnections {
		t.Errorf("%d letters were dropped, %d clients were served at once", done.Load(), most.Load())
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	c, socket := serve(t, newBackend())
	idle := make([]net.Conn, maxConnections)
	for n := range idle {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		idle[n] = conn
	}
	answered := make(chan error)
	go func() {
		_, err := c.Status(t.Context())
		answered <- err
	}()
	_ = idle[0].Close() // the next has its place
	if err := <-answered; err != nil {
		t.Error(err)
	}
	for _, conn := range idle[1:] {
		_ = conn.Close()
	}
}
