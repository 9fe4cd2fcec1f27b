package e2e

import (
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// link is a TCP proxy. One process uses it as the way to another one, and a test does harm to it.
type link struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond // of mu
	isCut   bool       // connections break, and new ones end at once
	silent  [2]bool    // by way: bytes wait
	ended   bool
	conns   map[net.Conn]struct{}
}

// These are the ways of a link: to the target, and back.
const (
	forth = iota
	back
)

// newLink returns a link to target, which works until the end of the test.
func newLink(t testing.TB, target string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{target: target, listener: listener, conns: make(map[net.Conn]struct{})}
	l.changed = sync.NewCond(&l.mu)
	l.running.Go(l.accept)
	t.Cleanup(func() {
		l.set(func() { l.ended, l.isCut = true, true })
		_ = listener.Close()
		l.running.Wait()
	})
	return l
}

func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return // the test ends
		}
		l.running.Go(func() { l.join(conn.(*net.TCPConn)) })
	}
}

// join connects a connection with the target, until one of them ends.
func (l *link) join(conn *net.TCPConn) {
	if !l.add(conn) {
		return
	}
	defer l.remove(conn)
	dialed, err := net.DialTimeout("tcp", l.target, 5*time.Second)
	if err != nil || !l.add(dialed) {
		return
	}
	defer l.remove(dialed)
	var both sync.WaitGroup
	both.Go(func() { l.pass(dialed, conn, forth) })
	both.Go(func() { l.pass(conn, dialed, back) })
	both.Wait()
}

// pass copies bytes one way. What it has read before a silence, it may still write.
func (l *link) pass(to, from net.Conn, way int) {
	defer l.breakOff(to, from)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !l.mayPass(way) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// mayPass waits while a way is silent. It returns false if the connection is to end.
func (l *link) mayPass(way int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.silent[way] && !l.isCut {
		l.changed.Wait()
	}
	return !l.isCut
}

// add takes a connection into the link. If the link is cut, it breaks the connection instead.
func (l *link) add(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		l.breakOff(conn)
		return false
	}
	l.conns[conn] = struct{}{}
	return true
}

func (l *link) remove(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
	l.breakOff(conn)
}

// breakOff resets connections: their other ends lose what they have not read.
func (l *link) breakOff(conns ...net.Conn) {
	for _, conn := range conns {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// set changes what the link does.
func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	if l.isCut = l.isCut || l.ended; l.isCut {
		l.breakAll()
	}
	l.changed.Broadcast()
}

// breakAll breaks all connections. The caller holds mu.
func (l *link) breakAll() {
	for conn := range l.conns {
		l.breakOff(conn)
	}
}

// links are those between replicas, and from each replica to the API server, by the names of
// both ends.
type links map[[2]string]*link

// apiServer is the name of the API server in links.
const apiServer = "API server"

// cut breaks the connections between two, and refuses new ones.
func (n links) cut(a, b string) {
	for _, ends := range [][2]string{{a, b}, {b, a}} {
		if l := n[ends]; l != nil {
			l.set(func() { l.isCut = true })
		}
	}
}

// silence makes everything wait that one sends to another, in the connections of both.
func (n links) silence(from, to string) {
	if l := n[[2]string{from, to}]; l != nil {
		l.set(func() { l.silent[forth] = true })
	}
	if l := n[[2]string{to, from}]; l != nil {
		l.set(func() { l.silent[back] = true })
	}
}

// heal makes all links work. The connections of silent ones either end, or go on with what has
// waited meanwhile, as TCP does.
func (n links) heal(breaks bool) {
	for _, l := range n {
		l.set(func() {
			if breaks && (l.silent[forth] || l.silent[back]) {
				l.breakAll()
			}
			l.isCut, l.silent = false, [2]bool{}
		})
	}
}

// connect makes the links between the replicas, and from each to the API server, and starts all
// replicas anew.
func (r *replicated) connect() {
	r.t.Helper()
	config, err := clientcmd.LoadFromFile(r.cluster.Kubeconfig())
	if err != nil {
		r.t.Fatal(err)
	}
	server := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	at, err := url.Parse(server.Server)
	if err != nil {
		r.t.Fatal(err)
	}
	target := at.Host
	r.network = make(links)
	for _, one := range r.replicas {
		for _, other := range r.replicas {
			if other != one {
				r.network[[2]string{one.name, other.name}] = newLink(r.t, other.address)
			}
		}
		l := newLink(r.t, target)
		r.network[[2]string{one.name, apiServer}] = l
		at.Host, one.kubeconfig = l.address(), filepath.Join(r.t.TempDir(), "kubeconfig")
		server.Server = at.String()
		if err := clientcmd.WriteToFile(*config, one.kubeconfig); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, one := range r.replicas {
		one.daemon.Stop()
		one.daemon = nil
	}
	r.startAll()
}
