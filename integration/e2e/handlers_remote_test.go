package e2e

import (
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/informd/informd/integration/address"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler/handlertest/testca"
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

// elsewhere is a stage whose steady is remote: a DNS name with up to two players behind it.
type elsewhere struct {
	*harness.Stage
	zone     *zone
	one, two string // the hosts, in the order that reports have them
	port     string
	env      []string
}

func playElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	s := harness.NewStage(t, "")
	ca := testca.New(t, s.Dir, "ca")
	cert, key := ca.Issue(t, "steady", "steady.test")
	ca.Issue(t, "informd")
	e := &elsewhere{Stage: s, zone: serveZone(t, "steady.test"), env: []string{"PLAYER_PAUSE=60ms", "PLAYER_CERT=" + cert, "PLAYER_KEY=" + key, "PLAYER_CA=" + ca.File}}
	free := harness.FreeAddress(t)
	beside, err := address.Beside(free)
	if err != nil {
		t.Fatal(err)
	}
	e.one, e.port, _ = net.SplitHostPort(free)
	e.two, _, _ = net.SplitHostPort(beside)
	s.Where = fmt.Sprintf("address: dns://%s/steady.test:%s, tls: {ca: ca.pem, cert: informd.pem, key: ./informd.key}", e.zone.conn.LocalAddr(), e.port)
	s.Write(t, harness.SteadySpec, "")
	return e
}

