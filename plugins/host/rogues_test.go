//go:build linux

package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/serve"
)

func init() { addModes(rogueModes) }

func addModes(more map[string]func()) {
	for mode, run := range more {
		if modes[mode] != nil {
			panic("two modes " + mode)
		}
		modes[mode] = run
	}
}

// rogueModes are the rogues of the gallery that are not among the bad modes.
var rogueModes = map[string]func(){
	"crash-ready": func() { // as soon as it is up
		serveRaw(raw{deliver: func() error { os.Exit(3); return nil }})
	},
	"crash-says": func() { // its last words, the moment before
		onEach(func() error {
			_, _ = fmt.Fprintln(os.Stdout, "it is a pity")
			_, _ = fmt.Fprintln(os.Stderr, "out of luck")
			os.Exit(3)
			return nil
		})
	},
	"crash-nth": func() { onNth(50, func() { os.Exit(3) }) },
	"segfault": func() {
		onNth(5, func() {
			signal.Reset(syscall.SIGSEGV)
			_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
			hang()
		})
	},
	"stops-itself": func() { onNth(5, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }) },
	"stops-parent": func() { onNth(5, func() { _ = syscall.Kill(shimPID(), syscall.SIGSTOP) }) },
	"kills-parent": func() { onNth(5, func() { _ = syscall.Kill(shimPID(), syscall.SIGKILL) }) },
	"litters": func() { // leaves processes that hold its pipes: in its group, in a session of their own, without a parent
		for _, command := range []string{"sleep 1000", "setsid sleep 1000", "(setsid sleep 1000 &) & exit 0", "trap '' TERM HUP INT; sleep 1000 & wait"} {
			c := exec.Command("/bin/sh", "-c", command)
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			if err := c.Start(); err != nil {
				panic(err)
			}
		}
		onNth(5, func() { os.Exit(0) })
	},
	"floods": func() { // everything at once, on all that goes to the daemon's log
		line := append(bytes.Repeat([]byte("y"), 200<<10), '\n')
		var binary []byte
		for i := range 1 << 16 {
			binary = append(binary, byte(i*7), byte(i>>3))
		}
		odd := bytes.Repeat([]byte(oddLines), 500)
		var once sync.Once
		serveRaw(raw{answer: func(n uint64) *handlerpb.DeliverResponse {
			once.Do(func() { // go-plugin has replaced os.Stdout and os.Stderr by now
				giveWay()
				for _, f := range []*os.File{realStdout, realStderr, os.Stdout, os.Stderr} {
					go func() {
						for junk := [][]byte{line, binary, odd}; ; junk = append(junk[1:], junk[0]) {
							if _, err := f.Write(junk[0]); err != nil {
								return
							}
						}
					}()
				}
			})
			return done(n)
		}})
	},
	"boundless": func() { // takes all events at once, and answers none
		serveRogue(&boundless{})
	},
	"hundred-mb": func() {
		serveRaw(raw{answer: func(n uint64) *handlerpb.DeliverResponse {
			return &handlerpb.DeliverResponse{Answers: []*handlerpb.Answer{{Seq: n, Result: &handlerpb.Answer_Retry{
				Retry: &handlerpb.Retry{Reason: strings.Repeat("x", 100<<20)},
			}}}}
		}})
	},
	"hundred-mb-schema": func() { serveRaw(raw{schema: bytes.Repeat([]byte(" "), 100<<20)}) },
	"late": func() { // answers when nobody wants it any more
		serveRaw(raw{answer: func(n uint64) *handlerpb.DeliverResponse {
			time.Sleep(60 * time.Millisecond)
			return done(n)
		}})
	},
	"will-not-end": func() { // ignores every request to end
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		go serveRaw(raw{drain: hang})
		hang()
	},
	"orphanage": func() { // each event leaves a process without a parent, which soon ends
		onEach(func() error { return exec.Command("/bin/sh", "-c", "(true & exec true) & exit 0").Run() })
	},
	"booby-traps": func() { // makes its temporary directory hard to remove, and dangerous
		home := os.TempDir()
		for _, err := range []error{
			os.Symlink(os.Getenv("PRECIOUS"), filepath.Join(home, "link")),
			syscall.Mkfifo(filepath.Join(home, "fifo"), 0),
			os.WriteFile(filepath.Join(home, "-rf *\n\x1b[31m"), nil, 0),
		} {
			if err != nil {
				panic(err)
			}
		}
		if err := os.Chdir(home); err != nil {
			panic(err)
		}
		for range 600 { // its path is longer than any that the kernel takes
			dir := strings.Repeat("d", 200)
			if err := errors.Join(os.Mkdir(dir, 0o700), os.Chdir(dir)); err != nil {
				panic(err)
			}
		}
		_ = os.WriteFile("file", nil, 0)
		_ = os.Chdir(home)
		if err := errors.Join(os.Mkdir("closed", 0o700), os.WriteFile("closed/file", nil, 0o600), os.Chmod("closed", 0)); err != nil {
			panic(err)
		}
		serveRaw(raw{})
	},
	"kills-all": func() { // that it may
		if os.Getuid() == 0 {
			panic("that would be everybody")
		}
		onNth(5, func() { _ = syscall.Kill(-1, syscall.SIGKILL); os.Exit(3) })
	},
	"fork-bomb": func() { // each child is one more
		var l syscall.Rlimit
		if err := syscall.Getrlimit(rlimitProcesses, &l); err != nil || os.Getuid() == 0 || l.Max > 1000 && !cgroupLimitsProcesses() {
			panic("nothing limits the bomb: it does not go off")
		}
		go func() {
			for {
				c := exec.Command("/proc/self/exe")
				c.Env = append(os.Environ(), "MODE=fork-bomb-child")
				c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				_ = c.Start()
			}
		}()
		serve.Main(&echo{})
	},
	"fork-bomb-child": func() {
		for {
			c := exec.Command("/bin/sh", "-c", `f() { f & f & wait; }; f`)
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			_ = c.Start()
		}
	},
	"allocates": func() {
		zero, err := os.Open("/dev/zero")
		if err != nil {
			panic(err)
		}
		go func() {
			const size = 16 << 20
			for range 4 << 30 / size {
				b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
				if err != nil {
					fmt.Fprintln(realStderr, "no more memory:", err)
					os.Exit(4)
				}
				// The kernel writes: the race detector, which would take twice as much again, does
				// not see it.
				_, _, _ = syscall.Syscall(syscall.SYS_READ, zero.Fd(), uintptr(unsafe.Pointer(&b[0])), size)
			}
		}()
		serve.Main(&echo{})
	},
	"fills-disk": func() { // retries say how far it got
		onEach(func() error {
			f, err := os.CreateTemp("", "junk")
			if err != nil {
				return err
			}
			for range 64 {
				if _, err := f.Write(make([]byte, 1<<20)); err != nil {
					return err
				}
			}
			return fmt.Errorf("%s has room for 64 MB", f.Name())
		})
	},
	"opens-files": func() {
		var all []*os.File
		onEach(func() error {
			for {
				f, err := os.Open(os.DevNull)
				if err != nil {
					return fmt.Errorf("after %d: %w", len(all), err)
				}
				all = append(all, f)
			}
		})
	},
}

