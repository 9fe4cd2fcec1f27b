package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
)

// getFlags are what to get, and how to show it.
type getFlags struct {
	namespace, selector, index string
	output                     string
	showSecrets                bool
}

func newGetCommand() *cobra.Command {
	var get getFlags
	cmd := &cobra.Command{
		Use:   "get SOURCE [NAME] [flags]",
		Short: "Show objects from the running daemon's cache",
		Long: `Show objects as the running daemon has them in its cache: those of a source, narrowed by name, namespace, labels or the
value of one of the source's indexes. NAME may be NAMESPACE/NAME.

Of a source with keep: needed the cache has what rules and indexes read, and so has the output. What Secrets hold is
shown as *** without --show-secrets; their keys are shown.
` + whichDaemon,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return errors.New("name a source; informd status lists them")
			case 1, 2:
				return nil
			}
			return fmt.Errorf("%q: one source and one name are enough", args[2])
		},
		DisableFlagsInUseLine: true,
	}
	flags := addControlFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&get.namespace, "namespace", "n", "", "`NAMESPACE` of the objects; default: all")
	f.StringVarP(&get.selector, "selector", "l", "", "label `SELECTOR`, as for kubectl")
	f.StringVar(&get.index, "index", "", "`NAME=VALUE` of one of the source's indexes")
	outputFlag(cmd, &get.output, "json", "yaml", "name", "wide")
	showSecretsFlag(cmd, &get.showSecrets)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return flags.completer(2, objectNames(args[0], get.namespace, toComplete))(cmd, args, toComplete)
		}
		return flags.completer(1, sourceNames)(cmd, args, toComplete)
	}
	if err := cmd.RegisterFlagCompletionFunc("index", func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := flags.completer(1, indexNames(args[0]))(cmd, nil, toComplete)
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}); err != nil {
		panic(err) // the flag was just defined
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query, err := get.query(args)
		if err != nil {
			return err
		}
		return flags.ask(func(c *control.Client) error {
			return get.run(cmd, c, query)
		})
	}
	return cmd
}

// query is what the command line asks for.
func (g *getFlags) query(args []string) (control.Query, error) {
	q := control.Query{Source: args[0], Namespace: g.namespace}
	if len(args) > 1 {
		q.Name = args[1]
		if namespace, name, ok := strings.Cut(q.Name, "/"); ok {
			if g.namespace != "" && g.namespace != namespace {
				return control.Query{}, fmt.Errorf("%s is not in the namespace %s, which -n says", args[1], g.namespace)
			}
			q.Namespace, q.Name = namespace, name
		}
		if q.Name == "" {
			return control.Query{}, fmt.Errorf("%q: the name is empty", args[1])
		}
	}
	selector, err := labels.Parse(g.selector)
	if err != nil {
		return control.Query{}, fmt.Errorf("-l %q: %w", g.selector, err)
	}
	q.Selector = selector
	if g.index != "" {
		name, value, ok := strings.Cut(g.index, "=")
		if !ok || name == "" {
			return control.Query{}, fmt.Errorf("--index %q: want NAME=VALUE", g.index)
		}
		q.Index, q.Value = name, value
	}
	return q, nil
}

func (g *getFlags) run(cmd *cobra.Command, c *control.Client, q control.Query) error {
	out := cmd.OutOrStdout()
	switch g.output {
	case "json", "yaml":
		objects, err := c.Objects(cmd.Context(), q, g.showSecrets)
		if err != nil {
			return err
		}
		defer func() { _ = objects.Close() }() // only read
		if err := g.tell(cmd, q, objects.Found); err != nil {
			return err
		}
		return g.writeObjects(out, q, objects)
	case "name":
		names, err := c.Names(cmd.Context(), q)
		if err != nil {
			return err
		}
		defer func() { _ = names.Close() }() // only read
		if err := g.tell(cmd, q, names.Found); err != nil {
			return err
		}
		return writeNames(out, names)
	}
	rows, err := c.Rows(cmd.Context(), q)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // only read
	if err := g.tell(cmd, q, rows.Found); err != nil {
		return err
	}
	return writeRows(out, rows, g.output == "wide", time.Now())
}

