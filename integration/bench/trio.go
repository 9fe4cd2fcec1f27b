package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/informd/informd/engine/replica"
	"github.com/informd/informd/integration/address"
)

// trio is three replicas of informd on one load. The one that leads runs the handler.
type trio struct {
	at      site
	members []*member
	came    chan caller // the handlers, as they come up
}

// member is one replica of a trio.
type member struct {
	*daemon // of the process that runs; another one after a restart
	how     launch
}

// caller is a handler that has connected.
type caller struct {
	of   *member
	conn net.Conn
}

// startTrio starts replicas as startDaemon starts one informd. It does not wait for them.
func startTrio(ctx context.Context, at site, l *load, s setup) (t *trio, err error) {
	t = &trio{at: at, came: make(chan caller, 64)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.stop())
		}
	}()
	certs, err := os.MkdirTemp(at.dir, "c")
	if err != nil {
		return t, err
	}
	names := []string{"a", "b", "c"}
	cmd := exec.CommandContext(ctx, at.informd, "certs", certs, "--names", strings.Join(names, ","))
	if out, err := cmd.CombinedOutput(); err != nil {
		return t, fmt.Errorf("informd certs: %w: %s", err, out)
	}
	var peers []string
	for _, name := range names {
		own, err := address.Wide()
		if err != nil {
			return t, err
		}
		peers = append(peers, name+"="+own)
	}
	s.state = true
	for _, name := range names {
		m := &member{daemon: &daemon{ended: make(chan struct{})}}
		if m.how, err = m.prepare(at, l, s); err != nil {
			return t, errors.Join(err, m.closeListeners())
		}
		m.how.args = []string{
			"--name", name, "--peers", strings.Join(peers, ","), "--peer-tls", certs,
		}
		go t.accept(ctx, m, m.listeners[0])
		if err := m.launch(ctx, at, m.how); err != nil {
			return t, errors.Join(err, m.closeListeners())
		}
		t.members = append(t.members, m)
	}
	return t, nil
}

// accept passes on the handlers that connect, until the listener is closed or ctx ends.
func (t *trio) accept(ctx context.Context, m *member, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		select {
		case t.came <- caller{m, conn}:
		case <-ctx.Done():
			return
		}
	}
}

// restart starts a member that has ended.
func (t *trio) restart(ctx context.Context, m *member) error {
	m.daemon = &daemon{ended: make(chan struct{}), listeners: m.listeners}
	return m.launch(ctx, t.at, m.how)
}

// stop ends all members at once.
func (t *trio) stop() error {
	errs := make([]error, len(t.members))
	var stopping sync.WaitGroup
	for i, m := range t.members {
		stopping.Go(func() {
			_ = m.cmd.Process.Signal(syscall.SIGCONT) // an ended one needs none
			errs[i] = m.daemon.stop()
		})
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// behind is how many entries of the log a member may lack that counts as up to date: they come all
// the time.
const behind = 100

// leads waits until all members are there, one of them leads and is ready, and the others have
// what it has. It returns the one that leads.
func (t *trio) leads(ctx context.Context) (*member, error) {
	for began := time.Now(); ; {
		leader, why := t.wellLed(ctx)
		if why == nil {
			return leader, nil
		}
		for _, m := range t.members {
			select {
			case <-m.ended:
				return nil, fmt.Errorf("replica %s has ended: %w: %s", m.how.args[1], m.err, m.log.Bytes())
			default:
			}
		}
		if time.Since(began) > 5*patience {
			return nil, fmt.Errorf("the replicas are not ready: %w", why)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// wellLed returns the member that leads, or why not all is well.
func (t *trio) wellLed(ctx context.Context) (leader *member, why error) {
	for _, m := range t.members {
		body, isReady := m.readiness(ctx)
		if !isReady {
			return nil, fmt.Errorf("%s: %s", m.how.args[1], body)
		}
		if leads(body) {
			leader = m
		}
	}
	if leader == nil {
		return nil, errors.New("none leads")
	}
	out, err := exec.CommandContext(ctx, t.at.informd, "cluster", "status", "-o", "json",
		"--state-dir", leader.state).Output()
	var status replica.Status
	if err == nil {
		err = json.Unmarshal(out, &status)
	}
	if err != nil {
		return nil, fmt.Errorf("informd cluster status: %w", err)
	}
	for _, m := range status.Members {
		if m.Unreachable+m.Trouble+m.Unable != "" || m.Lag > behind ||
			m.Role != replica.Leads && m.Role != replica.Follows {
			return nil, fmt.Errorf("informd cluster status: %+v", m)
		}
	}
	return leader, nil
}

// isLeader reports whether the member leads and is ready.
func (m *member) isLeader(ctx context.Context) bool {
	body, isReady := m.readiness(ctx)
	return isReady && leads(body)
}

// leads reports whether a replica with that readiness leads: only one that does has sources.
func leads(readiness string) bool { return strings.Contains(readiness, "source ") }

// meets waits for the handler of the member that leads, and makes it that of its daemon.
func (t *trio) meets(leader *member) error {
	for {
		select {
		case c := <-t.came:
			c.of.conns = append(c.of.conns, c.conn)
			if c.of == leader {
				leader.handlers = []*asked{newAsked("handler", c.conn)}
				return nil
			}
		case <-time.After(patience):
			return errors.New("the handler of the replica that leads has not come up")
		}
	}
}
