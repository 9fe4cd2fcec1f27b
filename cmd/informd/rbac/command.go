// Package rbac is informd rbac: it prints the least rights that manifests need, and asks a cluster
// which of them an account lacks and what it has beyond them. Its [Reviewer] asks for the daemon,
// too.
package rbac

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rights"
)

type flags struct {
	manifests           []string
	account             string
	check               bool
	kubeconfig, context string
	as                  string
	output              string
	stateDir            string

	version string // of informd; not a flag
}

// NewCommand returns informd rbac.
func NewCommand(version string) *cobra.Command {
	f := flags{version: version}
	cmd := &cobra.Command{
		Use:   "rbac -f PATH… [--check [-o json]] [flags]",
		Short: "Print the least rights that manifests need, or check an account against them",
		Long: `Print the least rights that informd needs for manifests: a service account, a ClusterRole, a Role
for each namespace, and their bindings, as YAML for kubectl apply -f -. A comment at each rule says
which Source, Rule or Handler needs it, and another one which namespaces must exist. This needs no
cluster.

Rights are limited to the namespaces and names that the manifests fix. Where an expression decides at
run time, the right is wider, and a comment that begins with WIDE says why.

With --check, ask the cluster instead. The command prints which of these rights the account lacks,
with the lines that grant them, and then what the account may do beyond them, as far as the API
server tells. It asks as informd run would: with the kubeconfig's account, or in-cluster. With --as
it asks for another account, such as informd's own; your account needs the right to impersonate it.
With -o json, it prints the same for programs.

Exit code 0: printed, or with --check: nothing is missing. 1: something is missing, or the cluster
did not answer. 2: the command line or the manifests have mistakes.`,
		Example: `  informd rbac -f rules | kubectl apply -f -
  informd rbac -f rules --check --as system:serviceaccount:informd:informd`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			account, err := f.validate()
			if err != nil {
				return err
			}
			_, p, err := manifests.Load(f.manifests)
			if mistakes, ok := errors.AsType[config.Mistakes](err); ok {
				fmt.Fprintln(cmd.ErrOrStderr(), mistakes.Error())
				n := len(mistakes)
				err = fmt.Errorf("%d %s in the configuration", n, cli.Plural(n, "mistake"))
			}
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			needs := rights.Of(p, f.stateDir != locate.NoState)
			if f.check {
				return f.ask(cmd, needs)
			}
			return cli.Show(cmd, "%s", f.print(p, needs, account))
		},
	}
	cli.ManifestFlag(cmd, &f.manifests)
	set := cmd.Flags()
	set.StringVar(&f.account, "service-account", "informd/informd",
		"`NAMESPACE/NAME` of the service account that gets the rights")
	set.BoolVar(&f.check, "check", false, "ask the cluster what is missing, and what is too much")
	set.StringVar(&f.kubeconfig, "kubeconfig", "",
		"with --check: kubeconfig `FILE`; default: as for kubectl, or in-cluster")
	set.StringVar(&f.context, "context", "",
		"with --check: context `NAME` in the kubeconfig; default: the current one")
	set.StringVar(&f.as, "as", "", "with --check: ask for this `USER`, "+
		"such as system:serviceaccount:informd:informd")
	set.StringVarP(&f.output, "output", "o", "", "with --check: `json`")
	set.StringVar(&f.stateDir, "state-dir", "", "none, if informd runs with --state-dir none: "+
		"it then needs one right less; any other `DIR` makes no difference")
	return cmd
}

// label matches a name of Kubernetes that is one DNS label or several.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

func (f *flags) validate() (rights.Account, error) {
	namespace, name, ok := strings.Cut(f.account, "/")
	switch {
	case !ok || !label.MatchString(namespace) || !label.MatchString(name) ||
		strings.Contains(namespace, "."):
		return rights.Account{}, fmt.Errorf("--service-account %q: want NAMESPACE/NAME, such as informd/informd", f.account)
	case f.output != "" && f.output != "json":
		return rights.Account{}, fmt.Errorf("-o must be json, not %q", f.output)
	case strings.Contains(f.as, "/"):
		return rights.Account{}, fmt.Errorf("--as %q: want a user; that of a service account is "+
			"system:serviceaccount:NAMESPACE:NAME", f.as)
	case f.check:
	case f.output != "":
		return rights.Account{}, errors.New("-o goes with --check: without it, informd rbac prints YAML")
	case f.kubeconfig != "" || f.context != "" || f.as != "":
		return rights.Account{}, errors.New("--kubeconfig, --context and --as go with --check: " +
			"without it, informd rbac asks no cluster")
	}
	return rights.Account{Namespace: namespace, Name: name}, nil
}

// print returns the manifests that grant needs.
func (f *flags) print(p *plan.Plan, needs []rights.Need, to rights.Account) string {
	var b strings.Builder
	paths := make([]string, len(f.manifests))
	for i, path := range f.manifests {
		paths[i] = cli.Printable(path)
	}
	b.WriteString("# The least rights that informd needs for: " + strings.Join(paths, " ") + "\n")
	for _, sentence := range rights.Unknown(p) {
		b.WriteString(rights.Comment("", sentence))
	}
	lines := rights.Lines(needs)
	if names := namespaces(lines, to); len(names) > 0 {
		b.WriteString(rights.Comment("", fmt.Sprintf(
			"kubectl apply needs the %s %s. This makes one: kubectl create namespace NAME",
			cli.Plural(len(names), "namespace"), strings.Join(names, ", "))))
	}
	b.WriteString(rights.Manifests(lines, to))
	return b.String()
}

// namespaces returns the namespaces of the manifests, without those that each cluster has. The
// manifests do not make them: to apply a Namespace that exists could take its labels away.
func namespaces(lines []rights.Line, to rights.Account) []string {
	names := []string{to.Namespace}
	for _, l := range lines {
		names = append(names, l.Namespace)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return name == "" || name == "default" || strings.HasPrefix(name, "kube-")
	})
}

// reviewer returns a Reviewer of the account that the flags name, and the API server's address.
func (f *flags) reviewer() (*Reviewer, string, error) {
	cluster, err := locate.Cluster(f.kubeconfig, f.context)
	if err != nil {
		return nil, "", err
	}
	cluster.UserAgent = fmt.Sprintf("informd/%s (%s/%s)", f.version, runtime.GOOS, runtime.GOARCH)
	if f.as != "" {
		cluster.Impersonate = rest.ImpersonationConfig{UserName: f.as}
	}
	client, err := rest.HTTPClientFor(cluster)
	if err != nil {
		return nil, "", fmt.Errorf("set up the connection to %s: %w", cluster.Host, err)
	}
	r, err := NewReviewer(cluster, client)
	return r, cluster.Host, err
}
