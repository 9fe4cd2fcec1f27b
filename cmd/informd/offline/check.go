// Package offline holds the commands that need neither a cluster nor a running daemon. They check
// manifests and handlers.
package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/semaphore"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/cmd/informd/schemas"
	"github.com/informd/informd/config"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/confine"
)

// checkedAtOnce bounds how many handlers check runs at a time.
const checkedAtOnce = 4

// checkFlags are the flags of informd check.
type checkFlags struct {
	paths, schemas  []string
	handlers, watch bool
	output          string
}

// NewCheckCommand returns informd check.
func NewCheckCommand(version string) *cobra.Command {
	var flags checkFlags
	cmd := &cobra.Command{
		Use:   "check -f PATH… [--schemas PATH…] [--handlers] [--watch] [-o json]",
		Short: "Validate manifests; needs no cluster",
		Long: `Validate manifests without a cluster: their form, references and expressions, and the
config of builtin handlers. The command reports all mistakes at once. It reads Tests too, and runs
none: informd test does.

Expressions and actions are checked against schemas: a field that no object can have, a comparison
that is never true, a value of the wrong type. Conditions are checked against the events of their
rule: one that is never true is a mistake. The schemas of Kubernetes' own resources are built in.
Those of others come from CustomResourceDefinitions among the manifests, and from --schemas: files or
folders of CustomResourceDefinitions, or what informd schemas save has written. What has no schema
is not checked. Schemas also say which resource the kind of an object below apply or create is.

With --handlers, it also starts the handlers that have a command, each confined as its manifest
says. They must describe themselves and accept their config, and this user on this machine must be
able to confine them. Below the mistakes stands what such a handler logged. The command connects to
remote handlers, and sends them no config.

Without mistakes, the command prints which fields of each source's objects informd keeps in memory,
what rules with actions and handlers with access.write may change in the cluster, which resources
have no schema, which rules delete again what they apply, which rules apply one object for all objects
of their source, which sources and handlers nothing uses, which programs of handlers are not on this
machine, and which texts a comment of YAML seems to cut off.

With -o json, it prints one line of JSON instead, with the mistakes and the place of each: file, line,
column and endColumn. With --watch, it checks again whenever a file has changed, until it is
interrupted.

Exit code 0: no mistakes; with --watch, interrupted. 1: mistakes, or the check could not finish. 2: the
command line is wrong.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			asJSON := flags.output == "json"
			if flags.output != "" && !asJSON {
				return fmt.Errorf("-o must be json, not %q", flags.output)
			}
			if !flags.watch {
				c, err := flags.check(cmd.Context(), version)
				if err != nil {
					return err
				}
				return c.show(cmd, asJSON)
			}
			ctx, stop := cli.WithSignals(cmd.Context(), nil)
			defer stop()
			again := func() bool {
				c, err := flags.check(ctx, version)
				c.showAgain(cmd, asJSON, err)
				return false
			}
			read := slices.Concat(flags.paths, flags.schemas)
			before := manifests.Fingerprint(read)
			again()
			manifests.Watch(ctx, read, before, again)
			return nil
		},
	}
	cli.ManifestFlag(cmd, &flags.paths)
	schemas.Flag(cmd, &flags.schemas)
	cmd.Flags().BoolVar(&flags.handlers, "handlers", false, "also start handlers that have a command, "+
		"to check them")
	cmd.Flags().BoolVar(&flags.watch, "watch", false, "check again whenever a file has changed")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "`json`: one line, for programs")
	return cmd
}

// check checks the manifests once.
func (f *checkFlags) check(ctx context.Context, version string) (*checked, error) {
	given, schemaErr := schemas.Read(f.schemas)
	cfg, compiled, err := manifests.LoadWithTests(f.paths, given.ResourceOf)
	if cfg == nil {
		return nil, cli.Failed(err)
	}
	if schemaErr != nil {
		return nil, cli.Failed(schemaErr)
	}
	c := new(checked)
	c.mistakes, _ = err.(config.Mistakes)
	misfits, unknown := schemas.Check(cfg, given, c.mistakes)
	c.hasMisfits = len(misfits) > 0
	c.mistakes = append(c.mistakes, misfits...)
	folders, err := launch.NewFolders(cfg.Handlers, version)
	if err != nil {
		return nil, cli.Failed(err)
	}
	defer folders.Remove()
	ctx, stop := cli.WithSignals(ctx, folders.Remove)
	defer stop()
	more, logs := checkHandlers(ctx, cfg, f.handlers, folders)
	c.mistakes, c.Logs = append(c.mistakes, more...), logs
	if ctx.Err() != nil {
		return nil, cli.Failed(errors.New("interrupted: the check is incomplete"))
	}
	c.mistakes.Sort()
	if len(c.mistakes) > 0 {
		return c, nil
	}
	sources, handlers, rules := len(cfg.Sources), len(cfg.Handlers), len(cfg.Rules)
	tests := ""
	if n := len(cfg.Tests); n > 0 {
		tests = fmt.Sprintf(", %d %s", n, cli.Plural(n, "test"))
	}
	missing := ""
	if !f.handlers {
		missing = describeMissing(cfg)
	}
	c.summary = fmt.Sprintf("%s%s%s%s%s%s%s%sok: %d %s, %d %s, %d %s%s\n",
		describeKept(cfg, compiled), describeUnknown(unknown), describeWrites(cfg, compiled),
		describeUndoing(compiled), describeSharing(compiled), describeUnused(cfg, compiled), missing,
		describeCut(cfg),
		sources, cli.Plural(sources, "source"), handlers, cli.Plural(handlers, "handler"),
		rules, cli.Plural(rules, "rule"), tests)
	return c, nil
}

// describeUnknown returns a line about resources that no schema describes, or "".
func describeUnknown(resources []string) string {
	if len(resources) == 0 {
		return ""
	}
	give := "its CustomResourceDefinition"
	if len(resources) > 1 {
		give = "their CustomResourceDefinitions"
	}
	return wrap("fields of "+strings.Join(resources, ", ")+" are not checked: give "+give+
		" with --schemas") + "\n"
}

// checkHandlers starts each builtin handler, and with commands the others as well, until it has
// described itself and has accepted or refused its config. logs are those of handlers that did not,
// by name, if there is more in them than the mistake says.
func checkHandlers(
	ctx context.Context, cfg *config.Config, commands bool, folders *launch.Folders,
) (mistakes config.Mistakes, logs map[string]string) {
	logs = make(map[string]string)
	var (
		mu     sync.Mutex // guards mistakes and logs
		checks sync.WaitGroup
		places = semaphore.NewWeighted(checkedAtOnce)
	)
	for _, h := range cfg.Handlers {
		if h.Builtin == "" && (!commands || len(h.Command) == 0 && h.Remote == nil) {
			continue
		}
		if places.Acquire(ctx, 1) != nil {
			break
		}
		checks.Go(func() {
			defer places.Release(1)
			var log strings.Builder
			if err := checkHandler(ctx, h, commands, folders, &log); err != nil {
				mu.Lock()
				defer mu.Unlock()
				mistakes = append(mistakes, launch.MistakesOf(h, err)...)
				if text := lastLines(log.String()); text != "" {
					logs[h.Name] = text
				}
			}
		})
	}
	checks.Wait()
	return mistakes, logs
}

// maxLog is how many lines of a handler's log are shown.
const maxLog = 40

// lastLines returns the last lines of a log, indented; "" if there is only one, which the mistake
// has.
func lastLines(log string) string {
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	if len(lines) < 2 {
		return ""
	}
	var b strings.Builder
	for _, line := range lines[max(0, len(lines)-maxLog):] {
		b.WriteString("    " + cli.Visible(line) + "\n")
	}
	return b.String()
}

// checkHandler starts a handler, or connects to it if it is remote. Its log goes to log. Without
// confined the handler runs unconfined: this may not be the machine that the manifests are for.
func checkHandler(
	ctx context.Context, h config.Handler, confined bool, folders *launch.Folders, log io.Writer,
) error {
	if h.Remote != nil {
		spec, err := launch.RemoteSpec(h)
		if err != nil {
			return fmt.Errorf("handler %q: %w", h.Name, err)
		}
		return host.TryRemote(ctx, spec, folders.Options(nil))
	}
	spec, err := launch.Spec(h)
	if err != nil {
		return fmt.Errorf("handler %q: %w", h.Name, err)
	}
	if !confined {
		spec.Confine = confine.Spec{}
	}
	spec.LogLevel = cmp.Or(spec.LogLevel, "info") // OwnLines alone would make it warn
	text := cli.NewTextLog(log, &slog.HandlerOptions{ReplaceAttr: cli.Untimed})
	_, err = host.Try(ctx, spec, folders.Options(slog.New(host.OwnLines(text))))
	return err
}
