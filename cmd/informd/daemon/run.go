// Package daemon is informd run. It wires the engine, the handlers, the control socket and the HTTP
// server together, runs them until a signal, and stops them in order.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/cmd/informd/rbac"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/replica"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/state/steps"
	"github.com/informd/informd/internal/bounded"
	"github.com/informd/informd/internal/peer"
	"github.com/informd/informd/internal/slack"
	"github.com/informd/informd/plugins/handler"
)

// drainTimeout bounds how long deliveries in flight take to end after a signal. With the seconds
// that handlers then get to exit, informd stays within the 30 seconds that Kubernetes gives a Pod.
// A replica also has to hand over: see drainReplica.
const drainTimeout = 20 * time.Second

// runFlags are the flags of informd run. It has many fields because the command has many flags.
type runFlags struct {
	manifests           []string
	kubeconfig, context string
	listen              string
	pprof, watch        bool
	ruleMetrics         bool
	logFormat, logLevel string
	dryRun              bool
	stateDir, control   string
	setStateAside       bool
	replica             replicaFlags

	// not flags:
	version string // of informd
	loaded  string // the fingerprint of the manifests before they were loaded
}

// NewRunCommand returns informd run.
func NewRunCommand(version string) *cobra.Command {
	flags := runFlags{version: version}
	cmd := &cobra.Command{
		Use:   "run -f PATH… [flags]",
		Short: "Watch a cluster and deliver the changes that rules select, until a signal",
		Long: `Watch a cluster and deliver the changes that rules select, until SIGINT or SIGTERM.
informd then starts no new delivery, gives the handlers time to finish, and ends with exit code 0.
A second signal ends it at once.

informd finds the cluster as kubectl does: by --kubeconfig, $KUBECONFIG, ~/.kube/config, or
in-cluster. It waits for an API server that it cannot reach, and for resources that are not served
or not permitted.

The state directory records the objects informd has seen and the events it still has to deliver, so
a restart loses nothing. Only one informd can use it at a time. By default it is informd/CLUSTER in
$XDG_STATE_HOME or ~/.local/state.

informd refuses to start on a state that a newer version has written and that it cannot read. Start
that version, or add --set-state-aside: informd then renames the state to broken-TIME-version, and
begins without it.

informd reload and SIGHUP make informd read its manifests again and take up what has changed,
without a restart. With --watch it does so by itself, once the files have stayed the same for a
second. Manifests with mistakes change nothing.

With --name, --peers and --peer-tls, this informd is one of several replicas with the same state, as
in --name a --peers a=HOST:PORT,b=HOST:PORT,c=HOST:PORT. One of them leads and does the work, and the
others have everything that it has written. If the one that leads is lost, another one continues
where it was. informd certs makes certificates for --peer-tls, which name the replicas or their
hosts.

--listen serves /livez, /readyz and /metrics. The other commands talk to the daemon over the control
socket, by default control.sock in the state directory.

--pprof also serves Go's profiles there, under /debug/pprof/. Whoever reaches the address can then
see informd's command line, its code paths, and how much memory and time each takes, and can slow
informd down by asking. Profiles hold no objects. Without --pprof the paths do not exist.

Exit code 0: ended by a signal. 1: the run failed. 2: the command line or the manifests have
mistakes.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.profiling(); err != nil {
				return err
			}
			if err := flags.replica.check(flags.stateDir, flags.dryRun); err != nil {
				return err
			}
			log, err := newLogger(cmd.ErrOrStderr(), flags.logFormat, flags.logLevel)
			if err != nil {
				return err
			}
			flags.loaded = manifests.Fingerprint(flags.manifests)
			cfg, compiled, err := manifests.LoadForCluster(flags.manifests)
			if mistakes, ok := errors.AsType[config.Mistakes](err); ok {
				fmt.Fprintln(cmd.ErrOrStderr(), mistakes.Error())
				n := len(mistakes)
				err = fmt.Errorf("%d %s in the configuration", n, cli.Plural(n, "mistake"))
			}
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			folders, err := launch.NewFolders(compiled.Handlers, version)
			if err != nil {
				return cli.Failed(err)
			}
			defer folders.Remove()
			ctx, stop := cli.WithSignals(cmd.Context(), folders.Remove)
			defer stop()
			if err := run(ctx, flags, cfg, compiled, folders, log); err != nil {
				return cli.Failed(err)
			}
			return nil
		},
	}
	cli.ManifestFlag(cmd, &flags.manifests)
	f := cmd.Flags()
	f.StringVar(&flags.kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE`; default: as for kubectl, or in-cluster")
	f.StringVar(&flags.context, "context", "",
		"context `NAME` in the kubeconfig; default: the current one")
	f.StringVar(&flags.stateDir, "state-dir", "", "state `DIR`, or none to keep no state; "+
		"default: by cluster")
	f.BoolVar(&flags.setStateAside, "set-state-aside", false,
		"begin without a state that a newer informd has written, and set it aside")
	f.StringVar(&flags.replica.name, "name", "", "`NAME` of this replica, one of --peers")
	f.StringToStringVar(&flags.replica.peers, "peers", nil,
		"all replicas, as `NAME=ADDRESS`, with commas: an odd number, three or more")
	f.Lookup("peers").DefValue = "" // for the help
	f.StringVar(&flags.replica.tls, "peer-tls", "",
		"`DIR` with tls.crt, tls.key and ca.crt, with which the replicas know each other")
	f.StringVar(&flags.control, "control", "", "control `SOCKET`; default: in the state directory")
	f.StringVar(&flags.listen, "listen", "",
		"`ADDRESS` for health and metrics, such as 127.0.0.1:9180")
	f.BoolVar(&flags.ruleMetrics, "rule-metrics", true,
		"show metrics of each rule; false leaves them out where there are too many")
	f.BoolVar(&flags.pprof, "pprof", false,
		"serve profiles to everyone who reaches the address of --listen")
	cli.ChoiceFlag(cmd, &flags.logFormat, "log-format", "format of the log", "text", logFormats...)
	cli.ChoiceFlag(cmd, &flags.logLevel, "log-level", "lowest level", "info", logLevels...)
	f.BoolVar(&flags.watch, "watch", false,
		"reload when the manifests have changed, as informd reload does")
	f.BoolVar(&flags.dryRun, "dry-run", false,
		"only log deliveries and changes; start no handler but log")
	return cmd
}

// run wires everything together and runs it until ctx ends. Then the engine stops first, after its
// deliveries in flight. The handlers and both servers outlive it.
func run(
	ctx context.Context, flags runFlags, cfg *config.Config, compiled *plan.Plan,
	folders *launch.Folders, log *slog.Logger) error {
	hangups, stop := catchHangups()
	defer stop()
	if err := undumpable(); err != nil {
		return err
	}
	if err := peer.Adopt(); err != nil {
		return err
	}
	spread()
	restConfig, err := locate.Cluster(flags.kubeconfig, flags.context)
	if err != nil {
		return err
	}
	// Each informer lists once and then watches, and the engine bounds how many list at a time. A
	// rate limit as well would only delay the start of many sources.
	restConfig.QPS = -1
	restConfig.UserAgent = fmt.Sprintf("informd/%s (%s/%s)",
		flags.version, runtime.GOOS, runtime.GOARCH)
	cluster, err := connect(restConfig)
	if err != nil {
		return err
	}
	d := &informd{
		flags: flags, folders: folders, log: log, hangups: hangups, cluster: cluster,
		kinds: newKinds(cluster.Discovery, log), started: time.Now(),
	}
	if flags.replica.name != "" {
		err = d.replicate(ctx, cfg, compiled)
	} else {
		err = d.runAlone(ctx, cfg, compiled)
	}
	if restConfig.ExecProvider != nil {
		endChildren() // a credential plugin may hang
	}
	return err
}

// informd is what a process has however often it begins to lead.
type informd struct {
	flags   runFlags
	folders *launch.Folders
	log     *slog.Logger
	hangups hangups
	cluster engine.Cluster
	kinds   *kinds
	started time.Time

	server  *httpServer     // nil without --listen
	control *control.Server // nil if there is no place for its socket
}

// listen makes both servers. replicas is nil if this informd is not one of several.
func (d *informd) listen(stateDir string, replicas *control.Replicas) (err error) {
	if d.server, err = listen(d.flags.listen); err != nil {
		return err
	}
	d.control, err = newControl(d.flags.control, stateDir, replicas, d.log)
	return err
}

// serve runs both servers, and what the process has to do beside, until stop is called.
func (d *informd) serve(ctx context.Context) (stop func() error) {
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	if d.flags.pprof {
		d.log.Warn("serving profiles to everyone who reaches the address", "address", d.flags.listen)
	}
	group.Go(func() error { return d.server.run(lasting, d.log) })
	group.Go(func() error { return d.control.Run(lasting) })
	group.Go(func() error {
		peer.ReapOrphans(lasting)
		return nil
	})
	group.Go(func() error {
		slack.Release(lasting)
		return nil
	})
	return func() error {
		end()
		return group.Wait()
	}
}

// runAlone runs an informd that has no replicas.
func (d *informd) runAlone(ctx context.Context, cfg *config.Config, compiled *plan.Plan) error {
	cfg, compiled, err := d.kinds.named(ctx, cfg, compiled)
	if err != nil {
		return err
	}
	stateDir, store, err := openState(d.flags, d.cluster.Config.Host, d.log)
	if err != nil {
		return err
	}
	epoch, err := enterAlone(store, d.log)
	if err != nil {
		return err
	}
	if err := d.listen(stateDir, nil); err != nil {
		return err
	}
	marks := openMarks(stateDir, store != nil, d.log)
	defer marks.Close()
	isServing := false
	err = d.lead(ctx, cfg, compiled, leading{
		store: store, marks: marks, epoch: epoch, drain: drainTimeout,
		serve: func(ctx context.Context) func() error {
			isServing = true
			return d.serve(ctx)
		},
	})
	if !isServing {
		err = errors.Join(err, d.control.Close())
	}
	d.log.Info("informd has stopped")
	return err
}

// leading is what an engine runs on.
type leading struct {
	store *state.Store // nil if nothing is kept
	marks *steps.Marks // nil if nothing is noted
	// suspects returns the changes in whose steps other replicas died; nil without replicas.
	suspects func(context.Context) []steps.Suspect
	// abort is closed when the engine must end at once; nil if that cannot be.
	abort <-chan struct{}
	// own returns what this replica knows of itself; nil without replicas.
	own func() replica.Info
	// drain is the DrainTimeout of engine.Options.
	drain time.Duration
	// epoch and verify are those of engine.Options. Without replicas, verify is nil.
	epoch  handler.Epoch
	verify func(context.Context) error
	// serve begins to serve once there is something to show.
	serve func(context.Context) (stop func() error)
}

// lead runs an engine and its handlers until ctx ends.
func (d *informd) lead(
	ctx context.Context, cfg *config.Config, compiled *plan.Plan, on leading) error {
	flags, log, folders := d.flags, d.log, d.folders
	asked := ctx
	ctx, over := context.WithCancel(ctx) // what follows the manifests ends with the engine
	defer over()
	d.kinds.logUnserved(compiled)
	cache := new(cached)
	handlers, err := newHandlers(compiled.Handlers, folders, flags.dryRun, cache, log)
	if err != nil {
		return err
	}
	metrics := newMetrics(flags.version, flags.ruleMetrics)
	metrics.begin(compiled)
	reviewer, err := rbac.NewReviewer(d.cluster.Config, d.cluster.HTTP)
	if err != nil {
		return err
	}
	lacks := newPermissions(reviewer, on.store != nil, log)
	eng, err := engine.New(compiled, d.cluster, handlers.all.byName(), engine.Options{
		Logger: log, Delivered: metrics.delivered, Acted: func(d action.Done) {
			metrics.acted(d)
			lacks.acted(d)
		},
		DryRun: flags.dryRun, DrainTimeout: on.drain, State: on.store, Abort: on.abort,
		Epoch: on.epoch, Verify: on.verify, Steps: on.marks, Suspects: on.suspects,
	})
	if err != nil {
		return err
	}
	handlers.isConfidential, handlers.seesSecrets = eng.IsConfidential, eng.SeesSecrets
	now := &current{
		paths: flags.manifests, engine: eng, handlers: handlers, folders: folders,
		log: log, rights: lacks, loaded: flags.loaded, metrics: metrics, kinds: d.kinds,
	}
	now.running.Store(&running{cfg, compiled})
	reloader := &reloader{
		load: func(ctx context.Context) (*config.Config, error) {
			cfg, _, err := now.load(ctx)
			return cfg, err
		},
		running: now.running.Load, process: handlers.reloadable, allow: eng.Allow,
		reloaded: handlers.reloaded, folders: folders, dryRun: flags.dryRun, log: log,
	}
	lacks.follow(now.plan, eng)
	metrics.registry.MustRegister(lacks.gauge())
	cache.read(now.names, eng)
	metrics.watch(eng, handlers, now.last.Load, d.cluster.Config)
	if on.own != nil {
		metrics.registry.MustRegister(replicaCollector(on.own))
	}
	fits := newFitting(d.cluster.Discovery, cfg, log)
	now.fitting = fits
	d.server.show(newMux(eng, handlers, metrics, now.last.Load, lacks, on.own, flags.pprof))
	d.control.Switch(&backend{
		version: flags.version, replica: flags.replica.name, engine: eng, handlers: handlers,
		started: d.started, reloader: reloader, current: now, fitting: fits,
		rights: lacks,
	})

	log.Info("informd starts", "version", flags.version, "sources", len(compiled.Sources),
		"rules", len(compiled.Rules), "handlers", len(compiled.Handlers),
		"informers", len(compiled.Informers), "server", d.cluster.Config.Host)
	lasting, end := context.WithCancel(context.WithoutCancel(ctx)) // what outlives the engine
	defer end()
	stop := on.serve(ctx)
	var group errgroup.Group
	group.Go(func() error { return handlers.run(lasting) })
	group.Go(func() error {
		lacks.run(lasting)
		return nil
	})
	group.Go(func() error {
		fits.run(lasting)
		return nil
	})
	group.Go(func() error {
		d.hangups.each(ctx, func() { _, _ = now.reload(ctx) }) // which logs
		return nil
	})
	group.Go(func() error {
		now.awaitKinds(ctx)
		return nil
	})
	if flags.watch {
		group.Go(func() error {
			now.watch(ctx)
			return nil
		})
	}
	stopLogging := context.AfterFunc(asked, func() {
		if context.Cause(asked) == context.Canceled { // otherwise this informd goes on and follows
			log.Info("informd is to stop: deliveries in flight have time to end; " +
				"a second signal ends it at once")
		}
	})
	defer stopLogging()
	if on.abort != nil {
		group.Go(func() error {
			select {
			case <-on.abort: // the handlers of the next leader begin
				end()
			case <-lasting.Done():
			}
			return nil
		})
	}
	err = eng.Run(ctx)
	log.Info("informd stops: deliveries have ended, handlers are ending")
	over()
	end()
	group.Go(stop)
	return errors.Join(err, group.Wait())
}

// connect makes the clients of a cluster. It sends nothing.
func connect(cfg *rest.Config) (engine.Cluster, error) {
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return engine.Cluster{}, fmt.Errorf("set up the connection to %s: %w", cfg.Host, err)
	}
	source.Impatient(httpClient, cfg)
	discoveryClient, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, bounded.Client(httpClient))
	if err != nil {
		return engine.Cluster{}, fmt.Errorf("set up the connection to %s: %w", cfg.Host, err)
	}
	return engine.Cluster{Config: cfg, HTTP: httpClient, Discovery: discoveryClient}, nil
}
