//go:build linux

package shim

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A handler has no terminal, and is in the daemon's session unless the daemon has one.
func TestHandlerHasNoTerminal(t *testing.T) {
	const again = "TEST_TERMINAL"
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	const tell = "(exec 2>&-; exec < /dev/tty && echo a terminal); read stat < /proc/self/stat; echo ${stat##*)}"
	p, err := Start(Order{Name: "x", Path: "/bin/sh", Args: Texts([]string{"sh", "-c", tell})},
		[]*os.File{null, in, null}, nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	var state string
	var parent, group, session, terminal int
	if _, err := fmt.Fscan(out, &state, &parent, &group, &session, &terminal); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	p.Wait()
	own, _ := unix.Getsid(0)
	if terminal != 0 || (session == own) == hasTerminal() {
		t.Errorf("the daemon is in session %d, with a terminal: %v; the handler in %d, with terminal %d",
			own, hasTerminal(), session, terminal)
	}
	if _, isSecond := os.LookupEnv(again); isSecond {
		if !hasTerminal() {
			t.Error("this test has no terminal")
		}
		return
	}

	// The same with a terminal.
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal can be made here: %v", err)
	}
	defer func() { _ = master.Close() }()
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal can be opened here: %v", err)
	}
	defer func() { _ = slave.Close() }()
	var said strings.Builder
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env, cmd.Stdin, cmd.Stdout = append(os.Environ(), again+"=1"), slave, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
}
