package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/informd/informd/internal/testca"
)

// zone is a DNS server that knows one name.
type zone struct {
	conn net.PacketConn
	name string

	mu        sync.Mutex
	addresses []netip.Addr
}

func serveZone(t *testing.T, name string) *zone {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	z := &zone{conn: conn, name: name}
	done := make(chan struct{})
	go func() {
		defer close(done)
		z.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return z
}

func (z *zone) set(addresses ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.addresses = nil
	for _, a := range addresses {
		z.addresses = append(z.addresses, netip.MustParseAddr(a))
	}
}

func (z *zone) serve() {
	buf := make([]byte, 2048)
	for {
		n, from, err := z.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		if answer, err := z.answer(m); err == nil {
			_, _ = z.conn.WriteTo(answer, from)
		}
	}
}

func (z *zone) answer(m dnsmessage.Message) ([]byte, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	q := m.Questions[0]
	out := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, Questions: m.Questions}
	if !strings.EqualFold(q.Name.String(), z.name+".") || len(z.addresses) == 0 {
		out.RCode = dnsmessage.RCodeNameError
	} else if q.Type == dnsmessage.TypeA {
		for _, a := range z.addresses {
			out.Answers = append(out.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 5},
				Body:   &dnsmessage.AResource{A: a.As4()},
			})
		}
	}
	return out.Pack()
}

// elsewhere has players play steady behind a name.
type elsewhere struct {
	*stage
	zone *zone
	port string
	env  []string
}

func playElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	s := newStage(t, "")
	ca := testca.New(t, s.dir, "ca")
	cert, key := ca.Issue(t, "steady", "steady.test")
	ca.Issue(t, "informd")
	e := &elsewhere{stage: s, zone: serveZone(t, "steady.test"), env: []string{"PLAYER_PAUSE=60ms", "PLAYER_CERT=" + cert, "PLAYER_KEY=" + key, "PLAYER_CA=" + ca.File}}
	_, e.port, _ = net.SplitHostPort(freeAddress(t))
	s.where = fmt.Sprintf("address: dns://%s/steady.test:%s, tls: {ca: ca.pem, cert: informd.pem, key: ./informd.key}", e.zone.conn.LocalAddr(), e.port)
	s.write(t, steadySpec, "")
	return e
}

