// Controlplane is a Kubernetes control plane for tests: etcd and kube-apiserver, the released code,
// in one process.
//
//	controlplane --dir DIR [--port N]
//
// It keeps everything in DIR, writes DIR/kubeconfig (an administrator) and DIR/kubeconfig-limited
// (the user "limited", who may do nothing until a test binds a role to it), prints "ready" on
// standard output once the server answers through that kubeconfig, and runs until SIGTERM or
// SIGINT, which end it with exit code 0; a second signal ends it at once. Started again on the same
// DIR, also after kill -9, it is the same cluster: same certificates, same data and, as long as
// nobody else has taken it, same port. One DIR serves one instance at a time.
//
// DIR is 0700 and belongs to controlplane alone; keys, tokens, kubeconfigs and the log are 0600:
//
//	kubeconfig, kubeconfig-limited   credentials for clients
//	controlplane.log                 the log of etcd and kube-apiserver, appended to by every run
//	port                             the port that the next run tries first
//	pki/                             certificates, keys and tokens; complete or absent
//	etcd/, etcd.sock                 etcd's data and the only address it listens on
//	lock                             held by the running instance
//
// The API server listens on 127.0.0.1 only. RBAC is on. Service accounts are not required of a Pod.
//
// What it is not: durable (etcd never calls fsync: a crash of the process loses nothing, a crash of
// the machine may), and a whole cluster. No controllers run, so nothing turns a Deployment into
// Pods, nothing collects garbage or fills in service accounts, and a deleted Namespace stays in
// Terminating. Nothing is ever scheduled.
//
// It is a module of its own because kube-apiserver's dependencies must not become anyone else's.
// Plain go build makes it; a first build compiles all of kube-apiserver and takes minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

const (
	// readyTimeout bounds the start. A cold start takes about five seconds on two free cores.
	readyTimeout = 2 * time.Minute

	// stopTimeout bounds the end, which usually takes two or three seconds. Past it the process
	// just exits, which is as safe as kill -9.
	stopTimeout = 5 * time.Second
)

func main() {
	syscall.Umask(0o077) // whatever the libraries create is nobody else's either
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// flags are the command line.
type flags struct {
	dir  string
	port int // 0: the remembered one, or a free one
}

func parseFlags(args []string, stderr io.Writer) (flags, error) {
	var f flags
	set := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Usage = func() {
		fmt.Fprintf(stderr, "usage: controlplane --dir DIR [--port N]\n\n"+
			"Runs etcd and kube-apiserver %s for tests.\n\n", release)
		set.PrintDefaults()
	}
	set.StringVar(&f.dir, "dir", "",
		"`folder` for data, certificates, kubeconfig and log; made if absent")
	set.IntVar(&f.port, "port", 0,
		"`port` on 127.0.0.1; 0 takes the one of the last run, or a free one")
	if err := set.Parse(args); err != nil {
		return flags{}, err
	}
	var err error
	switch {
	case set.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", set.Arg(0))
	case f.dir == "":
		err = errors.New("--dir is required")
	case f.port < 0 || f.port > 65535:
		err = fmt.Errorf("--port %d is not a port", f.port)
	}
	if err != nil {
		fmt.Fprintf(stderr, "controlplane: %v\n", err)
		set.Usage()
	}
	return f, err
}

func run(args []string, stdout, stderr io.Writer) int {
	f, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}

	ctx, restore := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, restore) // the second signal has its default effect

	note := func(format string, args ...any) {
		fmt.Fprintf(stderr, "controlplane: "+format+"\n", args...)
	}
	d, err := openDir(f.dir)
	if err != nil {
		note("%v", err)
		return 1
	}
	defer d.close()

	logFile, err := d.openLog()
	if err != nil {
		note("%v", err)
		return 1
	}
	defer logFile.Close()
	redirectLogs(logFile)

	// kube-apiserver ends the process on some errors. A start that is interrupted is one of them.
	klog.OsExit = func(int) {
		if ctx.Err() != nil {
			os.Exit(0)
		}
		note("kube-apiserver gave up; the reason is at the end of %s", logFile.Name())
		os.Exit(1)
	}

	if err := serve(ctx, d, f.port, logFile, stdout, note); err != nil {
		note("%v; the log is %s", err, logFile.Name())
		return 1
	}
	return 0
}

// redirectLogs sends what the libraries say to f. They write to os.Stderr by name; a panic of the
// Go runtime writes to file descriptor 2 and so still reaches the terminal.
func redirectLogs(f *os.File) {
	os.Stderr = f
	log.SetOutput(f)
	klog.SetOutput(f)
}
