package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/plugins/handler/nearest"
)

// explainFlags say about what to explain a rule, and how to print that.
type explainFlags struct {
	manifests   []string
	object, old string
	now         string
	output      string
	showSecrets bool
}

func newExplainCommand() *cobra.Command {
	var x explainFlags
	cmd := &cobra.Command{
		Use:   "explain RULE (NAMESPACE/NAME | -f PATH… --object FILE)",
		Short: "Say why a rule did not fire for an object, or why it did",
		Long: `Say why a rule did not fire for an object, or why it did. The answer comes first. Below it stand
the stages of a change, in their order: whether the source selects the object, where and due with
the values of their parts, when, what counts and gathers, what the rule's own actions made of it, and
what became of the last changes and deliveries.

With the name of an object, the command asks the running daemon. It remembers the last changes since
it started, but no old states of objects: for an update, it shows the values of when only if when
does not read old.

With -f and --object, it needs no daemon: it says what the rule makes of the object in a file, as if
it were added now, or with --old, as if it were updated. Without a daemon, lookup and byIndex find
nothing.

The values of Secrets, and what depends on them, are ***, unless you give --show-secrets.
` + whichDaemon + `

Exit code 0: it has an answer. 1: there is none. 2: the command line is wrong.`,
		Example: `  informd explain crash-looping shop/web-0
  kubectl get pod web-0 -o json | informd explain crash-looping -f rules/ --object -
  informd explain crash-looping -f rules/ --object new.yaml --old old.yaml`,
		Args: func(_ *cobra.Command, args []string) error { return x.check(args) },
	}
	flags := addControlFlags(cmd)
	f := cmd.Flags()
	f.StringArrayVarP(&x.manifests, "filename", "f", nil,
		"ask no daemon; `PATH` of a manifest, or of a folder tree; repeatable")
	f.StringVar(&x.object, "object", "",
		"with -f: `FILE` with the object, in YAML or JSON; - is standard input")
	f.StringVar(&x.old, "old", "", "with -f: `FILE` with the object's state before")
	f.StringVar(&x.now, "now", "", "with -f: what now() is: a `TIME` as RFC 3339")
	outputFlag(cmd, &x.output, "json", "yaml")
	showSecretsFlag(cmd, &x.showSecrets)
	cmd.ValidArgsFunction = func(
		cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return flags.completer(1, ruleNames)(cmd, args, toComplete)
		}
		return flags.completer(2, objectsOfRule(args[0], toComplete))(cmd, args, toComplete)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(x.manifests) > 0 {
			answer, err := x.offline(cmd, args[0])
			if err != nil {
				return err
			}
			return x.show(cmd.OutOrStdout(), answer)
		}
		return flags.ask(func(c *control.Client) error {
			name := ""
			if len(args) > 1 {
				name = args[1]
			}
			namespace, short, ok := strings.Cut(name, "/")
			if !ok {
				namespace, short = "", name
			}
			answer, err := c.Explain(cmd.Context(), args[0], namespace, short, x.showSecrets)
			if err != nil {
				return err
			}
			if x.output == "" {
				answer.Answer = flags.complete(answer.Answer)
			}
			return x.show(cmd.OutOrStdout(), answer)
		})
	}
	return cmd
}

func (x *explainFlags) check(args []string) error {
	switch isOffline := len(x.manifests) > 0; {
	case len(args) == 0:
		return errors.New("name a rule, and an object of it as NAMESPACE/NAME; " +
			"informd rule list shows the rules")
	case !isOffline && x.object+x.old+x.now != "":
		return errors.New("--object, --old and --now need the manifests, with -f PATH: " +
			"a daemon is asked about its own objects")
	case len(args) == 1 && !isOffline:
		return errors.New("name an object of the rule as NAMESPACE/NAME, or NAME")
	case len(args) > 2:
		return fmt.Errorf("%q: one rule and one object are enough", args[2])
	case isOffline && x.object == "":
		return errors.New("-f gives the manifests: give the object with --object FILE")
	case isOffline && len(args) == 2:
		return fmt.Errorf("%q: with -f, the object is that of --object", args[1])
	case isOffline && x.object == "-" && x.old == "-":
		return errors.New("--object and --old cannot both read standard input")
	}
	return nil
}

// objectsOfRule completes the objects of a rule's source.
func objectsOfRule(
	rule, beginning string,
) func(context.Context, *control.Client) ([]string, error) {
	return func(ctx context.Context, c *control.Client) ([]string, error) {
		status, err := c.Status(ctx)
		for _, r := range status.Rules {
			if r.Name == rule {
				return objectNames(r.Source, "", beginning)(ctx, c)
			}
		}
		return nil, err
	}
}