// player starts a player on a host and waits until it serves.
func (e *elsewhere) player(t *testing.T, host string) *exec.Cmd {
	t.Helper()
	at := net.JoinHostPort(host, e.port)
	cmd := exec.Command(filepath.Join(e.Dir, "player"), "steady", filepath.Join(e.Dir, "ledger"))
	cmd.Env = append(os.Environ(), append(e.env, "PLAYER_ADDRESS="+at)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(10 * time.Millisecond) {
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

// endpoints returns steady's endpoints from informd status.
func (e *elsewhere) endpoints() []endpointStatus {
	e.T.Helper()
	code, stdout, stderr := harness.RunCommand(e.T, harness.Binary, "status", "-o", "json", "--state-dir", e.State)
	if code != 0 {
		e.T.Fatalf("informd status: exit code %d\n%s", code, stderr)
	}
	var status struct {
		Handlers []struct{ Endpoints []endpointStatus }
	}
	if err := json.Unmarshal([]byte(stdout), &status); err != nil || len(status.Handlers) != 1 {
		e.T.Fatalf("%v\n%s", err, stdout)
	}
	return status.Handlers[0].Endpoints
}

// awaitEndpoints waits until exactly the endpoints at these addresses run.
func (e *elsewhere) awaitEndpoints(addresses ...string) {
	e.T.Helper()
	e.Poll(fmt.Sprint("the endpoints to be ", addresses), func() bool {
		var running []string
		for _, one := range e.endpoints() {
			if one.State == "running" {
				running = append(running, strings.TrimSuffix(one.Address, ":"+e.port))
			}
		}
		return slices.Equal(running, addresses)
	})
}

// Two remote endpoints share the work. Under load, the test kills them in turn and starts them
// again, ends one in order, and changes the name's addresses. Nothing is lost, and each object's
// events stay in order over all endpoints.
func TestRemoteUnderLoad(t *testing.T) {
	t.Parallel()
	rate := 100
	if harness.Soak() {
		rate = 1000
	}
	e := playElsewhere(t)
	one, two := e.one, e.two
	e.Informd = harness.Binary
	players := map[string]*exec.Cmd{one: e.player(t, one), two: e.player(t, two)}
	e.zone.set(one, two)
	if code, _, stderr := harness.RunCommand(t, harness.Binary, "check", "--handlers", "-f", e.Rules()); code != 0 {
		t.Errorf("informd check: %s", stderr)
	}
	e.Open(t, nil)
	e.awaitEndpoints(one, two)
	if n := e.Metric(`informd_handler_endpoints{handler="steady",state="running"}`); n != "2" {
		t.Errorf("%s endpoints run, as the metrics have it", n)
	}
	e.AwaitDelivered()
	e.Play(rate)
	for _, address := range []string{one, two, one, two} {
		other := one + two
		other = strings.TrimPrefix(strings.TrimSuffix(other, address), address)
		e.killInFlight(players[address])
		e.awaitEndpoints(other)
		so := e.Metric(steadyDone)
		e.Poll("the other to go on alone", func() bool { return e.Metric(steadyDone) != so })
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
	e.Poll("the endpoint to be let go of", func() bool { return len(e.endpoints()) == 1 })
	if code, _, stderr := e.Reload("steady"); code != 1 || !strings.Contains(stderr, "runs elsewhere") {
		t.Errorf("informd handler reload: exit code %d, %s", code, stderr)
	}
	e.Rest()
	e.wantOrdered()
	if letters := e.Metric("informd_dead_letters"); letters != "0" {
		t.Errorf("%s dead letters", letters)
	}
	_, table, _ := harness.Informd(t, "status", "--state-dir", e.State)
	t.Logf("\n%s", table)
	e.Stop()
}

// informd handler check checks a remote handler by its address.
func TestCheckRemote(t *testing.T) {
	t.Parallel()
	e := playElsewhere(t)
	one := e.one
	e.player(t, one)
	e.zone.set(one)
	at := fmt.Sprintf("dns://%s/steady.test:%s", e.zone.conn.LocalAddr(), e.port)
	file := func(name string) string { return filepath.Join(e.Dir, name) }
	args := []string{"handler", "check", "--address", at, "--tls-ca", file("ca.pem"), "--tls-cert", file("informd.pem"), "--tls-key", file("informd.key")}
	code, stdout, stderr := harness.RunCommand(t, harness.Binary, args...)
	// Players accept any config.
	if code != 1 || !strings.Contains(stdout, "\nok    answers in parallel\n") || strings.Count(stdout, "FAIL  ") != 1 || !strings.Contains(stdout, "\nFAIL  refuses a bad config\n") ||
		!strings.Contains(stdout, "\n-     comes back after kill -9\n      not checked: it is for whoever starts the handler\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	e.zone.set()
	code, stdout, _ = harness.RunCommand(t, harness.Binary, args...)
	if code != 1 || !strings.Contains(stdout, "steady.test has no address") {
		t.Errorf("of no address: exit code %d\n%s", code, stdout)
	}
}

const steadyDone = `informd_handler_deliveries_total{handler="steady",result="done",rule="steady"}`

// killInFlight kills a player that has written an event's line and not answered it yet.
func (e *elsewhere) killInFlight(player *exec.Cmd) {
	e.T.Helper()
	path := filepath.Join(e.Dir, "ledger")
	pid := fmt.Sprintf(" %d ", player.Process.Pid)
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			e.T.Fatal(err)
		}
		return info.Size()
	}
	ledger, err := os.Open(path)
	if err != nil {
		e.T.Fatal(err)
	}
	defer ledger.Close()
	before := size()
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(time.Millisecond) {
		added := make([]byte, size()-before)
		if _, err := ledger.ReadAt(added, before); err != nil && err != io.EOF {
			e.T.Fatal(err)
		}
		before += int64(len(added))
		if strings.Contains(string(added), pid) {
			break
		} else if time.Now().After(deadline) {
			e.T.Fatalf("player%sgets no events", pid)
		}
	}
	if err := player.Process.Kill(); err != nil {
		e.T.Fatal(err)
	}
	_ = player.Wait()
}

// wantOrdered checks that steady got every change of every widget in order. A change may come
// several times before the next one.
func (e *elsewhere) wantOrdered() {
	e.T.Helper()
	got, again := make(map[string][]int64), 0
	processes := make(map[int]int)
	for _, line := range e.Ledger() {
		versions := got[line.Name]
		processes[line.Pid]++
		if len(versions) > 0 && versions[len(versions)-1] == line.Version {
			again++
			continue
		}
		got[line.Name] = append(versions, line.Version)
	}
	wrong := 0
	for name, want := range e.Changes() {
		if !slices.Equal(got[name], want) {
			if wrong++; wrong <= 5 {
				n := harness.Same(got[name], want)
				e.T.Errorf("steady: %s came %d times, want %d; they are the same up to number %d: then %d, want %d", name, len(got[name]), len(want), n,
					got[name][n:min(n+3, len(got[name]))], want[n:min(n+3, len(want))])
			}
		}
	}
	if wrong > 5 {
		e.T.Errorf("%d widgets are wrong", wrong)
	}
	if again == 0 {
		e.T.Error("no event came again: none was with a player that was killed")
	}
	e.T.Logf("events per process: %v; %d came again", processes, again)
}
