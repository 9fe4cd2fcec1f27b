package rbac

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/engine/rights"
)

// ask prints what the account lacks and what it has beyond needs.
func (f *flags) ask(cmd *cobra.Command, needs []rights.Need) error {
	ctx, stop := cli.WithSignals(cmd.Context(), nil)
	defer stop()
	r, server, err := f.reviewer()
	if err != nil {
		return cli.Failed(err)
	}
	user, err := r.User(ctx)
	if err != nil {
		return cli.Failed(err)
	}
	missing, err := r.Missing(ctx, needs)
	if err != nil {
		return cli.Failed(err)
	}
	surplus, hidden, err := r.surplus(ctx, needs)
	if err != nil {
		return cli.Failed(err)
	}
	isAvoidable := func(n rights.Need) bool { return n.Unless != "" }
	avoidable := slices.DeleteFunc(slices.Clone(missing),
		func(n rights.Need) bool { return !isAvoidable(n) })
	missing = slices.DeleteFunc(missing, isAvoidable)

	found := report{
		User: user, Server: server, Needed: len(needs),
		Missing: rights.Lines(missing), PerhapsMissing: rights.Lines(avoidable),
		TooMuch: surplus, Hidden: hidden,
		has: len(needs) - len(missing) - len(avoidable),
	}
	text := found.text()
	if f.output == "json" {
		line, err := json.Marshal(found)
		if err != nil {
			return cli.Failed(err)
		}
		text = string(line) + "\n"
	}
	if err := cli.Show(cmd, "%s", text); err != nil {
		return err
	}
	if n := len(missing); n > 0 {
		return cli.Failed(fmt.Errorf("%d %s missing", n, cli.Plural(n, "right")))
	}
	return nil
}

// report is what --check finds out, as -o json prints it.
type report struct {
	User           string        `json:"user"`
	Server         string        `json:"server"`
	Needed         int           `json:"needed"` // rights: one verb each
	Missing        []rights.Line `json:"missing,omitempty"`
	PerhapsMissing []rights.Line `json:"perhapsMissing,omitempty"`
	TooMuch        []string      `json:"tooMuch,omitempty"`
	Hidden         string        `json:"hidden,omitempty"` // why there may be more that is too much

	has int // of Needed
}

func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s has %d of %d rights\n", cli.Printable(r.User), r.Server, r.has, r.Needed)
	if len(r.Missing) > 0 {
		fmt.Fprintf(&b, "\nMISSING\n%s", rights.Text(r.Missing))
	}
	if len(r.PerhapsMissing) > 0 {
		fmt.Fprintf(&b, "\nPERHAPS MISSING\n%s", rights.Text(r.PerhapsMissing))
	}
	if len(r.TooMuch) > 0 {
		fmt.Fprintf(&b, "\nTOO MUCH\n")
		for _, line := range r.TooMuch {
			b.WriteString(cli.Printable(line) + "\n")
		}
	}
	if r.Hidden != "" {
		fmt.Fprintf(&b, "\nThere may be more that is too much: %s.\n", cli.Printable(r.Hidden))
	}
	return b.String()
}

// nowhere is a namespace that nobody has: the rules that hold there hold in all namespaces.
const nowhere = "informd-rbac-asks-for-all-namespaces"

// surplus returns what the account may do beyond needs: in all namespaces, and in those of needs. If
// the API server does not tell all, hidden says why.
func (r *Reviewer) surplus(
	ctx context.Context, needs []rights.Need,
) (lines []string, hidden string, err error) {
	everywhere, hidden, err := r.Rules(ctx, nowhere)
	if err != nil {
		return nil, "", err
	}
	lines = rights.Surplus(needs, "", everywhere)
	var namespaces []string
	for _, n := range needs {
		if n.Namespace != "" {
			namespaces = append(namespaces, n.Namespace)
		}
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		rules, why, err := r.Rules(ctx, namespace)
		if err != nil {
			return nil, "", err
		}
		hidden = cmp.Or(hidden, why)
		rules = slices.DeleteFunc(rules, func(g rights.Granted) bool {
			return slices.ContainsFunc(everywhere, func(e rights.Granted) bool {
				return reflect.DeepEqual(e, g)
			})
		})
		lines = append(lines, rights.Surplus(needs, namespace, rules)...)
	}
	return lines, hidden, nil
}