// offline explains a rule of manifests.
func (x *explainFlags) offline(cmd *cobra.Command, name string) (explain.Explanation, error) {
	_, compiled, err := manifests.LoadForCluster(x.manifests)
	if mistakes, ok := errors.AsType[config.Mistakes](err); ok {
		fmt.Fprintln(cmd.ErrOrStderr(), mistakes.Error())
		n := len(mistakes)
		err = fmt.Errorf("%d %s in the configuration", n, cli.Plural(n, "mistake"))
	}
	if err != nil {
		return explain.Explanation{}, cli.Failed(err)
	}
	at := slices.IndexFunc(compiled.Rules, func(r *plan.Rule) bool { return r.Name == name })
	if at < 0 {
		return explain.Explanation{}, cli.Failed(noRule(name, compiled))
	}
	c := explain.Case{Rule: compiled.Rules[at], Now: time.Now()}
	if !x.showSecrets {
		c.Mask = control.MaskSecret
	}
	if x.now != "" {
		if c.Now, err = time.Parse(time.RFC3339, x.now); err != nil {
			return explain.Explanation{}, fmt.Errorf(
				"--now %q: want a time such as 2026-01-02T03:04:05Z", x.now)
		}
	}
	if c.Object, err = readObjectOf(c.Rule, x.object, cmd.InOrStdin()); err != nil {
		return explain.Explanation{}, cli.Failed(fmt.Errorf("--object %s: %w", x.object, err))
	}
	c.Key = delta.KeyOf(c.Object)
	if x.old != "" {
		if c.Old, err = readObjectOf(c.Rule, x.old, cmd.InOrStdin()); err != nil {
			return explain.Explanation{}, cli.Failed(fmt.Errorf("--old %s: %w", x.old, err))
		}
	}
	acts := c.Rule.Actions
	if w := c.Rule.When; w != nil && (w.ReadsIndex() || len(w.Lookups()) > 0) ||
		acts.ReadsIndex() || len(acts.Lookups()) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(),
			"informd: lookup and byIndex find nothing here, because no daemon was asked")
	}
	answer := explain.Explain(c)
	answer.Conclude()
	return answer, nil
}

func noRule(name string, p *plan.Plan) error {
	var names []string
	for _, r := range p.Rules {
		if r.Former == name {
			return fmt.Errorf("the rule %.100s is called %.100s now", name, r.Name)
		}
		names = append(names, r.Name)
	}
	slices.Sort(names)
	guess := ""
	if near := nearest.Name(name, names); near != "" {
		guess = "; did you mean " + near + "?"
	}
	return fmt.Errorf("no rule %.100q in these manifests%s (there are: %s)",
		name, guess, strings.Join(names[:min(len(names), 100)], ", "))
}

// readObjectOf reads the object of a file, which must be of the rule's resource.
func readObjectOf(r *plan.Rule, path string, stdin io.Reader) (*object.Object, error) {
	text, err := readObject(path, stdin)
	if err != nil {
		return nil, err
	}
	var about struct {
		Kind, APIVersion string
		Items            []json.RawMessage
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return nil, err
	}
	want := r.Source.Resource.GroupVersion().String()
	isAnother := about.APIVersion != "" && about.APIVersion != want ||
		about.Kind != "" && !isKindOf(about.Kind, r.Source.Resource)
	switch {
	case strings.HasSuffix(about.Kind, "List") && about.Items != nil:
		return nil, errors.New("it is a list: give one object")
	case r.Source.IsRule():
		return nil, fmt.Errorf("rule %s has no source, and so no objects", r.Name)
	case isAnother:
		return nil, fmt.Errorf("it is a %s of %s, and source %s has %s",
			about.Kind, about.APIVersion, r.Source.Name, object.ResourceName(r.Source.Resource))
	}
	o, err := object.FromJSON(text)
	if err == nil && o.Name() == "" {
		err = errors.New("it has no metadata.name")
	}
	return o, err
}

// isKindOf reports whether a kind may be that of a resource. It only knows how Kubernetes names its
// own: others may call their resources what they like.
func isKindOf(kind string, of schema.GroupVersionResource) bool {
	isOwn := !strings.Contains(of.Group, ".") || strings.HasSuffix(of.Group, ".k8s.io")
	kind = strings.ToLower(kind)
	return !isOwn || of.Resource == kind || of.Resource == kind+"s" || of.Resource == kind+"es" ||
		of.Resource == strings.TrimSuffix(kind, "y")+"ies"
}

// show prints an answer.
func (x *explainFlags) show(out io.Writer, answer explain.Explanation) error {
	if x.output != "" {
		return writeDocument(out, x.output, answer)
	}
	var b strings.Builder
	b.WriteString(cli.Printable(answer.Answer) + "\n\n")
	writeStages(&b, &answer)
	writeHistory(&b, &answer, width(out))
	_, err := io.WriteString(out, b.String())
	return err
}