// tell says on standard error what cannot be seen of the objects. That one which was named is not there is an error.
func (g *getFlags) tell(cmd *cobra.Command, q control.Query, found control.Found) error {
	notes := cmd.ErrOrStderr()
	if found.State != "synced" {
		fmt.Fprintf(notes, "informd: source %s is %s%s: this is what the cache has\n", q.Source, found.State, cli.Because(cli.Printable(found.Reason)))
	}
	if found.Count > 0 {
		if found.Kept != nil && (g.output == "json" || g.output == "yaml") {
			fmt.Fprintf(notes, "informd: source %s keeps of its objects no more than %s\n", q.Source, strings.Join(found.Kept, ", "))
		}
		return nil
	}
	such := []string{"no objects"}
	if q.Name != "" {
		such[0] = fmt.Sprintf("no object %q", q.Name)
	}
	if q.Namespace != "" {
		such = append(such, "in namespace "+q.Namespace)
	}
	if g.selector != "" {
		such = append(such, "with labels "+g.selector)
	}
	if q.Index != "" {
		such = append(such, "with "+g.index)
	}
	none := fmt.Errorf("source %s has %s", q.Source, strings.Join(such, ", "))
	if q.Name != "" {
		return none
	}
	fmt.Fprintf(notes, "informd: %v\n", none)
	return nil
}

// writeObjects writes the one object that was named as itself, and others as a list.
func (g *getFlags) writeObjects(w io.Writer, q control.Query, objects *control.Stream[json.RawMessage]) error {
	list := newListWriter(w, g.output)
	for o, err := range objects.All() {
		if err == nil && q.Name != "" && objects.Count == 1 {
			return writeDocument(w, g.output, o)
		}
		if err == nil {
			err = list.add(o)
		}
		if err != nil {
			return err
		}
	}
	return list.end()
}

// writeNames writes names as get takes them.
func writeNames(w io.Writer, names *control.Stream[control.Row]) error {
	for row, err := range names.All() {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, cli.Printable(keyOf(row.Namespace, row.Name))); err != nil {
			return err
		}
	}
	return nil
}

func writeRows(w io.Writer, rows *control.Stream[control.Row], wide bool, now time.Time) error {
	if rows.Count == 0 {
		return nil
	}
	header := []string{"NAMESPACE", "NAME", "RESOURCEVERSION", "AGE"}
	if wide {
		header = append(header, "UID", "LABELS")
	}
	t := newTable(w, header...)
	for row, err := range rows.All() {
		if err != nil {
			return errors.Join(t.flush(), err)
		}
		cells := []string{row.Namespace, row.Name, row.ResourceVersion, age(now, row.Created)}
		if wide {
			cells = append(cells, row.UID, labelText(row.Labels))
		}
		t.row(cells...)
	}
	return t.flush()
}

func labelText(labels map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, name+"="+labels[name])
	}
	return strings.Join(pairs, ",")
}

// completedObjects is how many names the shell is offered.
const completedObjects = 1000

func objectNames(source, namespace, beginning string) func(context.Context, *control.Client) ([]string, error) {
	return func(ctx context.Context, c *control.Client) (keys []string, err error) {
		stream, err := c.Names(ctx, control.Query{Source: source, Namespace: namespace})
		if err != nil {
			return nil, err
		}
		defer func() { _ = stream.Close() }() // only read
		for row, err := range stream.All() {
			if err != nil || len(keys) == completedObjects {
				return keys, err
			}
			if key := keyOf(row.Namespace, row.Name); strings.HasPrefix(key, beginning) {
				keys = append(keys, key)
			}
		}
		return keys, nil
	}
}

func indexNames(source string) func(context.Context, *control.Client) ([]string, error) {
	return func(ctx context.Context, c *control.Client) (names []string, err error) {
		status, err := c.Status(ctx)
		for _, s := range status.Sources {
			if s.Name == source {
				for _, index := range s.Indexes {
					names = append(names, index+"=")
				}
			}
		}
		return names, err
	}
}
