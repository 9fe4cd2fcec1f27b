package host

import (
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"github.com/informd/informd/plugins/host/cache"
	"github.com/informd/informd/plugins/host/confine"
)

// Spec says what to run and how to treat it. It is not modified after New.
type Spec struct {
	// Name is the Handler manifest's name, for the log and for errors.
	Name string
	// Path is the executable. One without a slash is looked up in the daemon's PATH.
	Path string
	// Args are the arguments after the program's name.
	Args []string
	// SHA256, if set, is the hexadecimal digest that the executable must have, of at most 1 GiB. What is executed is a
	// sealed copy in memory of what was digested, whatever becomes of the path meanwhile; a process that asks for its own
	// path is told /memfd:handler. Linux only: elsewhere it is an error.
	SHA256 string
	// Env is the process's environment as KEY=VALUE. PATH, HOME and TMPDIR, unless they are in it, and what the protocol
	// needs are added; nothing else is.
	Env []string
	// Dir is the working directory; empty: the daemon's.
	Dir string
	// Config is the manifest's config as JSON; empty where it has none.
	Config json.RawMessage
	// Concurrency is how many events may be with the handler at once, if it does not ask for fewer. Default 8.
	Concurrency int
	// Timeout is how long the handler has for one event, from its sending on. Default 30 s.
	Timeout time.Duration
	// DisableTLS leaves out the certificate that go-plugin offers. A handler that does not answer it with one of its
	// own is spoken to without TLS in any case, behind the socket directory that only the daemon's user may enter.
	DisableTLS bool
	// Read names the sources of Options.Cache that the process may read, through a socket of its own, which
	// INFORMD_CACHE_SOCKET names. None: there is no socket.
	Read []string
	// Confine is what the process is to be confined to. What cannot be enforced here is a reason not to start it.
	Confine confine.Spec
	// Stdout, if set, is inherited by the process as file descriptor 3, named in INFORMD_STDOUT_FD. It stays the
	// caller's.
	Stdout *os.File
}

// Options tune a Host; the zero value is what a daemon uses.
type Options struct {
	// Logger receives what becomes of the process, and what it writes. nil discards.
	Logger *slog.Logger
	// RunDir is where a private socket directory is made for each process. It is created with mode 0700 if it does
	// not exist. Default: $XDG_RUNTIME_DIR, or the directory for temporary files.
	RunDir string
	// TempDir is where a private directory for temporary files is made for each process, and removed after it. It must
	// exist. Default: the directory for temporary files.
	TempDir string
	// Cache is what Spec.Read is about; nil answers every call with an error.
	Cache cache.Sources
	reads *cache.Counts // over all processes
	// Version of informd, told to the handler.
	Version string

	StartTimeout     time.Duration // from launch to the handshake and the connection; default 10 s
	DescribeTimeout  time.Duration // default 5 s
	ConfigureTimeout time.Duration // default 10 s
	HealthInterval   time.Duration // from one health check to the next; default 10 s
	HealthTimeout    time.Duration // of one health check; two in a row end the process; default 5 s
	LateTimeout      time.Duration // from an event's time limit to its answer, or the process is ended; default 4 limits, at least 1 min
	DrainTimeout     time.Duration // for the last answers and the drain together; default 5 s
	StopTimeout      time.Duration // from asking the process to exit to SIGKILL, SIGTERM at half of it; default 2 s
	LookUpInterval   time.Duration // the longest from one look-up of a remote handler's name to the next; default 10 s

	BackoffMin    time.Duration // pause after a first failure, doubled for each further one; default 200 ms
	BackoffMax    time.Duration // default 30 s
	BackoffDecay  time.Duration // a process that runs this long has made good for one failure; default 1 min
	RefusedMin    time.Duration // pause after a refused config, doubled likewise; default 1 min
	RefusedMax    time.Duration // default 10 min
	LogLinesBurst int           // log lines of one process that pass at once; default 1000
	LogLinesRate  int           // and per second from then on; the rest is counted; default 200
}

func (s Spec) withDefaults() Spec {
	setDefault(&s.Concurrency, 8)
	setDefault(&s.Timeout, 30*time.Second)
	return s
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.reads = new(cache.Counts)
	setDefault(&o.StartTimeout, 10*time.Second)
	setDefault(&o.DescribeTimeout, 5*time.Second)
	setDefault(&o.ConfigureTimeout, 10*time.Second)
	setDefault(&o.HealthInterval, 10*time.Second)
	setDefault(&o.HealthTimeout, 5*time.Second)
	setDefault(&o.DrainTimeout, 5*time.Second)
	setDefault(&o.StopTimeout, 2*time.Second)
	setDefault(&o.LookUpInterval, 10*time.Second)
	setDefault(&o.BackoffMin, 200*time.Millisecond)
	setDefault(&o.BackoffMax, 30*time.Second)
	setDefault(&o.BackoffDecay, time.Minute)
	setDefault(&o.RefusedMin, time.Minute)
	setDefault(&o.RefusedMax, 10*time.Minute)
	setDefault(&o.LogLinesBurst, 1000)
	setDefault(&o.LogLinesRate, 200)
	return o
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Description is what the process said of itself, checked and bounded.
type Description struct {
	Name         string
	Version      string
	Concurrency  int   // 0: no limit of its own
	WindowBytes  int64 // within 1 and 64 MiB
	ConfigSchema json.RawMessage
	Capabilities []string
}

// attrs are log attributes, the handler's name and version before them if it told any.
func (d Description) attrs(more ...any) []any {
	var attrs []any
	if d.Name != "" {
		attrs = append(attrs, "name", d.Name)
	}
	if d.Version != "" {
		attrs = append(attrs, "version", d.Version)
	}
	return append(attrs, more...)
}
