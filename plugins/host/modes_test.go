package host_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/serve"
)

// modes are the handlers that the test binary can be: first the good ones, then the bad ones.
var modes = map[string]func(){
	"echo": func() { serve.Main(&echo{}) },
	"host": hostMain,

	// Before the handshake.
	"garbage": func() { fmt.Println("Hello\x1b[31m, I am a web server"); time.Sleep(time.Hour) },
	"exits":   func() { fmt.Fprintln(os.Stderr, "cannot open /etc/oncall.conf"); os.Exit(3) },
	"exits0":  func() {},
	"silent":  func() { time.Sleep(time.Hour) },
	"endless": func() { // a first line without end
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
				return
			}
		}
	},
	"version7": func() { shake("1|7|unix|" + socket() + "|grpc|") },
	"core9":    func() { shake("9|1|unix|" + socket() + "|grpc|") },
	"netrpc":   func() { shake("1|1|unix|" + socket() + "|netrpc|") },
	"tcp":      func() { shake("1|1|tcp|127.0.0.1:80|grpc|") },
	"outside":  func() { shake("1|1|unix|/run/docker.sock|grpc|") },
	"nobody":   func() { shake("1|1|unix|" + socket() + "|grpc|") },
	"badcert":  func() { shake("1|1|unix|" + socket() + "|grpc|" + strings.Repeat("A", 80)) },
	"mute": func() { // a socket that never says a word
		l, err := net.Listen("unix", socket())
		if err != nil {
			panic(err)
		}
		defer func() { _ = l.Close() }()
		shake("1|1|unix|" + socket() + "|grpc|")
	},

	// In the control calls.
	"hang-describe":  func() { serveRaw(raw{describe: hang}) },
	"hang-configure": func() { serveRaw(raw{configure: func() []*handlerpb.Problem { hang(); return nil }}) },
	"hang-health":    func() { serveRaw(raw{health: hang}) },
	"health-status":  func() { serveRaw(raw{healthErr: status.Error(codes.Unavailable, "the database is down")}) },
	"hang-drain":     func() { signal.Ignore(syscall.SIGTERM); serveRaw(raw{drain: hang}) },
	"refuses": func() {
		serveRaw(raw{configure: func() []*handlerpb.Problem {
			return []*handlerpb.Problem{
				{Message: "no such channel:\nops", Path: []string{"routes", "0", "channel"}},
				{Message: "token is missing"},
			}
		}})
	},
	"boasts": func() { // describes itself without measure
		serveRaw(raw{name: strings.Repeat("x", 1000) + "\n", window: 1 << 62})
	},
	"verbose": func() { // the same, where it could take the daemon's memory
		serveRaw(raw{schema: bytes.Repeat([]byte("x"), 2<<20), capabilities: make([]string, 1<<19)})
	},
	"chatter": func() { // answers nothing, without end
		serveRaw(raw{stream: func(stream handlerpb.Handler_DeliverServer) error {
			giveWay()
			for {
				if err := stream.Send(done(1 << 40)); err != nil {
					return err
				}
			}
		}})
	},
	"unasked": func() { _ = os.Setenv("PLUGIN_CLIENT_CERT", "none"); serveRaw(raw{}) }, // takes up an offer that was not made
	"notls":   func() { _ = os.Unsetenv("PLUGIN_CLIENT_CERT"); serveRaw(raw{}) },

	// In the stream.
	"never": func() { serveRaw(raw{answer: func(uint64) *handlerpb.DeliverResponse { return nil }}) },
	"twice": func() { serveRaw(raw{answer: func(n uint64) *handlerpb.DeliverResponse { return done(n, n, n) }}) },
	"unknown": func() {
		serveRaw(raw{answer: func(n uint64) *handlerpb.DeliverResponse { return done(n+1000, 0, 1<<63, n) }})
	},
	"strays": func() {
		serveRaw(raw{answer: func(n uint64) *handlerpb.DeliverResponse { return done(append(make([]uint64, 100_000), n)...) }})
	},
	"empty": func() {
		serveRaw(raw{answer: func(n uint64) *handlerpb.DeliverResponse {
			return &handlerpb.DeliverResponse{Answers: []*handlerpb.Answer{{Seq: n}, nil}}
		}})
	},
	"actions": func() {
		serveRaw(raw{answer: func(n uint64) *handlerpb.DeliverResponse {
			actions := make([]*handlerpb.Action, 65)
			for i := range actions {
				actions[i] = &handlerpb.Action{Action: &handlerpb.Action_Delete{Delete: &handlerpb.Delete{}}}
			}
			return &handlerpb.DeliverResponse{Answers: []*handlerpb.Answer{
				{Seq: n, Result: &handlerpb.Answer_Done{Done: &handlerpb.Done{Actions: actions}}},
			}}
		}})
	},
	"huge": func() { // an answer that is larger than informd receives
		serveRaw(raw{answer: func(n uint64) *handlerpb.DeliverResponse {
			return &handlerpb.DeliverResponse{Answers: []*handlerpb.Answer{{Seq: n, Result: &handlerpb.Answer_Retry{
				Retry: &handlerpb.Retry{Reason: strings.Repeat("x", handlerpb.MaxResponseBytes+1)},
			}}}}
		}})
	},
	"long-reason": func() {
		serveRaw(raw{answer: func(n uint64) *handlerpb.DeliverResponse {
			return &handlerpb.DeliverResponse{Answers: []*handlerpb.Answer{{Seq: n, Result: &handlerpb.Answer_Retry{
				Retry: &handlerpb.Retry{Reason: "a\nb" + strings.Repeat("x", 1<<20)},
			}}}}
		}})
	},
	"never-one": func() {
		serve.Main(handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
			if ev.Name == "never" {
				hang()
			}
			return handler.Answer{}, nil
		}))
	},
	"hangs-up": func() { serveRaw(raw{deliver: func() error { return nil }}) },
	"fails":    func() { serveRaw(raw{deliver: func() error { return fmt.Errorf("out of\nluck") }}) },
	"deaf":     func() { serveRaw(raw{deliver: func() error { hang(); return nil }}) }, // takes no event from the stream

	// On standard output and standard error.
	"flood": func() {
		serve.Main(handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
			for i := range 20_000 {
				_, _ = fmt.Fprintf(realStderr, "line %d\n", i)
			}
			return handler.Answer{}, nil
		}))
	},
	"long-line": func() {
		serve.Main(handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
			line := append(bytes.Repeat([]byte("y"), 1<<20), '\n')
			_, err := map[string]*os.File{"stderr": realStderr, "stdout": realStdout, "late-stdout": os.Stdout, "late-stderr": os.Stderr}[ev.Name].Write(line)
			return handler.Answer{}, err
		}))
	},
	"odd-lines": func() {
		serve.Main(handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
			_, err := fmt.Fprint(realStderr, oddLines)
			return handler.Answer{}, err
		}))
	},

	// In its ways.
	"grandchild": func() { // its child holds the pipes open
		c := exec.Command("/bin/sleep", "1000")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			panic(err)
		}
		serve.Main(&pidTeller{c.Process.Pid})
	},
	"escaped-grandchild": func() { // the same, out of the group's reach
		c := exec.Command("/bin/sleep", "5")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			panic(err)
		}
		serve.Main(&echo{})
	},
	"environment": func() {
		serve.Main(handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
			return handler.Answer{}, fmt.Errorf("%s", strings.Join(names(os.Environ()), " "))
		}))
	},
	"stdout": func() {
		out := os.NewFile(3, "stdout")
		serve.Main(handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
			_, err := fmt.Fprintln(out, os.Getenv(handlerpb.EnvStdoutFD), ev.Name)
			return handler.Answer{}, err
		}))
	},
	"heeds-term": func() { // and nothing else
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		go serveRaw(raw{})
		<-signals
		_, _ = fmt.Fprintln(realStderr, "tidied up")
	},
	"stubborn": func() { // does not end when asked
		signal.Ignore(syscall.SIGTERM)
		go serveRaw(raw{})
		select {}
	},
}

