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

// getFlags say which objects to get and how to print them.
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
		Long: `Show the objects of a source from the running daemon's cache. Narrow them by name,
namespace, labels, or the value of one of the source's indexes. NAME may be NAMESPACE/NAME.

For a source with keep: needed, the cache holds only the fields that rules and indexes read, and so
does the output. Values in Secrets are shown as ***, unless you give --show-secrets.

In a command that a handler runs, such as exec's, informd get reads with the rights of that handler:
the sources in its access.read, with the values of Secrets.
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
	}
	flags := addControlFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&get.namespace, "namespace", "n", "", "only objects in `NAMESPACE`")
	f.StringVarP(&get.selector, "selector", "l", "",
		"only objects that match the label `SELECTOR`, as for kubectl")
	f.StringVar(&get.index, "index", "",
		"only objects that the source's index NAME has under VALUE, as `NAME=VALUE`")
	outputFlag(cmd, &get.output, "json", "yaml", "name", "wide")
	showSecretsFlag(cmd, &get.showSecrets)
	cmd.ValidArgsFunction = func(
		cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			names := objectNames(args[0], get.namespace, toComplete)
			return flags.completer(2, names)(cmd, args, toComplete)
		}
		return flags.completer(1, sourceNames)(cmd, args, toComplete)
	}
	completeIndex := func(
		cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := flags.completer(1, indexNames(args[0]))(cmd, nil, toComplete)
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	if err := cmd.RegisterFlagCompletionFunc("index", completeIndex); err != nil {
		panic(err) // the flag was just defined
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query, err := get.query(args)
		if err != nil {
			return err
		}
		if cache, ok := flags.handlersCache(); ok {
			return get.read(cmd, cache, query)
		}
		return flags.ask(func(c *control.Client) error {
			return get.run(cmd, c, query)
		})
	}
	return cmd
}

// query returns the query that the command line asks for.
func (g *getFlags) query(args []string) (control.Query, error) {
	q := control.Query{Source: args[0], Namespace: g.namespace}
	if len(args) > 1 {
		q.Name = args[1]
		if namespace, name, ok := strings.Cut(q.Name, "/"); ok {
			if g.namespace != "" && g.namespace != namespace {
				return control.Query{}, fmt.Errorf(
					"%s is not in the namespace %s that -n names", args[1], g.namespace)
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
		if err := g.explain(cmd, q, objects.Header); err != nil {
			return err
		}
		return g.writeObjects(out, q, objects)
	case "name":
		names, err := c.Names(cmd.Context(), q)
		if err != nil {
			return err
		}
		defer func() { _ = names.Close() }() // only read
		if err := g.explain(cmd, q, names.Header); err != nil {
			return err
		}
		return writeNames(out, names)
	}
	rows, err := c.Rows(cmd.Context(), q)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // only read
	if err := g.explain(cmd, q, rows.Header); err != nil {
		return err
	}
	return writeRows(out, rows, g.output == "wide", time.Now())
}

// explain prints to standard error what the objects themselves do not show. If the query names an
// object and there is none, that is an error.
func (g *getFlags) explain(cmd *cobra.Command, q control.Query, found control.Header) error {
	notes := cmd.ErrOrStderr()
	if found.State != "synced" {
		fmt.Fprintf(notes, "informd: source %s is %s%s: the objects may be out of date\n",
			q.Source, found.State, cli.Because(cli.Printable(found.Reason)))
	}
	if found.Count > 0 {
		if found.Kept != nil && (g.output == "json" || g.output == "yaml") {
			fmt.Fprintf(notes, "informd: source %s keeps only these fields of its objects: %s\n",
				q.Source, strings.Join(found.Kept, ", "))
		}
		return nil
	}
	what := "no objects"
	if q.Name != "" {
		what = fmt.Sprintf("no object %q", q.Name)
	}
	if q.Namespace != "" {
		what += " in namespace " + q.Namespace
	}
	var with []string
	if g.selector != "" {
		with = append(with, "labels "+g.selector)
	}
	if q.Index != "" {
		with = append(with, "index "+g.index)
	}
	if len(with) > 0 {
		what += " with " + strings.Join(with, " and ")
	}
	none := fmt.Errorf("source %s has %s", q.Source, what)
	if q.Name != "" {
		return none
	}
	fmt.Fprintf(notes, "informd: %v\n", none)
	return nil
}

// writeObjects writes a single object that was named as it is, and everything else as a list.
func (g *getFlags) writeObjects(
	w io.Writer, q control.Query, objects *control.Stream[json.RawMessage]) error {
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

// writeNames writes names in the form that informd get accepts.
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

func writeRows(w io.Writer, stream *control.Stream[control.Row], wide bool, now time.Time) error {
	rows := make([]control.Row, 0, stream.Count)
	for row, err := range stream.All() {
		if err != nil {
			return errors.Join(showRows(w, rows, wide, now), err)
		}
		rows = append(rows, row)
	}
	return showRows(w, rows, wide, now)
}

func showRows(w io.Writer, rows []control.Row, wide bool, now time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	header := []string{"NAMESPACE", "NAME", "RESOURCEVERSION", "AGE"}
	if wide {
		header = append(header, "UID", "LABELS")
	}
	t := newTable(w, header...)
	for _, row := range rows {
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

// completedObjects bounds the names that the shell is offered.
const completedObjects = 1000

func objectNames(
	source, namespace, beginning string) func(context.Context, *control.Client) ([]string, error) {
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
