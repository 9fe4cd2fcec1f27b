package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/informd/informd/internal/peer"
)

const (
	maxTurnedAway = 4 // processes that get an answer at a time; other connections are just closed
	turnAwayTime  = time.Second
)

// door turns the daemon's own descendants away. Its methods are called by Accept, one call at a
// time, but for close, which may be called meanwhile.
type door struct {
	daemon   int
	log      *slog.Logger
	places   chan struct{} // one taken per process that is being turned away; capacity maxTurnedAway
	inside   sync.WaitGroup
	mu       sync.Mutex // guards isClosed; inside grows only under it
	isClosed bool
	logs     rate.Sometimes // one line a minute
	silent   int            // processes turned away since the last line

	refused peer.Refused
}

func newDoor(daemon int, log *slog.Logger) *door {
	return &door{
		daemon: daemon, log: log, places: make(chan struct{}, maxTurnedAway),
		logs: rate.Sometimes{Interval: time.Minute},
	}
}

// admits reports whether the process at the other end of conn may ask. If not, admits tells it so
// and closes conn.
func (d *door) admits(conn *net.UnixConn) bool {
	if d.daemon == 0 {
		return true
	}
	pid, err := d.examine(conn)
	if pid == 0 && err == nil {
		return true
	}
	why := "a handler may not ask informd, and neither may a process that it started"
	if err != nil {
		why = "informd answers only processes that it can tell from its handlers: " + err.Error()
	}
	d.report(pid, err)
	if !d.beginTurningAway(conn, why) {
		_ = conn.Close()
	}
	return false
}

// beginTurningAway answers a connection in the background, and closes it. It returns false if
// there is no room for another one.
func (d *door) beginTurningAway(conn *net.UnixConn, why string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isClosed {
		return false
	}
	select {
	case d.places <- struct{}{}:
	default:
		return false
	}
	d.inside.Go(func() {
		turnAway(conn, why)
		<-d.places
	})
	return true
}

// examine returns the process that may not ask, or an error if it is not known whether it may. Of one
// that may it returns 0.
func (d *door) examine(conn *net.UnixConn) (pid int, err error) {
	now := time.Now()
	if pid, _, err := peer.Of(conn); err == nil && d.refused.Has(pid, now) {
		return pid, nil
	}
	pid, is, err := peer.Descends(conn, d.daemon)
	if err == nil && !is {
		return 0, nil
	}
	if is {
		d.refused.Add(pid, now)
	}
	return pid, err
}

// report logs that a process was turned away, at most once a minute.
func (d *door) report(pid int, err error) {
	d.silent++
	d.logs.Do(func() {
		args := []any{"process", pid, "unreported", d.silent - 1}
		if err != nil {
			args = append(args, "error", err)
		}
		d.log.Warn("process turned away from the control socket: handlers may not ask informd",
			args...)
		d.silent = 0
	})
}

// close waits for those that are being turned away, at most for turnAwayTime.
func (d *door) close() {
	d.mu.Lock()
	d.isClosed = true
	d.mu.Unlock()
	d.inside.Wait()
}

// turnAway reads the request first: closing a connection with unread data loses the answer.
func turnAway(conn *net.UnixConn, why string) {
	defer func() { _ = conn.Close() }()
	if conn.SetDeadline(time.Now().Add(turnAwayTime)) != nil {
		return
	}
	request, err := http.ReadRequest(bufio.NewReader(io.LimitReader(conn, chunk)))
	if err != nil {
		return // no answer would be understood
	}
	_, _ = io.Copy(io.Discard, request.Body)
	text, err := json.Marshal(Error{Code: http.StatusForbidden, Message: why})
	if err != nil {
		return
	}
	answer := http.Response{
		StatusCode: http.StatusForbidden, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}
	_ = answer.Write(conn) // whoever asked may have gone
}
