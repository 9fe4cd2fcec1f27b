package host

import (
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"github.com/informd/informd/plugins/host/cache"
	"github.com/informd/informd/plugins/host/confine"
	"github.com/informd/informd/plugins/host/process"
	"github.com/informd/informd/plugins/host/session"
)

// Spec says what to run and how to treat it. It is not modified after New. It has many fields
// because it mirrors the manifest's spec.
type Spec struct {
	// Name is the Handler manifest's name, for the log and for errors.
	Name string
	// Path is the executable. A name without a slash is looked up in the daemon's PATH.
	Path string
	// Args are the arguments after the program's name.
	Args []string
	// SHA256, if set, is the hexadecimal digest that the executable must have, of at most 1 GiB.
	// The process executes a sealed copy of it in memory, whatever happens to the path meanwhile.
	// Its own path is /memfd:handler then. Linux only: elsewhere a digest is an error.
	SHA256 string
	// Env is the process's environment as KEY=VALUE. informd adds PATH, HOME and TMPDIR, unless
	// they are in it, and what the protocol needs. It adds nothing else.
	Env []string
	// Dir is the working directory; empty: the daemon's.
	Dir string
	// Config is the manifest's config as JSON; empty where it has none.
	Config json.RawMessage
	// Concurrency is how many events may be with the handler at once, if it does not ask for fewer.
	// Default 8, or 64 for a handler that takes batches.
	Concurrency int
	// Timeout is how long the handler has for one event, from its sending on. Default 30 s.
	Timeout time.Duration
	// Attempts is at how many failures an event becomes a dead letter; 0 means never. A handler that
	// takes batches gets the last attempt of an event alone.
	Attempts int
	// LogLevel is the lowest level of the process's own log lines that Options.Logger receives:
	// debug, info, warn or error. Empty: the logger's own.
	LogLevel string
	// DisableTLS withholds the offer of a certificate. A handler that does not answer the offer
	// with a certificate of its own is spoken to without TLS in any case. Only the daemon's user
	// can reach its socket.
	DisableTLS bool
	// Read names the sources of Options.Cache that the process may read. It gets a socket of its
	// own for that, which INFORMD_CACHE_SOCKET names. Without a source there is no socket.
	Read []string
	// Confine is what the process is confined to. If something of it cannot be enforced here, the
	// process is not started.
	Confine confine.Spec
	// Stdout, if set, is inherited by the process as file descriptor 3, which INFORMD_STDOUT_FD
	// names. The caller closes it.
	Stdout *os.File
}

// Options tune a Host; the zero value is what a daemon uses. They have many fields because tests
// lower its limits one by one.
type Options struct {
	// Logger receives what happens to the process, and what it writes. nil discards it.
	Logger *slog.Logger
	// RunDir is the directory in which each process gets a private directory for sockets. It is
	// created with mode 0700 if it does not exist. Default: $XDG_RUNTIME_DIR, or the directory for
	// temporary files.
	RunDir string
	// TempDir is the directory in which each process gets a private directory for temporary files,
	// which is removed after it. It must exist. Default: the directory for temporary files.
	TempDir string
	// Cache holds the sources that Spec.Read names. nil answers every call with an error.
	Cache cache.Sources
	reads *cache.Counts // of all processes
	// Confidential reports whether the handler may see text of Secrets, in events or in the cache. If
	// so, what it says is not quoted: neither in Status, nor in errors other than its answers, nor in
	// lines of Logger that are not its own. It is called from any goroutine. nil: it sees none.
	Confidential func() bool
	// Version of informd, which the host sends to the handler.
	Version string

	StartTimeout     time.Duration // from launch to handshake and connection; default 10 s
	DescribeTimeout  time.Duration // default 5 s
	ConfigureTimeout time.Duration // default 10 s
	HealthInterval   time.Duration // from one health check to the next; default 10 s
	HealthTimeout    time.Duration // of a check; two misses in a row end the process; default 5 s
	// LateTimeout is the time from an event's time limit to its answer, after which the process is
	// ended. The default is 4 time limits, at least 1 min.
	LateTimeout  time.Duration
	DrainTimeout time.Duration // for the last answers and the drain together; default 5 s
	// StopTimeout is the time that a process gets to exit after informd has asked it to. After half
	// of it, informd sends SIGTERM; at its end, SIGKILL. The default is 2 s.
	StopTimeout    time.Duration
	LookUpInterval time.Duration // longest time between look-ups of a remote name; default 10 s

	Backoff       Backoff
	LogLinesBurst int // log lines of one process that pass at once; default 1000
	LogLinesRate  int // and per second after; more are dropped and counted; default 200

	launchGrace time.Duration // see there
}

func (s Spec) withDefaults() Spec {
	setDefault(&s.Timeout, 30*time.Second)
	return s
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.reads = new(cache.Counts)
	if o.Confidential == nil {
		o.Confidential = func() bool { return false }
	}
	setDefault(&o.StartTimeout, 10*time.Second)
	setDefault(&o.DescribeTimeout, 5*time.Second)
	setDefault(&o.ConfigureTimeout, 10*time.Second)
	setDefault(&o.HealthInterval, 10*time.Second)
	setDefault(&o.HealthTimeout, 5*time.Second)
	setDefault(&o.DrainTimeout, 5*time.Second)
	setDefault(&o.StopTimeout, 2*time.Second)
	setDefault(&o.LookUpInterval, 10*time.Second)
	o.Backoff = o.Backoff.withDefaults()
	setDefault(&o.LogLinesBurst, 1000)
	setDefault(&o.LogLinesRate, 200)
	setDefault(&o.launchGrace, launchGrace)
	return o
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// command returns what package process needs of s.
func (s Spec) command() process.Command {
	return process.Command{
		Name: s.Name, Path: s.Path, Args: s.Args, SHA256: s.SHA256, Env: s.Env, Dir: s.Dir,
		DisableTLS: s.DisableTLS, Read: s.Read, Confine: s.Confine, Stdout: s.Stdout,
	}
}

func (o Options) surroundings() process.Surroundings {
	return process.Surroundings{
		RunDir: o.RunDir, TempDir: o.TempDir, Cache: o.Cache, Reads: o.reads,
		StartTimeout:  o.StartTimeout,
		LogLinesBurst: o.LogLinesBurst, LogLinesRate: o.LogLinesRate,
	}
}

func (o Options) terms(s Spec) session.Terms {
	return session.Terms{
		Name: s.Name, Config: s.Config, Concurrency: s.Concurrency, Timeout: s.Timeout,
		Version: o.Version, Sees: len(s.Read) > 0, Confidential: o.Confidential,
		Attempts:        s.Attempts,
		DescribeTimeout: o.DescribeTimeout, ConfigureTimeout: o.ConfigureTimeout,
		HealthInterval: o.HealthInterval, HealthTimeout: o.HealthTimeout,
		LateTimeout: o.LateTimeout, DrainTimeout: o.DrainTimeout,
	}
}
