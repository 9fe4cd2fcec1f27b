package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/plugins/handler"
)

func init() { parts["probe"] = newProbe }

// probe tries what a confined handler must not do. For each event it writes the results to
// NAME.json in the folder that its first argument names; NAME is the second. For each attempt the
// file has an error, or nothing for success.
type probe struct {
	plain
	dir, name string
}

func newProbe(args []string) (handler.Handler, error) {
	if len(args) != 2 {
		return nil, errors.New("probe takes a folder and a name")
	}
	return &probe{dir: args[0], name: args[1]}, nil
}

// targets is the data of the event's object.
type targets struct {
	PID, State, Kubeconfig, Control, Socket, Address, Allowed, Granted string
}

func (p *probe) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	var object struct{ Data targets }
	if err := json.Unmarshal(ev.Object, &object); err != nil {
		return handler.Answer{}, handler.Reject(err)
	}
	t := object.Data
	pid, err := strconv.Atoi(t.PID)
	if err != nil {
		return handler.Answer{}, handler.Reject(err)
	}
	proc := fmt.Sprintf("/proc/%d/", pid)
	mine, own := filepath.Join(os.TempDir(), "mine"), "by-"+p.name
	shell := exec.Command("/bin/sh", "-c", "test $((1+1)) = 2")
	results := make(map[string]string)
	for name, try := range map[string]func() error{
		"daemon's memory, by its file":   func() error { return readMemory(pid) },
		"daemon's memory, by its number": func() error { return readMemoryOf(pid) },
		"daemon's environment":           func() error { return readFile(proc + "environ") },
		"daemon's descriptors":           func() error { return list(proc + "fd") },
		"daemon's signals":               func() error { return syscall.Kill(pid, 0) },
		"state directory, to read":       func() error { return list(t.State) },
		"state directory, to write": func() error {
			return create(filepath.Join(t.State, own))
		},
		"kubeconfig":                          func() error { return readFile(t.Kubeconfig) },
		"control socket":                      func() error { return askStatus(t.Control) },
		"another handler's socket":            func() error { return dial("unix", t.Socket) },
		"another handler's calls":             func() error { return greet(t.Socket) },
		"network":                             func() error { return dial("tcp", t.Address) },
		"network, a port that may be allowed": func() error { return dial("tcp", t.Allowed) },
		"network, datagrams":                  func() error { return send(t.Address) },
		"network, to be served":               listen,
		"privileges":                          setHostname,
		"the manifest's folder":               func() error { return list(".") },

		"granted: files":           func() error { return readFile(t.Granted) },
		"granted: temporary files": func() error { return create(mine) },
		"granted: its folder":      func() error { return create(filepath.Join(p.dir, own)) },
		"granted: commands":        shell.Run,
	} {
		results[name] = ""
		if err := try(); err != nil {
			results[name] = err.Error()
		}
	}
	text, err := json.Marshal(results)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.dir, p.name+".new"), text, 0o644)
	}
	if err == nil {
		err = os.Rename(filepath.Join(p.dir, p.name+".new"), filepath.Join(p.dir, p.name+".json"))
	}
	return handler.Answer{}, err
}

func readMemory(pid int) error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	begin, _, _ := strings.Cut(string(maps), "-")
	address, err := strconv.ParseInt(begin, 16, 64)
	if err != nil {
		return err
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	defer memory.Close()
	_, err = memory.ReadAt(make([]byte, 16), address)
	return err
}

// readMemoryOf reads an unmapped address. The error for that shows that it may read.
func readMemoryOf(pid int) error {
	buf := make([]byte, 1)
	local := []unix.Iovec{{Base: &buf[0], Len: 1}}
	remote := []unix.RemoteIovec{{Base: 16, Len: 1}}
	_, err := unix.ProcessVMReadv(pid, local, remote, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil
	}
	return err
}

func readFile(path string) error {
	_, err := os.ReadFile(path)
	return err
}

func list(dir string) error {
	_, err := os.ReadDir(dir)
	return err
}

func create(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }

func askStatus(socket string) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	resp, err := client.Get("http://informd/v1/status")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}

func dial(network, address string) error {
	conn, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

// greet begins HTTP/2 without TLS, as gRPC does, and checks that the other side answers so.
func greet(socket string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
	hello := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings...)
	if _, err := conn.Write(hello); err != nil {
		return err
	}
	answer := make([]byte, len(settings))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if answer[3] != settings[3] {
		return errors.New("it does not speak HTTP/2 without TLS")
	}
	return nil
}

func send(address string) error {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("x"))
	return err
}

func listen() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	return l.Close()
}

// setHostname sets the host's present name.
func setHostname() error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return unix.Sethostname([]byte(name))
}
