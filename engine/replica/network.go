// This file owns how members connect: one port, TLS on both sides, and a byte that says what for.

package replica

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// A connection begins with one of these.
const (
	forRaft = 'r' // followed by a greeting, which is answered by a byte of its own
	forHTTP = 'c'
)

// network makes and takes connections. Any goroutine may use it.
type network struct {
	options *Options
	timing  timing
	self    *self
	log     *slog.Logger
	all     *connections

	mute     strangers     // nothing has come from them
	greeting strangers     // they have begun a handshake
	welcomes chan struct{} // has an element for each goroutine of welcome

	listener net.Listener
	raft     chan net.Conn // accepted, for raft
	http     chan net.Conn // accepted, for HTTP
	closing  chan struct{}
	close1   sync.Once
	group    sync.WaitGroup
}

// listen returns a network that accepts connections until close.
func listen(o *Options, t timing, s *self, log *slog.Logger) (*network, error) {
	open := o.Listen
	if open == nil {
		open = func() (net.Listener, error) {
			host, port, err := net.SplitHostPort(o.Peers[o.Name])
			if err != nil {
				return nil, err
			}
			if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
				host = "" // the others may know this machine by an address that it does not have
			}
			config := net.ListenConfig{KeepAliveConfig: keepAlive}
			return config.Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
		}
	}
	listener, err := open()
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the other replicas: %w", err)
	}
	n := &network{
		options: o, timing: t, self: s, log: log, all: newConnections(), listener: listener,
		raft: make(chan net.Conn), http: make(chan net.Conn), closing: make(chan struct{}),
		mute: strangers{most: maxMute}, greeting: strangers{most: maxHandshakes},
		welcomes: make(chan struct{}, maxWelcomes),
	}
	n.group.Go(n.accept)
	return n, nil
}

// keepAlive notices within half a minute that the other machine is gone.
var keepAlive = net.KeepAliveConfig{
	Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4,
}

// close closes the listener and all connections, for good, and waits for its goroutines.
func (n *network) close() {
	n.close1.Do(func() {
		close(n.closing)
		_ = n.listener.Close()
		n.mute.close()
		n.all.begin()
	})
	n.group.Wait()
}

// accept takes connections until close. It waits for none of them, only while there are maxWelcomes
// goroutines of welcome.
func (n *network) accept() {
	for {
		conn, err := n.listener.Accept()
		if err != nil {
			select {
			case <-n.closing:
				return
			case <-time.After(100 * time.Millisecond): // out of file descriptors, perhaps
				n.log.Debug("cannot accept a connection of another replica", "error", err)
				continue
			}
		}
		n.mute.add(conn)
		select {
		case n.welcomes <- struct{}{}:
		case <-n.closing:
			_ = conn.Close()
			return
		}
		n.group.Go(func() { n.welcome(conn) })
	}
}

// welcome makes the handshake on a stranger's connection, and passes it on.
func (n *network) welcome(raw net.Conn) {
	conn, kind, err := n.shakeHands(raw)
	<-n.welcomes
	if err != nil {
		n.log.Debug("refused a connection", "from", raw.RemoteAddr(), "error", err)
		_ = raw.Close()
		return
	}
	to := n.raft
	if kind == forHTTP {
		to = n.http
	}
	select {
	case to <- conn:
	case <-n.closing:
		_ = conn.Close()
	}
}

// shakeHands returns conn after the handshake, and what it is for.
func (n *network) shakeHands(raw net.Conn) (*connection, byte, error) {
	var first [1]byte
	err := raw.SetDeadline(time.Now().Add(n.timing.handshake))
	if err == nil {
		_, err = io.ReadFull(raw, first[:])
	}
	n.mute.remove(raw)
	if err != nil {
		return nil, 0, err
	}
	secure := tls.Server(&begun{raw, first[:]}, n.options.Identity.serverConfig(n.options.Peers))
	conn := &connection{Conn: secure, raw: raw, isInbound: true}
	if !n.all.add(conn) {
		return nil, 0, errSilent
	}
	n.greeting.add(conn)
	kind, err := n.hear(conn, secure)
	n.greeting.remove(conn)
	if err != nil {
		_ = conn.Close()
		return nil, 0, err
	}
	return conn, kind, nil
}

// hear makes the TLS handshake and reads what conn is for.
func (n *network) hear(conn *connection, secure *tls.Conn) (byte, error) {
	if err := conn.SetDeadline(time.Now().Add(n.timing.handshake)); err != nil {
		return 0, err
	}
	if err := secure.HandshakeContext(n.all.whileTalking()); err != nil {
		return 0, err
	}
	conn.cert = secure.ConnectionState().PeerCertificates[0]
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		return 0, err
	}
	switch kind[0] {
	case forHTTP:
	case forRaft:
		if err := n.self.hearGreeting(conn); err != nil {
			return 0, err
		}
	default:
		return 0, fmt.Errorf("a connection begins with %q: it is of no version that is known here",
			kind[0])
	}
	return kind[0], conn.SetDeadline(time.Time{})
}

// dial connects to the member name for kind. The name in its address is resolved anew. If kind is
// forRaft, id is the member's.
func (n *network) dial(ctx context.Context, name string, kind byte, id string) (net.Conn, error) {
	address, isKnown := n.options.Peers[name]
	if !isKnown {
		return nil, fmt.Errorf("%s has no address here: add it to --peers of this one", name)
	}
	ctx, cancel := context.WithTimeout(ctx, n.timing.handshake)
	defer cancel()
	talk := n.all.whileTalking()
	defer context.AfterFunc(talk, cancel)()
	if talk.Err() != nil {
		return nil, errSilent
	}
	dial := n.options.Dial
	if dial == nil {
		dialer := net.Dialer{KeepAliveConfig: keepAlive}
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	raw, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(raw, n.options.Identity.clientConfig(name, address))
	conn := &connection{Conn: secure, raw: raw}
	if !n.all.add(conn) {
		return nil, errSilent
	}
	if err := n.introduce(ctx, conn, secure, kind, id); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// introduce makes the handshake of dial.
func (n *network) introduce(
	ctx context.Context, conn *connection, secure *tls.Conn, kind byte, id string,
) error {
	if err := conn.SetDeadline(time.Now().Add(n.timing.handshake)); err != nil {
		return err
	}
	if err := secure.HandshakeContext(ctx); err != nil {
		return err
	}
	if _, err := conn.Write([]byte{kind}); err != nil {
		return err
	}
	if kind == forRaft {
		if err := n.self.greet(conn, id); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return conn.SetDeadline(time.Time{})
}

// queue is a net.Listener of connections that a network has accepted.
type queue struct {
	of   *network
	from <-chan net.Conn
}

// Accept implements net.Listener.
func (q queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.from:
		return conn, nil
	case <-q.of.closing:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. The network closes itself.
func (q queue) Close() error { return nil }

// Addr implements net.Listener.
func (q queue) Addr() net.Addr { return q.of.listener.Addr() }

// errRefused is why a member does not talk to another one.
var errRefused = errors.New("refused")
