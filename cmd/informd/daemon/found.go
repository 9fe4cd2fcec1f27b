package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/engine/replica"
	"github.com/informd/informd/engine/state"
)

// formerName is the directory, within the state directory, to which recover moves what the replica
// had agreed to. It is there while a recovery runs, and after one that was cut short.
const formerName = "raft.former"

// founding makes a state directory that of the first replica of a cluster.
type founding struct {
	stateDir, name string
	isConfirmed    bool
	version        string

	dir string // stateDir as an absolute path
	log *slog.Logger
}

// NewAdoptCommand returns informd cluster adopt.
func NewAdoptCommand(version string) *cobra.Command {
	f := founding{version: version}
	return f.command("adopt", "Make the state of one informd that of the first of several replicas",
		`Make the state of an informd without replicas that of the first replica of a new cluster, so that
the others get all of it. Stop informd before. Without --yes, the command only says what it would do.
`+thenRun, f.adopt)
}

// NewRecoverCommand returns informd cluster recover.
func NewRecoverCommand(version string) *cobra.Command {
	f := founding{version: version}
	return f.command("recover", "Continue from the disk of one replica when most are lost for good",
		`Make the state of one replica that of the first one of the cluster, which begins again without the
others: for when more than half of the disks are lost for good. Before, make sure that no other disk
can be saved: what the replicas agreed on and this one did not get is lost. The command says up to when
this replica has everything. If several are left, choose the one that has the latest. Without --yes,
the command only says what it would do.
`+thenRun, f.recover)
}

const thenRun = `
Then start this replica, and the others with empty state directories: it leads at once, and they join.
Run the command as the user that informd runs as. If it is interrupted, run it again.`

func (f *founding) command(use, short, long string, do func(*cobra.Command) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " --state-dir DIR --name NAME [--yes]", Short: short, Long: long,
		Args: cli.NoArguments,
	}
	cmd.Flags().StringVar(&f.stateDir, "state-dir", "", "state `DIR` of the replica")
	cmd.Flags().StringVar(&f.name, "name", "", "`NAME` of the replica, as in --peers of informd run")
	cmd.Flags().BoolVar(&f.isConfirmed, "yes", false, "do it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.stateDir == "" || f.name == "" {
			return errors.New("--state-dir or --name is missing: name the directory, and the replica that " +
				"is to have it")
		}
		if err := replica.CheckName(f.name); err != nil {
			return err
		}
		dir, err := filepath.Abs(f.stateDir)
		if err != nil {
			return cli.Failed(err)
		}
		f.dir = dir
		f.log = slog.New(cli.NewTextLog(cmd.ErrOrStderr(),
			&slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: cli.Untimed}))
		if err := do(cmd); err != nil {
			return cli.Failed(err)
		}
		if !f.isConfirmed {
			return cli.Show(cmd, "nothing of the state was changed: repeat the command with --yes\n")
		}
		return cli.Show(cmd, "done: now start the replica %s, and the others with empty state "+
			"directories\n", f.name)
	}
	return cmd
}

// adopt makes the state of an informd without replicas that of the first of several.
func (f *founding) adopt(cmd *cobra.Command) error {
	if err := cutShort(f.dir); err != nil {
		return err
	}
	isReplica, err := exists(f.dir, raftName)
	if err != nil {
		return err
	}
	if isReplica {
		return fmt.Errorf("%s belongs to a replica already: start informd there with --name, --peers and "+
			"--peer-tls. If most of the other replicas are lost for good, use informd cluster recover",
			f.stateDir)
	}
	options := f.options()
	options.CatchCrashes = true
	if err := f.check(options); err != nil {
		return err
	}
	err = cli.Show(cmd, "The state in %s becomes that of the replica %s, which is the first one of a "+
		"cluster.\nAn informd without --peers cannot use it any more.\n", f.stateDir, f.name)
	if err != nil || !f.isConfirmed {
		return err
	}
	return f.settle(options, nil, func(g state.Generation) error {
		return replica.Found(filepath.Join(f.dir, raftName), f.name, replica.Remains{Cluster: g.Cluster})
	})
}

// recover makes a replica the first of its cluster, without the others.
//
// From the moment at which raft has its other name, informd refuses the directory: the replica may
// then have applied what its cluster never agreed on.
func (f *founding) recover(cmd *cobra.Command) error {
	raft, former := filepath.Join(f.dir, raftName), filepath.Join(f.dir, formerName)
	isRaft, err := exists(f.dir, raftName)
	if err != nil {
		return err
	}
	isFormer, err := exists(f.dir, formerName)
	if err != nil {
		return err
	}
	isFounded, err := isFounded(f.dir)
	if err != nil {
		return err
	}
	if isFormer && isFounded {
		return f.finish(cmd)
	}
	from := raft
	if isFormer {
		from = former
	}
	if !isRaft && !isFormer {
		if err := f.check(f.options()); err != nil {
			return err
		}
		return fmt.Errorf("%s has the state of an informd without replicas: start informd there without "+
			"--peers, or use informd cluster adopt", f.stateDir)
	}
	if err := f.check(f.options()); err != nil {
		return err
	}
	is, err := replica.Inspect(from, nil)
	switch {
	case err != nil:
		return fmt.Errorf("what the replica has agreed to cannot be read: %w. If all others are lost, do "+
			"not empty the directory. %s", err, withoutRaft(from))
	case is.Last == 0 || is.Cluster == "":
		return fmt.Errorf("the replica in %s has received nothing from a cluster: use the directory of "+
			"another one", f.stateDir)
	case is.Name != "" && is.Name != f.name && !is.IsAlone: // one that is alone may get another name
		return fmt.Errorf("%s belongs to the replica %s, and not to %s: correct --name or --state-dir",
			f.stateDir, is.Name, f.name)
	}
	if err := f.showLoss(cmd, is); err != nil || !f.isConfirmed {
		return err
	}
	err = f.settle(f.options(),
		func(apply func([]byte) error) (err error) {
			if err := f.setRaftAside(); err != nil {
				return err
			}
			is, err = replica.Inspect(former, apply)
			return err
		},
		func(state.Generation) error {
			// An informd that could not lock the directory may have made an empty one.
			if err := os.Remove(raft); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err := replica.Found(raft, f.name, is); err != nil {
				return err
			}
			return os.RemoveAll(former)
		})
	if err != nil && cutShort(f.dir) != nil {
		err = fmt.Errorf("%w. Run the command again when that is mended. %s", err, withoutRaft(former))
	}
	return err
}

