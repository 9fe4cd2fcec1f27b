// One of several informds that have the same state: one leads, and the others follow.

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/replica"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/state/steps"
)

// raftName is the directory, within the state directory, of what the replicas agree with.
const raftName = "raft"

// abandonAfter is how long the engine may take to end after this informd ceased to lead. Then the
// process ends, so that nothing of it goes on beside the next leader.
const abandonAfter = 10 * time.Second

// A replica ends within the 30 seconds after a signal that Kubernetes gives a Pod. These are times
// after the signal. Deliveries in flight end by drainReplica. Then the state and the handlers end,
// which takes seven seconds if a handler hangs, and then another replica takes over. If something
// else hangs, that begins at handOverBy. It takes endLimit of the package replica, five seconds, at
// most. At endBy the process ends, whatever hangs.
const (
	drainReplica = 15 * time.Second
	handOverBy   = 22 * time.Second
	endBy        = 28 * time.Second
)

// replicaFlags are the flags that make an informd one of several.
type replicaFlags struct {
	name  string
	peers map[string]string // addresses by name
	tls   string
}

// check returns what is wrong with the flags, beside those for the state directory and a dry run.
func (f *replicaFlags) check(stateDir string, isDry bool) error {
	mistake := func(format string, args ...any) error {
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf(format, args...)}
	}
	if f.name == "" && len(f.peers) == 0 && f.tls == "" {
		return nil
	}
	names := slices.Sorted(maps.Keys(f.peers))
	switch {
	case f.name == "" || len(f.peers) == 0 || f.tls == "":
		return mistake("--name, --peers and --peer-tls belong together: give all three")
	case f.peers[f.name] == "":
		return mistake("--name %q is not one of --peers: %s", f.name, strings.Join(names, ", "))
	case slices.Contains(slices.Collect(maps.Values(f.peers)), ""):
		return mistake("--peers: give each replica an address, as in a=HOST:PORT")
	case len(f.peers) < 3 || len(f.peers)%2 == 0:
		return mistake("--peers names %d replicas: give an odd number, three or more",
			len(f.peers))
	case stateDir == locate.NoState:
		return mistake("--peers needs a state directory: each replica has one of its own")
	case isDry:
		return mistake("--dry-run keeps no state, so it has no use for --peers")
	}
	for _, name := range names {
		if _, port, err := net.SplitHostPort(f.peers[name]); err != nil || port == "" {
			return mistake("--peers: the address of %s is %q: give HOST:PORT", name, f.peers[name])
		}
	}
	return nil
}