// The original streams, before go-plugin replaces the variables.
var realStdout, realStderr = os.Stdout, os.Stderr

const oddLines = `{"@message":5}
{"@level":7,"@message":null}
{"@level":"error","@message":"five","handler":"spoof","via":"none","n":9007199254740993,"deep":[[{}]]}
{"time":"2026-01-01T00:00:00Z","level":"WARN","msg":"from slog"}
[DEBUG] hidden
{"@message":
` + "\x00\xff\x1b[2J\u202ereversed" + `
null
panic: boom

goroutine 1 [running]:
`

func names(env []string) []string {
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		out = append(out, name)
	}
	return out
}

// pidTeller answers with a retry whose reason is a process id.
type pidTeller struct{ pid int }

func (p *pidTeller) Handle(context.Context, handler.Event) (handler.Answer, error) {
	return handler.Answer{}, fmt.Errorf("%d", p.pid)
}

func socket() string { return filepath.Join(os.Getenv(plugin.EnvUnixSocketDir), "plugin1") }

// shake writes a handshake line and nothing else, ever.
func shake(line string) { fmt.Println(line); time.Sleep(time.Hour) }

func hang() { select {} }

// giveWay gives this process a low priority. Handlers that take all the processor time they get call
// it once they serve, since other tests run beside this one. With SCHED_IDLE, or the lowest priority,
// they would get nowhere on a busy machine.
func giveWay() {
	threads, _ := os.ReadDir("/proc/self/task") // without it, the tests are slower
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, 10)
		}
	}
}

