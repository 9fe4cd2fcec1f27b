package control

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/internal/peer"
)

// asks returns the answer that another process gets from a socket. The shell command starts the
// process, as "$0".
func asks(t *testing.T, socket, shell string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", shell, os.Args[0])
	cmd.Env = []string{askSocket + "=" + socket, "PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v, %s", shell, err, out)
	}
	return string(out)
}

const turnedAway = "a handler may not ask informd"

// The server refuses the daemon's descendants, at any depth. It answers the daemon itself and all
// other processes.
func TestDescendantsAreTurnedAway(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c, socket := serveWith(t, newBackend(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Daemon: os.Getpid()})
	for _, shell := range []string{
		`exec "$0"`,                     // a child
		`"$0"; true`,                    // a grandchild
		`sh -c '"$0"; true' "$0"; true`, // another one below
		`setsid -w "$0"; true`,          // in a session of its own
	} {
		if said := asks(t, socket, shell); !strings.Contains(said, turnedAway) {
			t.Errorf("%s: %s", shell, said)
		}
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("the daemon itself: %v", err)
	}
	if lines := strings.Count(log.String(), "turned away"); lines != 1 {
		t.Errorf("%d lines in the log within a minute:\n%s", lines, log.String())
	}
}

func TestOtherProcessesAreAnswered(t *testing.T) {
	t.Parallel()
	sleep := exec.Command("sleep", "60") // nobody's parent
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = sleep.Process.Kill(), sleep.Wait() }()
	_, socket := serveWith(t, newBackend(), Options{Daemon: sleep.Process.Pid})
	if said := asks(t, socket, `"$0"; true`); said != "v9<nil>" {
		t.Error(said)
	}
}

// A process that is gone when its connection is taken may have been a handler.
func TestExitedPeersAreTurnedAway(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "control.sock")
	var log bytes.Buffer
	s, err := New(socket, newBackend(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Daemon: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if said := asks(t, socket, `"$0" and go`); said != "<nil>" {
		t.Fatal(said)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	// Connections are taken in order: once this one is answered the other has been looked at.
	if _, err := NewClient(socket).Status(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), peer.ErrGone.Error()) {
		t.Errorf("the log says %s", log.String())
	}
}

// Refused clients that send nothing, or read nothing, do not block others.
func TestManyRefusedConnections(t *testing.T) {
	t.Parallel()
	d := newDoor(os.Getppid(), slog.New(slog.DiscardHandler)) // of which this process is a child
	socket := filepath.Join(shortDir(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for range 4 * maxTurnedAway {
		client, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		conn, err := l.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		if d.admits(conn) {
			t.Fatal("it is let in")
		}
		if n := len(d.places); n > maxTurnedAway {
			t.Fatalf("%d are being turned away", n)
		}
	}
	d.close()
}

// A handler that connects without end does not keep others from being answered.
func TestFloodFromAHandler(t *testing.T) {
	t.Parallel()
	c, socket := serveWith(t, newBackend(), Options{Daemon: os.Getpid()})
	handler := exec.Command(os.Args[0], "flood")
	handler.Env = []string{askSocket + "=" + socket}
	input, err := handler.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := handler.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := handler.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = input.Close(), handler.Wait() }()
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		began := time.Now()
		if _, err := c.Status(t.Context()); err != nil {
			t.Errorf("command %d: %v", n, err)
		}
		t.Log(time.Since(began))
	}
}

// The door is closed while a handler still connects.
func TestCloseWhileTurningAway(t *testing.T) {
	t.Parallel()
	for range 200 {
		d := newDoor(os.Getppid(), slog.New(slog.DiscardHandler)) // of which this process is a child
		l, err := listen(filepath.Join(shortDir(t), "s"), d)
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("unix", l.path)
		if err != nil {
			t.Fatal(err)
		}
		var accepting sync.WaitGroup
		accepting.Go(func() {
			if _, err := l.Accept(); err == nil {
				t.Error("it is let in")
			}
		})
		time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
		_ = client.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		accepting.Wait()
	}
}

// A command asks no other user's process, wherever its socket is.
func TestSocketOfAStranger(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process of another user")
	}
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o777); err != nil { // as /tmp
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	stranger := exec.Command("/proc/self/exe", "listen")
	stranger.Env = []string{askSocket + "=" + socket}
	const nobody = 65534
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	output, err := stranger.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = stranger.Process.Kill(), stranger.Wait() }()
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "listening <nil>\n" {
		t.Fatal(line, err)
	}
	const want = "another user listens there: user 65534 listens on "
	if _, err := NewClient(socket).Status(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := NewClient(socket).Status(t.Context()); err != nil { // it is the daemon's own folder
		t.Errorf("got %v", err)
	}
}