const rlimitProcesses = 6 // RLIMIT_NPROC, which package syscall does not name

func cgroupLimitsProcesses() bool {
	of, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(of)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			most, err := os.ReadFile("/sys/fs/cgroup" + path + "/pids.max")
			return err == nil && strings.TrimSpace(string(most)) != "max"
		}
	}
	return false
}

// shimPID returns the process id of the rogue's shim.
func shimPID() int {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", os.Getppid()))
	if !bytes.HasPrefix(name, []byte("informd-shim")) {
		panic("the parent is no shim but " + string(name))
	}
	return os.Getppid()
}

// onNth answers events, and calls act at the nth.
func onNth(n int, act func()) {
	seen := 0
	serveRaw(raw{answer: func(seq uint64) *handlerpb.DeliverResponse {
		if seen++; seen == n {
			act()
		}
		return done(seq)
	}})
}

// onEach calls act for each event, and answers with its result.
func onEach(act func() error) {
	turn := make(chan struct{}, 1)
	serve.Main(handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
		turn <- struct{}{}
		defer func() { <-turn }()
		return handler.Answer{}, act()
	}))
}

// boundless returns a description that exceeds every bound.
type boundless struct{ raw }

func (*boundless) Describe(context.Context, *handlerpb.DescribeRequest) (*handlerpb.DescribeResponse, error) {
	return &handlerpb.DescribeResponse{Concurrency: math.MaxUint32, WindowBytes: math.MaxUint64}, nil
}

func (*boundless) Deliver(stream handlerpb.Handler_DeliverServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

// serveRogue serves a service that is not a raw.
func serveRogue(service handlerpb.HandlerServer) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: serve.Handshake,
		Plugins:         plugin.PluginSet{handlerpb.PluginName: roguePlugin{service: service}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(handlerpb.MaxRequestBytes))...)
		},
	})
}

type roguePlugin struct {
	plugin.NetRPCUnsupportedPlugin
	service handlerpb.HandlerServer
}

func (p roguePlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	handlerpb.RegisterHandlerServer(s, p.service)
	return nil
}

func (roguePlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}
