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

	"github.com/informd/informd/internal/peer"
)

const (
	maxTurnedAway = 4 // are told so at a time; the others' connections just end
	turnAwayTime  = time.Second
	doorSilence   = time.Minute // from one line in the log to the next
)

// door keeps the daemon's own descendants out.
type door struct {
	daemon int
	log    *slog.Logger
	places chan struct{} // one taken per process that is being turned away; capacity maxTurnedAway
	inside sync.WaitGroup
	again  time.Time // when it is worth a line in the log; Accept's alone
	quiet  int       // turned away since the last line
}

func newDoor(daemon int, log *slog.Logger) *door {
	return &door{daemon: daemon, log: log, places: make(chan struct{}, maxTurnedAway)}
}

// admits looks who is at the other end. Whoever is turned away is told so, and conn is closed. Calls do not overlap.
func (d *door) admits(conn *net.UnixConn) bool {
	if d.daemon == 0 {
		return true
	}
	pid, is, err := peer.Descends(conn, d.daemon)
	if err == nil && !is {
		return true
	}
	why := "a handler may not ask informd: not through a process that it started either"
	if err != nil {
		why = "informd answers only processes that it can tell from its handlers: " + err.Error()
	}
	d.note(pid, err)
	select {
	case d.places <- struct{}{}:
		d.inside.Go(func() {
			turnAway(conn, why)
			<-d.places
		})
	default:
		_ = conn.Close()
	}
	return false
}

func (d *door) note(pid int, err error) {
	if now := time.Now(); now.Before(d.again) {
		d.quiet++
		return
	} else {
		d.again = now.Add(doorSilence)
	}
	args := []any{"process", pid, "unreported", d.quiet}
	if err != nil {
		args = append(args, "error", err)
	}
	d.log.Warn("a process was turned away from the control socket: handlers may not ask informd", args...)
	d.quiet = 0
}

// close waits for those that are being turned away, for turnAwayTime at most.
func (d *door) close() { d.inside.Wait() }

// turnAway reads a request, since a connection that is closed with something unread loses the answer, and answers it.
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