// writeStages writes the stages of a change, in their order.
func writeStages(b *strings.Builder, x *explain.Explanation) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(b, "%-9s %s\n", name, cli.Printable(fmt.Sprintf(format, args...)))
	}
	parts := func(p *explain.Part) {
		var tree strings.Builder
		writeParts(&tree, *p, 0)
		for line := range strings.Lines(tree.String()) {
			b.WriteString("          " + line)
		}
	}
	state := ""
	if x.State != "" {
		state = ": " + x.State + cli.Because(x.Reason)
	}
	row("rule", "%s%s", x.Rule, state)
	for i, misfit := range x.Misfits {
		name := ""
		if i == 0 {
			name = "schema"
		}
		row(name, "%s", misfit)
	}
	version := ""
	if x.ResourceVersion != "" {
		version = ", resourceVersion " + x.ResourceVersion
	}
	row("object", "%s%s", x.Object, version)
	for i, s := range x.Source.Selections {
		name := ""
		if i == 0 {
			name = "source"
		}
		row(name, "%s", selectionText(x, s))
	}
	if x.Where != nil {
		row("where", "%s", resultOf(x.Where))
		parts(x.Where)
	}
	if t := x.Timing; t != nil {
		switch {
		case t.For != "":
			row("for", "%s%s", t.For, waitText(x))
		case t.Due != nil:
			row("due", "%s%s", resultOf(t.Due), waitText(x))
			parts(t.Due)
		}
	}
	if len(x.Events) < 4 {
		row("events", "%s alone", strings.Join(x.Events, ", "))
	}
	if w := x.When; w != nil {
		switch {
		case w.Part == nil:
			row("when", "not evaluated again: informd keeps no old states of objects")
			b.WriteString("          " + cli.Printable(w.Text) + "\n")
		case w.IsNow && !w.IsSkipped:
			row("when", "%s, if it were %s now", resultOf(w.Part), w.Event)
			parts(w.Part)
		case w.LooksUp:
			row("when", "depends on what it looks up: not known without a daemon")
			parts(w.Part)
		case w.IsSkipped:
			row("when", "%s, whatever the change", resultOf(w.Part))
			parts(w.Part)
		default:
			change := "the last change"
			if x.State == "" {
				change = "this change"
			}
			row("when", "%s, for %s (%s)", resultOf(w.Part), change, w.Event)
			parts(w.Part)
		}
	}
	if c := x.Count; c != nil {
		have := ""
		if c.Have >= 0 {
			have = fmt.Sprintf("%d of ", c.Have)
		}
		row("count", "%s%d within %s%s", have, c.Times, c.Within, byText(c.By))
	}
	if g := x.Group; g != nil {
		text := "nothing of the object waits"
		if g.Gathered > 0 {
			text = fmt.Sprintf("%d of its changes wait until %s", g.Gathered,
				g.Next.Format(time.TimeOnly))
		}
		row("group", "%s%s", text, byText(g.By))
	}
	if !x.Next.IsZero() {
		name := "resync"
		if x.IsScheduled {
			name = "schedule"
		}
		row(name, "next in %s, at %s", explain.Short(x.Next.Sub(x.Time)), x.Next.Format(time.RFC3339))
	}
	writeActs(row, parts, x)
	if d := x.Delivery; d != nil {
		row("delivery", "%s", deliveryText(x.Time, d))
	}
}

// writeActs writes what a change makes of the rule's own actions.
func writeActs(
	row func(name, format string, args ...any), parts func(*explain.Part), x *explain.Explanation,
) {
	if x.Acts == nil {
		return
	}
	whose := fmt.Sprintf("for the last event (%s)", x.Acts.Event)
	switch {
	case x.Acts.IsNow:
		whose = fmt.Sprintf("if it were %s now", x.Acts.Event)
	case x.State == "":
		whose = fmt.Sprintf("for this change (%s)", x.Acts.Event)
	case x.Acts.LooksUp:
		whose += ", with what is looked up as it is now"
	}
	for i := range x.Acts.Actions {
		a := &x.Acts.Actions[i]
		name := ""
		if i == 0 {
			name = "actions"
		}
		outcome := ""
		if a.Outcome != "" && a.Made != 0 {
			outcome = "; " + a.Outcome
		}
		row(name, "%s, %s %s: %s, %s%s", a.Label, a.Verb, a.Resource, madeText(a), whose, outcome)
		if a.ForEach != nil {
			row("", "forEach: %s", resultOf(a.ForEach))
			parts(a.ForEach)
		}
		if a.If != nil {
			item := ""
			if a.Item != nil {
				item = fmt.Sprintf(", for item %d of forEach", *a.Item)
			}
			row("", "if: %s%s", resultOf(a.If), item)
			parts(a.If)
		}
	}
	if x.Acts.Prunes {
		row("", "prune: deletes what the rule has applied and does not apply any more")
	}
	if x.Acts.Error != "" {
		row("", "fails: %s", x.Acts.Error)
	}
}