// settle is state.Settle. While that lasts long, it says so.
func (f *founding) settle(o state.Options,
	replay func(func([]byte) error) error, found func(state.Generation) error,
) error {
	done := make(chan error, 1)
	go func() { done <- state.Settle(f.dir, o, replay, found) }()
	tick := time.NewTicker(sayWaits)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return f.explain(err)
		case <-tick.C:
			f.log.Warn("this takes long: the disk is slow, or it hangs, is full or read-only. "+
				"The command can be interrupted and run again", "dir", f.dir)
		}
	}
}

// sayWaits is how often settle says that it waits.
const sayWaits = 5 * time.Second

// withoutRaft says how to continue with a state if what its replica has agreed to cannot be read.
func withoutRaft(path string) string {
	return "To continue without the entries that the state lacks, remove " + filepath.Base(path) +
		" from the directory and run informd cluster adopt"
}

// showLoss says what recover does, and what may be lost.
func (f *founding) showLoss(cmd *cobra.Command, is replica.Remains) error {
	at := "at an unknown time"
	if !is.At.IsZero() {
		at = "at " + is.At.UTC().Format(time.RFC3339)
	}
	without := ""
	if !is.Votes {
		without = "This replica had no vote: it may have got much less than the others.\n"
	}
	if is.Name != "" && is.Name != f.name {
		without += "Its name was " + is.Name + " until now.\n"
	}
	return cli.Show(cmd, `The replica %s has everything up to entry %d, which the leader made %s.
%sWhat the replicas agreed on after that is lost: events since then come again, and dead letters,
pauses and timers since then are gone. An event that only the others knew of does not come if its
object has changed since.
The replica becomes the first one of the cluster, and the others are none of its members any more.
Do not start them with the directories that they had.
`, f.name, is.Last, at, without)
}

// finish removes what a recovery has left that was cut short at its very end.
func (f *founding) finish(cmd *cobra.Command) error {
	is, err := replica.Inspect(filepath.Join(f.dir, raftName), nil)
	if err != nil {
		return err
	}
	f.name = is.Name
	err = cli.Show(cmd, "The replica %s in %s was recovered before; what it had agreed to until then is "+
		"still to be removed.\n", f.name, f.stateDir)
	if err != nil || !f.isConfirmed {
		return err
	}
	return removeFormer(f.dir)
}

// check returns an error unless there is a state that can be used.
func (f *founding) check(o state.Options) error { return f.explain(state.Check(f.dir, o)) }

// explain adds what to do to an error about the state.
func (f *founding) explain(err error) error {
	locked := new(state.LockedError)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &locked):
		who := "another process"
		if locked.PID != 0 {
			who = fmt.Sprintf("process %d", locked.PID)
		}
		return fmt.Errorf("%s is in use by %s: stop it first", f.stateDir, who)
	case errors.As(err, new(*state.VersionError)):
		return fmt.Errorf("%w: use the command of that version", err)
	}
	isState, cannot := exists(f.dir, "store")
	if cannot == nil && !isState {
		return fmt.Errorf("there is no state in %s: correct --state-dir. To begin without a state, start all "+
			"replicas with empty directories: %w", f.stateDir, err)
	}
	return fmt.Errorf("the state in %s cannot be used: %w", f.stateDir, err)
}

func (f *founding) options() state.Options {
	return state.Options{Logger: f.log, Version: f.version}
}

// cutShort returns an error if the recovery of a replica in dir was cut short.
func cutShort(dir string) error {
	isFormer, err := exists(dir, formerName)
	if err != nil || !isFormer {
		return err
	}
	if isFounded, err := isFounded(dir); err != nil || isFounded {
		return err
	}
	return fmt.Errorf("a recovery of %s was cut short: run informd cluster recover again", dir)
}

// isFounded reports whether dir has what replica.Found makes. A replica that has never met the others
// lacks it.
func isFounded(dir string) (bool, error) { return exists(dir, filepath.Join(raftName, "snapshot")) }

// removeFormer removes what a replica in dir had agreed to before it was recovered.
func removeFormer(dir string) error { return os.RemoveAll(filepath.Join(dir, formerName)) }

// exists reports whether there is a file with a name in dir.
func exists(dir, name string) (bool, error) {
	_, err := os.Lstat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// setRaftAside gives raft its other name, unless that is done already, so that a crash does not undo it.
func (f *founding) setRaftAside() error {
	isFormer, err := exists(f.dir, formerName)
	if err != nil {
		return err
	}
	if !isFormer {
		err := os.Rename(filepath.Join(f.dir, raftName), filepath.Join(f.dir, formerName))
		if err != nil {
			return err
		}
	}
	parent, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}