// player starts one that serves at an address, and waits until it does.
func (e *elsewhere) player(t *testing.T, address string) *exec.Cmd {
	t.Helper()
	at := net.JoinHostPort(address, e.port)
	cmd := exec.Command(filepath.Join(e.dir, "player"), "steady", filepath.Join(e.dir, "ledger"))
	cmd.Env = append(os.Environ(), append(e.env, "PLAYER_ADDRESS="+at)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", at); err == nil {
			_ = conn.Close()
			return cmd
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

type endpointStatus struct {
	Address, State, Reason, Program string
	Restarts, InFlight              int
}

// endpoints are steady's, as informd status has them.
func (e *elsewhere) endpoints() []endpointStatus {
	e.t.Helper()
	code, stdout, stderr := runCommand(e.t, e.informd, "status", "-o", "json", "--state-dir", e.state)
	if code != 0 {
		e.t.Fatalf("informd status: exit code %d\n%s", code, stderr)
	}
	var status struct {
		Handlers []struct{ Endpoints []endpointStatus }
	}
	if err := json.Unmarshal([]byte(stdout), &status); err != nil || len(status.Handlers) != 1 {
		e.t.Fatalf("%v\n%s", err, stdout)
	}
	return status.Handlers[0].Endpoints
}

// awaitEndpoints waits until those at these addresses run, and there is no other that does.
func (e *elsewhere) awaitEndpoints(addresses ...string) {
	e.t.Helper()
	e.poll(fmt.Sprint("the endpoints to be ", addresses), func() bool {
		var running []string
		for _, one := range e.endpoints() {
			if one.State == "running" {
				running = append(running, strings.TrimSuffix(one.Address, ":"+e.port))
			}
		}
		return slices.Equal(running, addresses)
	})
}

// Two remote endpoints share the work; they are killed in turn and brought back under load, one is told to end, and the
// name's addresses change: nothing is lost, and order is kept per object over all of them.
func TestRemoteUnderLoad(t *testing.T) {
	const one, two = "127.0.0.1", "127.0.0.2"
	rate := 1000
	if testing.Short() {
		rate = 300
	}
	e := playElsewhere(t)
	if e.informd = plainInformd(t); t.Failed() {
		return
	}
	players := map[string]*exec.Cmd{one: e.player(t, one), two: e.player(t, two)}
	e.zone.set(one, two)
	if code, _, stderr := runCommand(t, e.informd, "check", "--handlers", "-f", e.rules()); code != 0 {
		t.Errorf("informd check: %s", stderr)
	}
	e.open(t, nil)
	e.awaitEndpoints(one, two)
	if n := e.metric(`informd_handler_endpoints{handler="steady",state="running"}`); n != "2" {
		t.Errorf("%s endpoints run, as the metrics have it", n)
	}
	e.awaitDelivered()
	e.play(rate)
	for _, address := range []string{one, two, one, two} {
		other := one + two
		other = strings.TrimPrefix(strings.TrimSuffix(other, address), address)
		if err := players[address].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = players[address].Wait()
		e.awaitEndpoints(other)
		so := e.metric(steadyDone)
		e.poll("the other to go on alone", func() bool { return e.metric(steadyDone) != so })
		players[address] = e.player(t, address)
		e.awaitEndpoints(one, two)
	}
	if err := players[two].Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := players[two].Wait(); err != nil {
		t.Errorf("the end of a player that was told to: %v", err)
	}
	e.zone.set(one)
	e.poll("the endpoint to be let go of", func() bool { return len(e.endpoints()) == 1 })
	if code, _, stderr := e.reload("steady"); code != 1 || !strings.Contains(stderr, "runs elsewhere") {
		t.Errorf("informd handler reload: exit code %d, %s", code, stderr)
	}
	e.rest()
	e.wantOrdered()
	if letters := e.metric("informd_dead_letters"); letters != "0" {
		t.Errorf("%s dead letters", letters)
	}
	_, table, _ := informd(t, "status", "--state-dir", e.state)
	t.Logf("\n%s", table)
	e.stop()
}

// A remote handler is checked by its address.
func TestCheckRemote(t *testing.T) {
	const one = "127.0.0.1"
	e := playElsewhere(t)
	e.player(t, one)
	e.zone.set(one)
	at := fmt.Sprintf("dns://%s/steady.test:%s", e.zone.conn.LocalAddr(), e.port)
	file := func(name string) string { return filepath.Join(e.dir, name) }
	args := []string{"handler", "check", "--address", at, "--tls-ca", file("ca.pem"), "--tls-cert", file("informd.pem"), "--tls-key", file("informd.key")}
	code, stdout, stderr := runCommand(t, binary, args...)
	// players take any config
	if code != 1 || !strings.Contains(stdout, "\nok    answers in parallel\n") || strings.Count(stdout, "FAIL  ") != 1 || !strings.Contains(stdout, "\nFAIL  refuses a bad config\n") ||
		!strings.Contains(stdout, "\n-     comes back after kill -9\n      not checked: it is for whoever starts the handler\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	e.zone.set()
	code, stdout, _ = runCommand(t, binary, args...)
	if code != 1 || !strings.Contains(stdout, "steady.test has no address") {
		t.Errorf("of no address: exit code %d\n%s", code, stdout)
	}
}

const steadyDone = `informd_handler_deliveries_total{handler="steady",result="done",rule="steady"}`

// wantOrdered checks that steady was told of every change of every widget in order; of one perhaps more than once, before the
// next.
func (e *elsewhere) wantOrdered() {
	e.t.Helper()
	got, again := make(map[string][]int64), 0
	processes := make(map[int]int)
	for _, line := range e.ledger() {
		versions := got[line.name]
		processes[line.pid]++
		if len(versions) > 0 && versions[len(versions)-1] == line.version {
			again++
			continue
		}
		got[line.name] = append(versions, line.version)
	}
	wrong := 0
	for name, want := range e.changes() {
		if !slices.Equal(got[name], want) {
			if wrong++; wrong <= 5 {
				n := same(got[name], want)
				e.t.Errorf("steady: %s came %d times, want %d; they are the same up to number %d: then %d, want %d", name, len(got[name]), len(want), n,
					got[name][n:min(n+3, len(got[name]))], want[n:min(n+3, len(want))])
			}
		}
	}
	if wrong > 5 {
		e.t.Errorf("%d widgets are wrong", wrong)
	}
	if again == 0 {
		e.t.Error("no event came again: none was with a player that was killed")
	}
	e.t.Logf("events per process: %v; %d came again", processes, again)
}