// replicate runs one of several informds until ctx ends.
func (d *informd) replicate(
	ctx context.Context, cfg *config.Config, compiled *plan.Plan) (err error) {
	ended := make(chan struct{})
	defer close(ended)
	go d.endInTime(ctx, ended)
	dir := d.flags.stateDir
	if dir == "" {
		if dir, err = locate.DefaultStateDir(d.cluster.Config.Host); err != nil {
			return err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	identity, err := replica.LoadIdentity(d.flags.replica.tls)
	if err != nil {
		return fmt.Errorf("--peer-tls: %w", err)
	}
	store, err := openReplica(dir, d.flags.version, d.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	marks := openMarks(dir, true, d.log)
	defer marks.Close()
	f := &follower{informd: d, store: store, reach: newReach(d.cluster, d.log), marks: marks}
	others := &control.Replicas{Name: d.flags.replica.name, HandOver: f.handOver}
	if err := d.listen(dir, others); err != nil {
		return err
	}
	member, err := replica.Start(replica.Options{
		Name: d.flags.replica.name, Peers: d.flags.replica.peers, Identity: identity,
		Dir: filepath.Join(dir, raftName), Storage: store, Version: d.flags.version, Logger: d.log,
		Unable: f.unable, HasLost: hasLost(dir),
		Suspects: func() []replica.Suspect { return ownSuspects(marks) },
		Asked:    http.HandlerFunc(d.control.AnswerPassed),
	})
	if err != nil {
		return errors.Join(err, d.control.Close())
	}
	defer func() { err = errors.Join(err, member.Close()) }()
	f.member = member
	others.Status, others.Leader, others.Transport = member.Status, member.Leader, member.Transport()
	d.server.show(f.mux())
	stop := d.serve(ctx)
	lasting, end := context.WithCancel(ctx)
	var probing sync.WaitGroup
	probing.Go(func() { f.reach.probe(lasting) })
	err = f.run(ctx, cfg, compiled)
	end()
	probing.Wait()
	err = errors.Join(err, stop())
	d.log.Info("informd has stopped")
	return err
}

// endInTime ends the process if it has not ended by endBy after ctx.
func (d *informd) endInTime(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-ended:
		return
	}
	select {
	case <-time.After(endBy):
		d.die("this replica has not ended in time, as something hangs: the process ends")
	case <-ended:
	}
}

// die logs why, removes the handlers' folders and ends the process: after a second even if the log
// or a disk hangs.
func (d *informd) die(why string) {
	time.AfterFunc(time.Second, func() { os.Exit(1) })
	d.log.Error(why)
	d.folders.Remove()
	os.Exit(1)
}

// openReplica opens the state of a replica. It refuses that of an informd without replicas, and one
// whose recovery was cut short. If the state is lost, it first forgets what the replica has agreed to:
// it is another replica then, or it could lead with less than the others know.
func openReplica(dir, version string, log *slog.Logger) (*state.Replica, error) {
	if err := prepareReplica(dir, log); err != nil {
		return nil, err
	}
	options := state.Options{Logger: log, Version: version}
	store, err := state.OpenReplica(dir, options)
	if errors.Is(err, state.ErrSetAside) && cutShort(dir) == nil {
		if err := forgetAgreed(dir); err != nil {
			return nil, err
		}
		store, err = state.OpenReplica(dir, options)
	}
	// A recovery may have begun before the directory was locked. It is cut short, or still runs.
	cut := cutShort(dir)
	if cut != nil {
		_ = os.Remove(filepath.Join(dir, raftName)) // that of prepareReplica, if it is empty
	}
	if locked, ok := errors.AsType[*state.LockedError](err); ok {
		return nil, fmt.Errorf("%w with --state-dir", locked)
	}
	if err != nil {
		return nil, errors.Join(cut, err)
	}
	if cut == nil {
		cut = completeReplica(dir, store)
	}
	if cut != nil {
		return nil, errors.Join(cut, store.Close())
	}
	return store, nil
}

// prepareReplica makes the directory of a replica ready for state.OpenReplica.
func prepareReplica(dir string, log *slog.Logger) error {
	if err := cutShort(dir); err != nil {
		return err
	}
	hasRaft, err := exists(dir, raftName)
	if err != nil {
		return err
	}
	hasStore, err := exists(dir, "store")
	if err != nil {
		return err
	}
	hasStore = hasStore || state.HasReceived(dir) // its place is about to be taken
	switch {
	case !hasRaft && hasStore:
		return fmt.Errorf("%s has the state of an informd without replicas: give an empty "+
			"--state-dir. If it is to be the state of all replicas, use informd cluster adopt", dir)
	case hasRaft && !hasStore:
		log.Warn("the state of this replica is gone: it gets the state of the others", "dir", dir)
		if err := forgetAgreed(dir); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(dir, raftName), 0o700) // before the store, which needs it
}

// completeReplica returns an error if the state in dir, which is open, lacks what its replica has
// agreed to. If not, it removes what a recovery has left.
func completeReplica(dir string, store *state.Replica) error {
	hasID, err := exists(dir, filepath.Join(raftName, "id"))
	if err != nil {
		return err
	}
	if !hasID && !store.IsEmpty() {
		return fmt.Errorf("%s has the state of a replica, and not what that replica has "+
			"agreed to: empty it, so that it gets everything from the others", dir)
	}
	return removeFormer(dir)
}

// forgetAgreed removes what a replica in dir has agreed to. The newest goes last: without it, an older
// one would count as that of a recovery that was cut short.
func forgetAgreed(dir string) error {
	if err := removeFormer(dir); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(dir, raftName))
}

// hasLost reports whether this replica had a state before that is set aside.
func hasLost(dir string) bool {
	aside, err := filepath.Glob(filepath.Join(dir, "broken-*"))
	return err == nil && len(aside) > 0
}

// follower is a replica, which leads at times.
type follower struct {
	*informd
	member *replica.Member
	store  *state.Replica
	reach  *reach
	marks  *steps.Marks // nil if nothing is noted

	mu     sync.Mutex              // guards the fields below
	resign context.CancelCauseFunc // ends the term in order; nil if this one does not lead
	gaveUp time.Time               // when it last handed over because it was unable to work
	isAway bool                    // it resigns because it is unable to work
}

// errHandsOver is why a term ends in order while this informd goes on.
var errHandsOver = errors.New("this informd hands over to another one")

// handOver makes another replica lead. It returns when this one does not lead any more.
func (f *follower) handOver(ctx context.Context) error {
	f.mu.Lock()
	resign := f.resign
	f.mu.Unlock()
	if resign == nil {
		return fmt.Errorf("this informd does not lead; %s does",
			cmp.Or(f.member.Status(ctx).Leader, "none"))
	}
	if !f.hasSuccessor(ctx) {
		return errors.New("no other replica can lead now: informd cluster status says why")
	}
	resign(errHandsOver)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("no other replica leads yet: %w", ctx.Err())
		}
		if info := f.member.Info(); info.Role != replica.Leads && info.Leader != "" {
			tick.Stop()
			return nil
		}
	}
}

