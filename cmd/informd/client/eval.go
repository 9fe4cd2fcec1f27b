package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	kubeyaml "sigs.k8s.io/yaml"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// evalFlags say what to evaluate an expression on, and how to print the result.
type evalFlags struct {
	file, old   string
	source      string
	event, now  string
	output      string
	showSecrets bool
}

func newEvalCommand() *cobra.Command {
	var eval evalFlags
	cmd := &cobra.Command{
		Use:   "eval EXPR (-f FILE | --source NAME [NAMESPACE/NAME])",
		Short: "Evaluate an expression on an object, and show the values of its parts",
		Long: `Evaluate an expression as rules do, on an object from a file or from the running daemon's
cache. Below the value stand the values of the expression's parts, each with what it consists of. A
dash stands for a part that the evaluation did not need. For a function with a condition, such as
any, the parts are listed for each element of the list that it looked at, at most 10.

The expression sees what a rule's when sees, except byIndex and lookup. event is "added", or
"updated" with --old. now() is the current time.

The values of a Secret are ***, for the expression as well, unless you give --show-secrets. From a
source with keep: needed, the expression sees only the fields that rules and indexes read.
` + whichDaemon + `

Exit code 0: it has a value. 1: the expression has a mistake or fails. 2: the command line is wrong.`,
		Example: `  informd eval 'none(object.status.conditions, .type == "Ready")' -f node.yaml
  kubectl get pod web-0 -o json | informd eval object.status.phase -f -
  informd eval 'now() - time(object.metadata.creationTimestamp) > duration("1h")' --source pods shop/web-0`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("give an expression, in quotes")
			case len(args) == 1, len(args) == 2 && eval.source != "":
				return nil
			case len(args) == 2:
				return fmt.Errorf("%q: only --source takes the name of an object; "+
					"quote an expression with spaces", args[1])
			}
			return fmt.Errorf("%q: one expression and one name are enough; "+
				"quote an expression with spaces", args[2])
		},
	}
	flags := addControlFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&eval.file, "file", "f", "",
		"`FILE` with the object, in YAML or JSON; - is standard input")
	f.StringVar(&eval.source, "source", "", "the object is one of the daemon's source `NAME`")
	f.StringVar(&eval.old, "old", "", "`FILE` with the object's state before, which is old")
	f.Var(&choice{&eval.event, []string{"added", "updated", "deleted", "synced"}}, "event",
		"what event is: `added|updated|deleted|synced`")
	f.StringVar(&eval.now, "now", "", "what now() is: a `TIME` as RFC 3339")
	outputFlag(cmd, &eval.output, "json")
	showSecretsFlag(cmd, &eval.showSecrets)
	completeFlag(cmd, "source", flags.completer(1, sourceNames))
	completeFlag(cmd, "event", cobra.FixedCompletions(
		[]string{"added", "updated", "deleted", "synced"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.ValidArgsFunction = func(
		cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 || eval.source == "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return flags.completer(2, objectNames(eval.source, "", toComplete))(cmd, args, toComplete)
	}
	cmd.SetFlagErrorFunc(func(failed *cobra.Command, err error) error {
		// -object.x is the flag -o with the value bject.x
		if text := err.Error(); strings.HasPrefix(text, "unknown shorthand flag") ||
			strings.HasPrefix(text, `invalid argument "bject`) {
			err = fmt.Errorf("%w; an expression that begins with - stands last, behind --, "+
				"as in: informd eval -f FILE -- '-1 + 2'", err)
		}
		return failed.Parent().FlagErrorFunc()(failed, err)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		env, err := eval.env(cmd)
		if err != nil {
			return err
		}
		program, err := expr.Compile(args[0], expr.Options{Scope: expr.Payload, Trace: true, NoCache: true})
		if err != nil {
			return cli.Failed(showMistakes(cmd.ErrOrStderr(), args[0], expr.Mistakes(err)))
		}
		if eval.source == "" {
			text, err := readObject(eval.file, cmd.InOrStdin())
			if err == nil {
				env.Object, err = eval.tree(cmd, text)
			}
			if err != nil {
				return fmt.Errorf("-f %s: %w", eval.file, err)
			}
			return eval.show(cmd, program, env)
		}
		return flags.ask(func(c *control.Client) error {
			text, err := eval.get(cmd, c, args)
			if err != nil {
				return err
			}
			if env.Object, err = eval.tree(cmd, text); err != nil {
				return err
			}
			return eval.show(cmd, program, env)
		})
	}
	return cmd
}

// showMistakes prints the mistakes of an expression, and returns how many there are.
func showMistakes(w io.Writer, text string, all []*expr.Error) error {
	for _, e := range all {
		fmt.Fprintln(w, config.MistakeIn("expression", text, e.Offset, e.Message).Error())
	}
	return fmt.Errorf("%d %s", len(all), cli.Plural(len(all), "mistake"))
}

// env returns what the expression sees, but for the object.
func (e *evalFlags) env(cmd *cobra.Command) (*expr.Env, error) {
	switch {
	case e.file == "" && e.source == "":
		return nil, errors.New("give an object: -f FILE, or --source NAME [NAMESPACE/NAME]")
	case e.file != "" && e.source != "":
		return nil, errors.New("-f and --source both give the object: give one of them")
	case e.file == "-" && e.old == "-":
		return nil, errors.New("-f and --old cannot both read standard input")
	}
	env := &expr.Env{Event: "added", Now: time.Now()}
	if e.old != "" {
		text, err := readObject(e.old, cmd.InOrStdin())
		if err == nil {
			env.Old, err = e.tree(cmd, text)
		}
		if err != nil {
			return nil, fmt.Errorf("--old %s: %w", e.old, err)
		}
		env.Event = "updated"
	}
	if e.event != "" {
		env.Event = e.event
	}
	if e.now != "" {
		now, err := time.Parse(time.RFC3339, e.now)
		if err != nil {
			return nil, fmt.Errorf("--now %q: want a time such as 2026-01-02T03:04:05Z", e.now)
		}
		env.Now = now
	}
	return env, nil
}

// readObject reads a file with one object, or standard input if path is "-". It returns JSON.
func readObject(path string, stdin io.Reader) (text []byte, err error) {
	if path == "-" {
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	if config.HasMore(text) {
		return nil, errors.New("it has more than one object")
	}
	return kubeyaml.YAMLToJSON(text)
}

// get returns the object of a source that the command line names, as JSON.
func (e *evalFlags) get(cmd *cobra.Command, c *control.Client, args []string) ([]byte, error) {
	get := getFlags{output: "json"}
	q, err := get.query(append([]string{e.source}, args[1:]...))
	if err != nil {
		return nil, err
	}
	objects, err := c.Objects(cmd.Context(), q, e.showSecrets)
	if err != nil {
		return nil, err
	}
	defer func() { _ = objects.Close() }() // only read
	if objects.Count > 1 {
		return nil, fmt.Errorf("source %s has %d such objects: name one, as NAMESPACE/NAME",
			e.source, objects.Count)
	}
	if err := get.explain(cmd, q, objects.Header); err != nil {
		return nil, err
	}
	for text, err := range objects.All() {
		return text, err
	}
	return nil, fmt.Errorf("source %s has no object", e.source)
}

// everything is the path of a whole object.
var everything = func() *object.Paths {
	p := new(object.Paths)
	p.Add()
	return p
}()

// tree decodes an object, and masks it if it is a Secret.
func (e *evalFlags) tree(cmd *cobra.Command, text []byte) (any, error) {
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		return nil, errors.New("there is no object in it")
	}
	var about struct {
		Kind, APIVersion string
		Items            []json.RawMessage
	}
	if json.Unmarshal(text, &about) == nil {
		if strings.HasSuffix(about.Kind, "List") && about.Items != nil {
			return nil, errors.New("it is a list: give one object")
		}
		if about.Kind == "Secret" && about.APIVersion == "v1" && !e.showSecrets {
			text = control.MaskSecret(text)
			fmt.Fprintln(cmd.ErrOrStderr(), "informd: the values of the Secret are ***, "+
				"for the expression as well; --show-secrets takes the real ones")
		}
	}
	o, err := object.FromJSON(text)
	if err != nil {
		return nil, err
	}
	return o.Decode(everything), nil
}

// show evaluates and prints.
func (e *evalFlags) show(cmd *cobra.Command, program *expr.Program, env *expr.Env) error {
	whole, failure := program.Trace(env)
	out := cmd.OutOrStdout()
	if e.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(explain.PartOf(whole)); err != nil {
			return cli.Failed(err)
		}
	} else {
		var b strings.Builder
		if failure == nil {
			b.WriteString(plainValue(whole.Value) + "\n")
		}
		if failure == nil && len(whole.Parts) > 0 {
			b.WriteString("\n")
		}
		if failure != nil || len(whole.Parts) > 0 {
			writeParts(&b, explain.PartOf(whole), 0)
		}
		if _, err := io.WriteString(out, b.String()); err != nil {
			return cli.Failed(err)
		}
	}
	if failure != nil {
		return cli.Failed(fmt.Errorf("the expression fails: %w", failure))
	}
	return nil
}

// plainValue returns a string as it is, so that a script can use it, and anything else as JSON.
func plainValue(v any) string {
	if text, ok := v.(string); ok {
		var lines []string
		for line := range strings.SplitSeq(text, "\n") {
			lines = append(lines, cli.Visible(line))
		}
		return strings.Join(lines, "\n")
	}
	return valueText(v)
}

func valueText(v any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err.Error() // cannot happen: the value can be encoded
	}
	return cli.Printable(b.String())
}

// These bound what a line of the tree shows, in characters.
const (
	shownText  = 100
	shownValue = 100
)

func writeParts(b *strings.Builder, p explain.Part, depth int) {
	indent := strings.Repeat("  ", depth)
	b.WriteString(indent)
	if p.Element != nil {
		fmt.Fprintf(b, "[%d] ", *p.Element)
	}
	b.WriteString(shortened(cli.Printable(p.Text), shownText) + "  → ")
	switch {
	case !p.Evaluated:
		b.WriteString("-")
	case p.Error != "":
		b.WriteString("fails: " + p.Error)
	default:
		b.WriteString(shortened(cli.Printable(string(p.Value)), shownValue))
	}
	b.WriteString("\n")
	for _, inner := range p.Parts {
		writeParts(b, inner, depth+1)
	}
	if p.More > 0 {
		fmt.Fprintf(b, "%s  … %d more, of which %d true\n", indent, p.More, p.MoreTrue)
	}
}
