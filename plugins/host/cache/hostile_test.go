package cache

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handlerpb"
)

// large is a source of 64 MB.
func large() *fake {
	var all fakeSource
	for i := range 20_000 {
		all = append(all, fakeObject{fmt.Sprintf("a/x%05d", i), strings.Repeat("x", 3200)})
	}
	return &fake{sources: map[string]fakeSource{"large": all, "pods": pods}}
}

// A process that asks for much and reads nothing costs the daemon a bounded number of pages, and
// harms only itself. Once it cancels or reads, everything works again.
func TestSlowReader(t *testing.T) {
	shorten(t, &takeTimeout, time.Second)
	s := served(t, large(), "large", "pods")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var refused codes.Code
	for range 5 { // connections
		c, _ := connect(t, s)
		for range maxCalls / 2 {
			pages, err := c.List(ctx, &handlerpb.ListRequest{Source: "large"})
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = pages.Header() }() // but it never receives
		}
	}
	last, _ := connect(t, s)
	waitFor(t, "a long answer that is refused", func() bool {
		pages, err := last.List(ctx, &handlerpb.ListRequest{Source: "large"})
		if err == nil {
			_, err = pages.Recv()
		}
		refused = status.Code(err)
		return refused == codes.ResourceExhausted
	})
	if _, err := last.Get(t.Context(), &handlerpb.GetRequest{Source: "pods", Namespace: "a", Name: "web"}); err != nil {
		t.Errorf("short answers have places left: %v", err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2*maxPages*handlerpb.MaxPageBytes {
		t.Errorf("%d MB more in the heap", grown>>20)
	}
	if n := len(s.listener.pages); n > maxPages {
		t.Errorf("%d pages", n)
	}
	cancel()
	s.untaken(t, 0)
	pages, err := last.List(t.Context(), &handlerpb.ListRequest{Source: "large"})
	if all, _ := elementsOf(t, pages, err, (*handlerpb.ObjectPage).GetObjects); len(all) != 20_000 {
		t.Errorf("%d objects in the end", len(all))
	}
	s.untaken(t, 0)
}

// Pages of calls that ended are still there if the process does not read its connection; they go
// with it.
func TestDeafConnection(t *testing.T) {
	s := served(t, large(), "large", "pods")
	conn := raw(t, s)
	var keys []string
	for i := range 70 {
		keys = append(keys, fmt.Sprintf("a/x%05d", i))
	}
	// The server reads no further call once an answer is in the way. So it has to get all of them
	// with one read.
	conn.atOnce(t, func(conn rawConn) {
		for n := range uint32(maxCalls) {
			conn.call(t, 2*n+1, "GetMany", &handlerpb.GetManyRequest{Source: "large", Keys: keys})
		}
	})
	waitFor(t, "pages that nobody takes", func() bool { return len(s.listener.pages) > maxPages/2 })
	_ = conn.Close()
	s.untaken(t, 0)
}

// The server stops reading from a process that makes call after call and cancels each without
// reading.
func TestAnswersThatNobodyTakes(t *testing.T) {
	s := served(t, large(), "pods")
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	var flooding sync.WaitGroup
	for range maxConnections {
		conn := raw(t, s)
		flooding.Go(func() {
			const behind = maxCalls / 2 // by then it is answered
			for n := uint32(0); n < 20_000; n++ {
				_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
				if conn.try(2*n+1, "Get", &handlerpb.GetRequest{Source: "pods", Name: "none"}) != nil || n >= behind && conn.reset(2*(n-behind)+1) != nil {
					return
				}
			}
		})
	}
	flooding.Wait()
	if grown := heap() - before; grown > 16<<20 {
		t.Errorf("%d MB more in the heap", grown>>20)
	}
}

// No client keeps an answer for ever. A slow reader gets an error. A client that does not read at
// all loses its connection.
func TestLongAnswersEnd(t *testing.T) {
	shorten(t, &longTimeout, 300*time.Millisecond)
	shorten(t, &takeTimeout, time.Second)
	s := served(t, large(), "large")
	c, _ := connect(t, s)
	pages, err := c.List(t.Context(), &handlerpb.ListRequest{Source: "large"})
	if err == nil {
		_, err = pages.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	pause := time.NewTimer(2 * longTimeout)
	<-pause.C
	for err == nil {
		_, err = pages.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "ask for parts of it, by limit and after") {
		t.Errorf("got %v", err)
	}

	conn := raw(t, s)
	conn.call(t, 1, "List", &handlerpb.ListRequest{Source: "large"})
	waitFor(t, "the answer", func() bool { return len(s.listener.pages) > 0 })
	s.untaken(t, 0)
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the connection stays")
	}
}

// Calls and connections beyond the bounds wait.
func TestManyConnections(t *testing.T) {
	shorten(t, &greetTimeout, time.Second)
	s := served(t, large(), "pods")
	var conns []net.Conn
	for range 3 * maxConnections { // the kernel keeps some waiting
		conn, err := net.Dial("unix", s.Path())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	waitFor(t, "all places taken", func() bool { return len(s.listener.places) == maxConnections })
	// Who says nothing loses its place soon, and others have theirs.
	c, _ := connect(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := c.Get(ctx, &handlerpb.GetRequest{Source: "pods"}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// Garbage, or an enormous call, ends at most its own connection.
func TestGarbage(t *testing.T) {
	shorten(t, &greetTimeout, time.Second)
	s := served(t, large(), "pods")
	well, _ := connect(t, s)
	sound := func(what string) {
		t.Helper()
		if _, err := well.Get(t.Context(), &handlerpb.GetRequest{Source: "pods"}); err != nil {
			t.Errorf("after %s: %v", what, err)
		}
	}
	for what, garbage := range map[string]string{
		"HTTP/1": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "nothing": "", "zeros": strings.Repeat("\x00", 1<<16), "a preface and no more": preface,
	} {
		conn, err := net.Dial("unix", s.Path())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, garbage)
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: the connection stays", what)
		}
		_ = conn.Close()
		sound(what)
	}

	c, _ := connect(t, s)
	fat := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", maxHeader))
	if _, err := c.Get(fat, &handlerpb.GetRequest{Source: "pods"}); err == nil {
		t.Error("a call with more metadata than is allowed was answered")
	}
	sound("metadata")

	// A flood of calls that are given up at once.
	conn := raw(t, s)
	go func() { // until the test's end, or the connection's
		for stream := uint32(1); conn.headers(stream, "Get") == nil && conn.reset(stream) == nil; stream += 2 {
		}
	}()
	for range 20 {
		sound("a flood of resets")
	}
}

// Only the handler's own processes are answered.
func TestOthersAreTurnedAway(t *testing.T) {
	sleep := exec.Command("sleep", "60") // nobody's parent
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = sleep.Process.Kill(), sleep.Wait() }()
	var log lockedBuffer
	s := servedTo(t, sleep.Process.Pid, slog.New(slog.NewTextHandler(&log, nil)), large(), "pods")
	c, _ := connect(t, s)
	for range 3 {
		if _, err := c.Get(t.Context(), &handlerpb.GetRequest{Source: "pods"}); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	}
	if lines := strings.Count(log.String(), "refused a process"); lines != 1 {
		t.Errorf("%d lines in the log within a minute:\n%s", lines, log.String())
	}
}

func TestPace(t *testing.T) {
	p := newListener(nil, nil)
	now := time.Unix(1000, 0)
	if wait := p.pay(readBurst, now); wait > 0 {
		t.Errorf("the first MiB waits %v", wait)
	}
	if wait := p.pay(readRate, now); wait != time.Second {
		t.Errorf("a second's worth more waits %v", wait)
	}
	if wait := p.pay(0, now.Add(time.Hour)); wait > 0 {
		t.Errorf("after an hour there is %v to wait", wait)
	}
	if wait := p.pay(2*readBurst, now.Add(time.Hour)); wait != readBurst*time.Second/readRate {
		t.Errorf("no more than a burst is saved: %v", wait)
	}
}

// A closed server lets go of everything, whatever is under way.
func TestClose(t *testing.T) {
	f := large()
	f.unsynced = map[string]bool{"pods": true}
	s := served(t, f, "large", "pods")
	c, _ := connect(t, s)
	waiting := make(chan error)
	go func() {
		_, err := c.Get(t.Context(), &handlerpb.GetRequest{Source: "pods"})
		waiting <- err
	}()
	pages, err := c.List(t.Context(), &handlerpb.ListRequest{Source: "large"})
	if err == nil {
		_, err = pages.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := <-waiting; status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	if len(s.listener.pages) != 0 {
		t.Errorf("%d pages are left", len(s.listener.pages))
	}
	s.Close()
}