// hasSuccessor reports whether another replica could lead and work.
func (f *follower) hasSuccessor(ctx context.Context) bool {
	return slices.ContainsFunc(f.member.Status(ctx).Members, func(m replica.MemberStatus) bool {
		return m.Role == replica.Follows && m.Trouble == "" && m.Unable == ""
	})
}

// unable returns why this informd could not work if it led, or "".
func (f *follower) unable() string { return cmp.Or(f.reach.unable(), f.store.Trouble()) }

// noteResigned notes whether a term that ended because this informd is unable to work made another
// one lead. If not, it tries again soon.
func (f *follower) noteResigned() {
	isLeading := f.member.Info().Role == replica.Leads
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isAway {
		return
	}
	f.isAway = false
	if f.gaveUp = time.Now(); isLeading {
		f.gaveUp = f.gaveUp.Add(retryResign - resignAgain)
	}
}

// resignIfUnable resigns if this informd leads and has been unable to work for a while, and another
// one is able. It does that seldom: what it lacks may be missing everywhere.
func (f *follower) resignIfUnable(ctx context.Context, resign context.CancelCauseFunc) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		why := f.unable()
		f.mu.Lock()
		isSoon := time.Since(f.gaveUp) < resignAgain
		f.mu.Unlock()
		if why == "" || isSoon || !f.hasSuccessor(ctx) {
			continue
		}
		f.log.Warn("this informd cannot work, and hands over to another replica", "reason", why)
		f.mu.Lock()
		f.isAway = true
		f.mu.Unlock()
		resign(errHandsOver)
		return
	}
}

// resignAgain is how long a replica that was unable to work leads at least when it leads again.
// retryResign is how long it leads on if no other one took over.
const (
	resignAgain = 10 * time.Minute
	retryResign = 30 * time.Second
)

// run leads whenever the others want it, until ctx ends, or until this replica cannot go on.
func (f *follower) run(ctx context.Context, cfg *config.Config, compiled *plan.Plan) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-f.store.Failed():
			cancel(f.store.Err())
		case <-ctx.Done():
		}
	}()
	pause := minRefusal
	for {
		asked := time.Now()
		term, err := f.member.Lead(ctx)
		if time.Since(asked) > time.Minute { // another one has led meanwhile
			pause = minRefusal
		}
		switch {
		case f.store.Err() != nil:
			return f.store.Err()
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		err = f.leadOnce(ctx, term, cfg, compiled)
		f.server.show(f.mux())
		f.control.Switch(nil)
		term.End()
		f.noteResigned()
		switch {
		case errors.As(err, new(*state.VersionError)): // the store has logged it, and follows
			f.log.Debug("this replica was chosen, and cannot lead", "term", term.Number(),
				"pause", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, maxRefusal)
		case err != nil && !errors.Is(err, state.ErrDeposed):
			return err
		}
	}
}

// A replica that cannot lead, because the state is in a newer format, waits between minRefusal and
// maxRefusal before it tries again. Until then it does not look for another one that can lead.
const (
	minRefusal = time.Second
	maxRefusal = 10 * time.Second
)

