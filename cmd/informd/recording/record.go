// Package recording is informd record and informd replay. The one writes the changes of a cluster's
// objects to a file, and the other runs rules over such a file, in virtual time.
//
// line.go is the format, which is also what kubectl get --output-watch-events -o json prints. To
// record, recorder.go lists and watches, each selection by a follower (follow.go), masks Secrets
// (secrets.go), and writes (file.go). To replay, reader.go cuts the file into documents, and
// player.go does what they say on a simulate.Simulation. against.go compares the events of two
// configurations.
package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

type recordFlags struct {
	manifests           []string
	kubeconfig, context string
	output              string
	force               bool
	duration            time.Duration

	version string // of informd; not a flag
}

// NewRecordCommand returns informd record.
func NewRecordCommand(version string) *cobra.Command {
	flags := recordFlags{version: version}
	cmd := &cobra.Command{
		Use:   "record -f PATH… -o FILE [flags]",
		Short: "Write what the sources of rules see to a file, for informd replay",
		Long: `Write the objects that the Sources in the manifests select, and then their changes, to a
file, until SIGINT or SIGTERM, or for the time that --for says. informd replay runs rules over it.

The file has a line of JSON per change, as kubectl get --watch --output-watch-events -o json prints
it, with the time. If the name ends in .gz, the file is compressed. -o - writes to standard output.
What happens reaches the file within a second, so that the file is of use even after kill -9.

The values of Secrets are masked. Equal values have equal masks within a recording, so rules that
compare them still work. All other objects are written as they are: only you can read the file.

If the API server cannot be reached, the command tries again. If the server has lost the history
meanwhile, the command lists the objects again, and the recording says so.

The command finds the cluster as informd run does, and needs the same permissions: list and watch.

Exit code 0: ended by a signal, or after --for. 1: the recording failed. 2: the command line or the
manifests have mistakes.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case flags.output == "":
				return errors.New("-o is missing: name the file to write, or - for standard output")
			case flags.duration < 0:
				return fmt.Errorf("--for %v: must be longer than 0", flags.duration)
			}
			_, p, err := manifests.LoadForCluster(flags.manifests)
			if mistakes, ok := errors.AsType[config.Mistakes](err); ok {
				fmt.Fprintln(cmd.ErrOrStderr(), mistakes.Error())
				n := len(mistakes)
				err = fmt.Errorf("%d %s in the configuration", n, cli.Plural(n, "mistake"))
			}
			if err == nil && len(p.Informers) == 0 {
				err = errors.New("there is no Source in the manifests: nothing to record")
			}
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			if err := flags.record(cmd, p); err != nil {
				return cli.Failed(err)
			}
			return nil
		},
	}
	cli.ManifestFlag(cmd, &flags.manifests)
	f := cmd.Flags()
	f.StringVarP(&flags.output, "output", "o", "",
		"`FILE` to write, compressed if it ends in .gz; - is standard output")
	f.BoolVar(&flags.force, "force", false, "replace the file if it exists")
	f.DurationVar(&flags.duration, "for", 0,
		"how long to record, a `DURATION`; default: until a signal")
	f.StringVar(&flags.kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE`; default: as for kubectl, or in-cluster")
	f.StringVar(&flags.context, "context", "",
		"context `NAME` in the kubeconfig; default: the current one")
	return cmd
}

// record records what the sources of a plan select.
func (f *recordFlags) record(cmd *cobra.Command, p *plan.Plan) error {
	cluster, err := locate.Cluster(f.kubeconfig, f.context)
	if err != nil {
		return err
	}
	cluster.UserAgent = fmt.Sprintf("informd/%s (%s/%s)", f.version, runtime.GOOS, runtime.GOARCH)
	client, err := newClient(cluster)
	if err != nil {
		return err
	}
	ctx, stop := cli.WithSignals(cmd.Context(), nil)
	defer stop()
	if f.duration > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, f.duration)
		defer end()
	}
	r := newRecorder(client, selections(p), func(format string, args ...any) {
		cmd.PrintErrln(cli.Printable(fmt.Sprintf(format, args...)))
	})
	if err := r.check(ctx); err != nil {
		return err
	}
	out, err := create(f.output, f.force, cmd.OutOrStdout())
	if err != nil {
		return err
	}
	r.out = out
	var names []string
	for _, s := range r.followers {
		names = append(names, s.selection().String())
	}
	to := f.output
	if to == "-" {
		to = "standard output"
	}
	r.say("recording %s of %s to %s; Ctrl-C ends it", strings.Join(names, ", "), cluster.Host, to)
	began := time.Now()
	err = r.snapshot(ctx)
	if err == nil {
		err = out.keep()
	}
	if err != nil {
		out.discard()
		return err
	}
	if err := cmp.Or(r.run(ctx), out.close()); err != nil {
		return err
	}
	r.say("recorded %d %s and %d %s in %s", r.objects, cli.Plural(r.objects, "object"),
		r.changes, cli.Plural(r.changes, "change"),
		config.ShortDuration(time.Since(began).Round(time.Second)))
	return nil
}
