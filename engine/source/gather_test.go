package source

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// peer is a connection whose kernel buffers what was sent.
type peer struct {
	net.Conn // nil

	mu    sync.Mutex
	sent  bytes.Buffer
	ended bool
	wake  chan struct{} // capacity 1
	reads int
}

func newPeer() *peer { return &peer{wake: make(chan struct{}, 1)} }

func (s *peer) send(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent.Write(text)
	s.ended = text == nil
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *peer) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		n, _ := s.sent.Read(p)
		ended := s.ended
		if n > 0 {
			s.reads++
		}
		s.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if ended {
			return 0, io.EOF
		}
		<-s.wake
	}
}

// readAll sends a text after each pause, and returns how long each waited to be read, and how many
// reads that took.
func readAll(t *testing.T, g gatherer, pauses []time.Duration, size int) (waited []time.Duration, reads int) {
	synctest.Test(t, func(t *testing.T) {
		s := newPeer()
		g.Conn = s
		sent := make([]time.Time, len(pauses))
		go func() {
			for i, pause := range pauses {
				time.Sleep(pause)
				sent[i] = time.Now()
				s.send(bytes.Repeat([]byte{byte(i)}, size))
			}
			s.send(nil)
		}()
		one := make([]byte, size)
		for i := 0; ; i++ {
			if _, err := io.ReadFull(&g, one); err == io.EOF {
				break
			} else if err != nil || one[0] != byte(i) {
				t.Fatalf("got %v, %v; want %d", one[0], err, i)
			}
			waited = append(waited, time.Since(sent[i]))
		}
		reads = s.reads
	})
	if len(waited) != len(pauses) {
		t.Fatalf("read %d of %d", len(waited), len(pauses))
	}
	return waited, reads
}

func TestGather(t *testing.T) {
	every := func(pause time.Duration, n int) []time.Duration {
		return slices.Repeat([]time.Duration{pause}, n)
	}
	for _, c := range []struct {
		why     string
		pauses  []time.Duration
		least   int           // reads
		most    int           // reads
		longest time.Duration // that one waited
	}{
		{"100 a second go at once", every(10*time.Millisecond, 50), 50, 50, 0},
		{"a few together go at once", slices.Concat(every(0, 1), every(time.Millisecond, 3)), 4, 4, 0},
		{"1,000 a second are read together", every(time.Millisecond, 1000), 105, 115, gatherPause},
		{"after a lull the next goes at once",
			slices.Concat(every(time.Millisecond, 101), every(time.Second, 3)), 16, 21, gatherPause},
		{"125 a second wait no longer", every(8*time.Millisecond, 200), 100, 200, gatherPause},
	} {
		waited, reads := readAll(t, gatherer{}, c.pauses, 1)
		if longest := slices.Max(waited); longest > c.longest {
			t.Errorf("%s: one waited for %v, more than %v", c.why, longest, c.longest)
		}
		if reads < c.least || reads > c.most {
			t.Errorf("%s: %d reads, want %d to %d", c.why, reads, c.least, c.most)
		}
		if last := waited[len(waited)-1]; c.pauses[len(c.pauses)-1] >= time.Second && last > 0 {
			t.Errorf("%s: it waited for %v", c.why, last)
		}
	}
}

// With replicas more is read together, and less of it if much comes.
func TestGatherForReplicas(t *testing.T) {
	pauses := slices.Repeat([]time.Duration{time.Millisecond}, 1000)
	for _, c := range []struct {
		size        int // bytes
		least, most int // reads
		longest     time.Duration
	}{
		{100, 54, 62, gatherSmall},
		{3000, 2 * 54, 2 * 62, gatherSmall}, // a read takes eleven of them
		{8000, 230, 320, gatherSmall},       // a read takes four; the first pauses are the long ones
	} {
		waited, reads := readAll(t, gatherer{isReplicated: true}, pauses, c.size)
		if longest := slices.Max(waited); longest > c.longest {
			t.Errorf("%d bytes: one waited for %v, more than %v", c.size, longest, c.longest)
		}
		if longest := slices.Max(waited[500:]); c.size == 8000 && longest > gatherShare {
			t.Errorf("%d bytes: one waited for %v, more than %v", c.size, longest, gatherShare)
		}
		if reads < c.least || reads > c.most {
			t.Errorf("%d bytes: %d reads, want %d to %d", c.size, reads, c.least, c.most)
		}
	}
}

// What is there already is read without a pause, however much it is.
func TestGatherBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPeer()
		g := &gatherer{Conn: s}
		g.row = gatherRow
		text := bytes.Repeat([]byte("0123456789"), gatherBytes)
		s.send(text)
		began := time.Now()
		got := make([]byte, len(text))
		if _, err := io.ReadFull(g, got); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
		if took := time.Since(began); took > gatherPause {
			t.Errorf("it took %v", took)
		}
	})
}

// A socket that has paused reports a single byte again, and its end.
func TestGatherFromSocket(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("package rawcall works on Linux only")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	server := make(chan net.Conn, 1)
	go func() {
		conn, _ := listener.Accept()
		server <- conn
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	g := newGatherer(conn)
	defer g.Close()
	s := <-server
	if g.socket == nil || s == nil {
		t.Fatal("no socket")
	}
	send := func(text string) {
		t.Helper()
		if _, err := io.WriteString(s, text); err != nil {
			t.Fatal(err)
		}
	}
	want := func(text string) {
		t.Helper()
		got := make([]byte, 100)
		if n, err := g.Read(got); err != nil || string(got[:n]) != text {
			t.Fatalf("read %q, %v; want %q", got[:n], err, text)
		}
	}
	send("a")
	want("a")
	// On a busy machine a goroutine may come late, so both get several tries.
	await(t, "a read of all that came during its pause", func() bool {
		g.row = gatherRow
		go func() {
			for _, text := range []string{"b", "c", "d"} {
				_, _ = io.WriteString(s, text)
			}
		}()
		got := make([]byte, 100)
		first, err := g.Read(got)
		for n := first; n < 3 && err == nil; {
			var more int
			more, err = g.Read(got[n:])
			n += more
		}
		if err != nil || string(got[:3]) != "bcd" {
			t.Fatalf("read %q, %v; want bcd", got[:3], err)
		}
		return first == 3
	})
	await(t, "a read after a lull that ends the row", func() bool {
		g.row = gatherRow
		go func() {
			time.Sleep(2 * gatherPause) // the pause finds nothing
			_, _ = io.WriteString(s, "e")
		}()
		want("e")
		return g.row == 0
	})
	g.row = gatherRow
	s.Close()
	if n, err := g.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read %d, %v; want the end", n, err)
	}
}
