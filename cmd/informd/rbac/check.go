package rbac

import (
	"cmp"
	"context"
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

	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s has %d of %d rights\n", cli.Printable(user), server,
		len(needs)-len(missing)-len(avoidable), len(needs))
	if len(missing) > 0 {
		fmt.Fprintf(&b, "\nMISSING\n%s", rights.Text(rights.Lines(missing)))
	}
	if len(avoidable) > 0 {
		fmt.Fprintf(&b, "\nPERHAPS MISSING\n%s", rights.Text(rights.Lines(avoidable)))
	}
	if len(surplus) > 0 {
		fmt.Fprintf(&b, "\nTOO MUCH\n")
		for _, line := range surplus {
			b.WriteString(cli.Printable(line) + "\n")
		}
	}
	if hidden != "" {
		fmt.Fprintf(&b, "\nThere may be more that is too much: %s.\n", cli.Printable(hidden))
	}
	if err := cli.Show(cmd, "%s", b.String()); err != nil {
		return err
	}
	if n := len(missing); n > 0 {
		return cli.Failed(fmt.Errorf("%d %s missing", n, cli.Plural(n, "right")))
	}
	return nil
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