func done(seqs ...uint64) *handlerpb.DeliverResponse { return &handlerpb.DeliverResponse{Done: seqs} }

// raw implements the service without package serve. Functions that are nil behave well.
type raw struct {
	handlerpb.UnimplementedHandlerServer
	name         string
	window       uint64
	schema       []byte
	capabilities []string
	describe     func()
	configure    func() []*handlerpb.Problem
	health       func()
	healthErr    error
	drain        func()
	deliver      func() error
	stream       func(handlerpb.Handler_DeliverServer) error
	answer       func(seq uint64) *handlerpb.DeliverResponse
}

func serveRaw(r raw) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: serve.Handshake,
		Plugins:         plugin.PluginSet{handlerpb.PluginName: rawPlugin{service: &r}},
		GRPCServer:      plugin.DefaultGRPCServer,
	})
}

type rawPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	service *raw
}

func (p rawPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	handlerpb.RegisterHandlerServer(s, p.service)
	return nil
}

func (rawPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (r *raw) Describe(context.Context, *handlerpb.DescribeRequest) (*handlerpb.DescribeResponse, error) {
	if r.describe != nil {
		r.describe()
	}
	return &handlerpb.DescribeResponse{
		Name: r.name, WindowBytes: r.window, ConfigSchema: r.schema, Capabilities: r.capabilities,
	}, nil
}

func (r *raw) Configure(context.Context, *handlerpb.ConfigureRequest) (*handlerpb.ConfigureResponse, error) {
	if r.configure != nil {
		return &handlerpb.ConfigureResponse{Problems: r.configure()}, nil
	}
	return &handlerpb.ConfigureResponse{}, nil
}

func (r *raw) Health(context.Context, *handlerpb.HealthRequest) (*handlerpb.HealthResponse, error) {
	if r.health != nil {
		r.health()
	}
	return &handlerpb.HealthResponse{}, r.healthErr
}

func (r *raw) Drain(context.Context, *handlerpb.DrainRequest) (*handlerpb.DrainResponse, error) {
	if r.drain != nil {
		r.drain()
	}
	return &handlerpb.DrainResponse{}, nil
}

func (r *raw) Deliver(stream handlerpb.Handler_DeliverServer) error {
	if r.deliver != nil {
		return r.deliver()
	}
	if r.stream != nil {
		return r.stream(stream)
	}
	for {
		req, err := stream.Recv()
		if err != nil {
			return nil
		}
		for _, ev := range req.GetEvents() {
			resp := done(ev.GetSeq())
			if r.answer != nil {
				resp = r.answer(ev.GetSeq())
			}
			if resp == nil {
				continue
			}
			if err := stream.Send(resp); err != nil {
				return err
			}
		}
	}
}