func madeText(a *explain.OwnAction) string {
	switch {
	case a.IsSkipped:
		return "not for deletions"
	case a.LooksUp:
		return "depends on what it looks up, which is not known without a daemon"
	case a.Made < 0 && (a.ForEach != nil || a.If != nil):
		return "fails"
	case a.Made < 0:
		return "not evaluated again"
	case a.Made == 0:
		return "no action"
	}
	return fmt.Sprintf("%d %s", a.Made, cli.Plural(a.Made, "action"))
}

func byText(by string) string {
	if by == "" {
		return ""
	}
	return ", by " + by
}

func resultOf(p *explain.Part) string {
	if p.Error != "" {
		return "fails"
	}
	return shortened(string(p.Value), shownValue)
}

func selectionText(x *explain.Explanation, s explain.Selection) string {
	text := x.Source.Name + ": " + x.Source.Resource
	if s.Namespace != "" {
		text += " in " + s.Namespace
	}
	if s.LabelSelector != "" {
		text += ", labels " + s.LabelSelector
	}
	if s.FieldSelector != "" {
		text += ", fields " + s.FieldSelector
	}
	switch {
	case s.WhyNot != "":
		return text + ": no, " + s.WhyNot
	case x.Source.Has:
		return text + ": has it"
	case x.Standing == explain.Unknown:
		return text + ": not known yet"
	}
	return text + ": has no such object"
}

func waitText(x *explain.Explanation) string {
	t := x.Timing
	switch {
	case x.Standing != explain.Waiting || t.At.IsZero():
		return ""
	case t.Since.IsZero():
		return ": a member in " + explain.Short(t.At.Sub(x.Time))
	}
	return fmt.Sprintf(": where holds since %s, a member in %s",
		t.Since.Format(time.TimeOnly), explain.Short(t.At.Sub(x.Time)))
}

func deliveryText(now time.Time, d *explain.Delivery) string {
	var parts []string
	switch {
	case d.InFlight && d.Handler == control.OwnActions:
		parts = append(parts, "performs its actions")
	case d.InFlight:
		parts = append(parts, "in flight to "+d.Handler)
	case !d.Retry.IsZero():
		parts = append(parts, "tried again in "+explain.Short(d.Retry.Sub(now)))
	case d.Paused:
		parts = append(parts, "waits: the rule is paused")
	case d.Handler == control.OwnActions:
		parts = append(parts, "waits for its turn")
	default:
		parts = append(parts, "waits for "+d.Handler)
	}
	if d.ID != "" {
		parts = append(parts, "id "+d.ID)
	}
	if d.Attempts > 0 {
		parts = append(parts, fmt.Sprintf("%d %s so far", d.Attempts, cli.Plural(d.Attempts, "attempt")))
	}
	more := d.Waiting
	if !d.InFlight && more > 0 {
		more-- // the first one, which is described
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("%d more %s behind it", more, cli.Plural(more, "event")))
	}
	return strings.Join(parts, ", ")
}

// writeHistory writes what became of the last changes and deliveries, and of the targets of the rule's
// actions. Tables that may be wide take at most most columns.
func writeHistory(b *strings.Builder, x *explain.Explanation, most int) {
	all := slices.Concat(x.Changes, x.Attempts)
	slices.SortStableFunc(all, func(a, b explain.Happened) int { return a.Time.Compare(b.Time) })
	if x.State != "" && len(all) > 0 {
		b.WriteString("\nLAST CHANGES\n")
		t := newTable(b, "TIME", "EVENT", "VERSION", "WHAT HAPPENED")
		for _, h := range all {
			what := happened(x.Handler, h.Outcome)
			if h.What == "gathered" && x.Group != nil && x.Group.Gathered == 0 {
				what = "selected, and went into the event of its group"
			}
			t.row(h.Time.Format("15:04:05.000"), h.Event, h.ResourceVersion, what)
		}
		_ = t.flush() // of a strings.Builder
	}
	writeTargetsOf(b, x, most)
	if len(x.DeadLetters) > 0 {
		b.WriteString("\nDEAD LETTERS\n")
		t := newTable(b, "DIED", "ATTEMPTS", "ID", "REASON")
		for _, l := range x.DeadLetters {
			t.row(l.Died.Format(time.RFC3339), fmt.Sprint(l.Attempts), l.ID, l.Reason)
		}
		_ = t.flush()
	}
	if len(x.Actions) > 0 {
		b.WriteString("\nACTIONS\n")
		t := newTable(b, "TIME", "VERB", "RESOURCE", "OBJECT", "RESULT")
		for _, a := range x.Actions {
			t.row(a.Time.Format("15:04:05.000"), a.Verb, a.Resource, a.Object, a.Result)
		}
		_ = t.flush()
	}
}
