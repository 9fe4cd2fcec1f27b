package replica

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// siege is what strangers do: each opens a connection from one of addresses, says hello on it, and
// nothing more. When it is closed, the stranger opens another one.
type siege struct {
	strangers int
	addresses []string
	hello     []byte
}

// on begins a siege of target, until end is called.
func (s siege) on(target string) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range s.strangers {
		from := net.TCPAddr{IP: net.ParseIP(s.addresses[i%len(s.addresses)])}
		all.Go(func() {
			dialer := net.Dialer{LocalAddr: &from}
			for ctx.Err() == nil {
				conn, err := dialer.DialContext(ctx, "tcp", target)
				if err != nil {
					continue
				}
				_, _ = conn.Write(s.hello)
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = io.Copy(io.Discard, conn) // until it is closed
				stop()
				_ = conn.(*net.TCPConn).SetLinger(0) // so that it leaves no port in use
				_ = conn.Close()
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	from     string
	isClosed bool
}

func (a *addressed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.from))
}

func (a *addressed) Close() error {
	a.isClosed = true
	return nil
}

func TestTheAddressWithTheMostStrangersMakesRoom(t *testing.T) {
	t.Parallel()
	s := strangers{most: 3}
	var all []*addressed
	for _, from := range []string{
		"192.0.2.1:1", "[2001:db8::1]:1", "[2001:db8::2]:1", "192.0.2.2:1", "[::ffff:192.0.2.2]:2",
	} {
		all = append(all, &addressed{from: from})
		s.add(all[len(all)-1])
	}
	for i, isClosed := range []bool{false, true, false, true, false} {
		if all[i].isClosed != isClosed {
			t.Errorf("%s is closed: %v", all[i].from, !isClosed)
		}
	}
	for _, one := range all {
		s.remove(one)
	}
	if len(s.all) != 0 || len(s.counts) != 0 {
		t.Errorf("%v %v are left", s.all, s.counts)
	}
	s.close()
	last := &addressed{from: "192.0.2.1:1"}
	if s.add(last); !last.isClosed {
		t.Error("a connection is added after the end")
	}
}

// helloOfTLS returns the first bytes of a client.
func helloOfTLS(t *testing.T) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(theirs, &tls.Config{InsecureSkipVerify: true}).Handshake()
	}()
	hello := make([]byte, 16<<10)
	n, err := ours.Read(hello)
	_ = ours.Close()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	return hello[:n]
}

// Members connect to a member soon, whoever else connects to it and says nothing, again and again.
func TestStrangersThatComeAgainKeepNoMemberAway(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprint("127.0.0.", i+2))
	}
	for name, siege := range map[string]siege{
		"from another address":      {3 * maxMute, []string{"127.0.0.2"}, nil},
		"from many addresses":       {3 * maxMute, many, nil},
		"from the member's address": {3 * maxMute, []string{"127.0.0.1"}, nil},
		"which begin a handshake":   {2 * maxHandshakes, []string{"127.0.0.2"}, helloOfTLS(t)},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t)
			leader, term := c.leading()
			var follower *node
			for _, n := range c.nodes {
				if n != leader {
					follower = n
				}
			}
			c.propose(1, 10)
			c.settle()
			most := runtime.NumGoroutine() + siege.strangers + maxWelcomes
			defer siege.on(c.net.listeners[follower.name].Addr().String())()
			time.Sleep(200 * time.Millisecond)
			var answers, entries []time.Duration
			goroutines := 0
			for range 7 {
				follower.member.network.all.drop(func(*connection) bool { return true })
				began := time.Now()
				var answer report
				wait(t, "an answer", func() bool {
					return leader.member.others.ask(t.Context(), 5*time.Second, follower.name,
						http.MethodGet, "/info", nil, &answer) == nil
				})
				answers = append(answers, time.Since(began))
				began = time.Now()
				c.propose(1, 10)
				wait(t, "the entry", func() bool {
					return len(follower.storage.all()) >= len(leader.storage.all())
				})
				entries = append(entries, time.Since(began))
				goroutines = max(goroutines, runtime.NumGoroutine())
			}
			t.Logf("answers came after %v, entries after %v; %d goroutines, at most %d", answers, entries,
				goroutines, most)
			if goroutines > most {
				t.Errorf("%d goroutines, want at most %d", goroutines, most)
			}
			// An entry takes up to three seconds on a slow machine, and was up to half a minute late when
			// strangers kept members away.
			if slowest := slices.Max(append(answers, entries...)); slowest > 12*time.Second {
				t.Errorf("an answer or an entry took %v", slowest)
			}
			if term.Context().Err() != nil {
				t.Logf("the machine is busy: the term has ended: %v", context.Cause(term.Context()))
			}
		})
	}
}