// leadOnce leads for a term. It returns a *state.VersionError at once if this informd is too old.
func (f *follower) leadOnce(
	ctx context.Context, term *replica.Term, cfg *config.Config, compiled *plan.Plan) error {
	if err := f.store.CheckFormat(); err != nil {
		return err
	}
	deposed := term.Context()
	f.log.Info("this informd leads", "term", term.Number())
	began := time.Now()
	ended := make(chan struct{})
	var handingOver sync.WaitGroup
	defer handingOver.Wait()
	defer close(ended)
	signalled := ctx.Done()
	handingOver.Go(func() { f.handOverInTime(signalled, ended, term) })
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(deposed, func() {
		f.log.Warn("this informd no longer leads: its engine ends at once", "term", term.Number())
		cancel(state.ErrDeposed)
	})()
	go f.watchEnd(deposed, ended)
	go f.resignIfUnable(ctx, cancel)
	suspects := f.askSuspects(ctx)
	f.mayResign(cancel)
	defer f.mayResign(nil)
	// Another replica may have led with other manifests since this one has read them.
	switch newer, compiledNewer, err := manifests.LoadForCluster(f.flags.manifests); {
	case err != nil:
		f.log.Error("the manifests have mistakes: informd leads with those that it has started with",
			"error", err)
	case !f.folders.Admit(compiledNewer.Handlers...):
		f.log.Error("informd leads with the manifests that it has started with: " + usersNeedRestart)
	default:
		cfg, compiled = newer, compiledNewer
	}
	cfg, compiled, err := f.kinds.named(ctx, cfg, compiled)
	switch {
	case ctx.Err() != nil: // the term has ended meanwhile, or this informd is to stop
		return nil
	case err != nil:
		return err
	}
	store, err := f.store.Lead(func(entry []byte) error {
		err := term.Propose(entry)
		if errors.Is(err, replica.ErrDeposed) {
			err = fmt.Errorf("%w: %w", state.ErrDeposed, err)
		}
		return err
	})
	if err != nil {
		return err
	}
	epoch, err := enterEpoch(store, f.member.Info().Cluster, term.Number())
	if err != nil {
		return err
	}
	f.log.Info("the state is open", "took", time.Since(began).Round(time.Millisecond),
		"epoch", epoch.String())
	return f.lead(ctx, cfg, compiled, leading{
		store: store, abort: deposed.Done(), drain: drainReplica, epoch: epoch, verify: term.Verify,
		own:   f.member.Info,
		marks: f.marks, suspects: suspects,
		serve: func(context.Context) func() error { return func() error { return nil } },
	})
}

// ownSuspects returns the changes in whose steps this replica died.
func ownSuspects(marks *steps.Marks) (all []replica.Suspect) {
	for _, s := range marks.Suspects() {
		all = append(all, replica.Suspect(s))
	}
	return all
}

// askSuspects begins to ask the other replicas in which steps they died. answer waits until they
// have answered, a second at most.
func (f *follower) askSuspects(ctx context.Context) (answer func(context.Context) []steps.Suspect) {
	answers := make(chan []steps.Suspect, 1)
	go func() { answers <- f.suspects(ctx) }()
	return func(ctx context.Context) []steps.Suspect {
		select {
		case all := <-answers:
			return all
		case <-ctx.Done():
			return nil
		}
	}
}

// suspects returns the changes in whose steps the other replicas died, of those that answer.
func (f *follower) suspects(ctx context.Context) (all []steps.Suspect) {
	for _, m := range f.member.Status(ctx).Members {
		if m.Name == f.flags.replica.name {
			continue
		}
		for _, s := range m.Suspects {
			all = append(all, steps.Suspect(s))
		}
	}
	return all
}

// mayResign sets what ends the term in order.
func (f *follower) mayResign(resign context.CancelCauseFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resign = resign
}

// handOverInTime makes another replica lead if this one still leads by handOverBy after signalled.
func (f *follower) handOverInTime(signalled, ended <-chan struct{}, term *replica.Term) {
	select {
	case <-signalled:
	case <-ended:
		return
	}
	select {
	case <-time.After(handOverBy):
		go f.log.Warn( // it may hang, and so may End
			"the state and the handlers have not ended in time: another replica takes over now")
		term.End()
	case <-term.Context().Done():
	case <-ended:
	}
}

// watchEnd ends the process if a term is over and its engine does not end.
func (f *follower) watchEnd(deposed context.Context, ended <-chan struct{}) {
	select {
	case <-deposed.Done():
	case <-ended:
		return
	}
	select {
	case <-time.After(abandonAfter):
		f.die("the engine has not ended, although this informd no longer leads: the process ends")
	case <-ended:
	}
}

// mux returns the handler for what --listen serves while this informd follows: the paths are those
// of newMux.
func (f *follower) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // the client may have gone
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, line := ofReplica(f.member.Info())
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		end := "ready"
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
			end = "not ready; informd cluster status says why"
		}
		fmt.Fprintf(w, "%s%s\n", line, end)
	})
	metrics := newMetrics(f.flags.version, false)
	metrics.registry.MustRegister(replicaCollector(f.member.Info))
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.registry, promhttp.HandlerOpts{}))
	if f.flags.pprof {
		addProfiles(mux)
	}
	return mux
}
