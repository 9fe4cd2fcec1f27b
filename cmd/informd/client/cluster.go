package client

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
)

// NewClusterCommand returns informd cluster with the commands that ask the daemon, and others.
func NewClusterCommand(others ...*cobra.Command) *cobra.Command {
	cmd := cli.NewGroup("cluster", "Look at several replicas of informd, and begin with one",
		"Look at several replicas of informd, which informd run --peers makes, and begin with one.",
		newClusterStatusCommand(), newHandOverCommand())
	cmd.AddCommand(others...)
	return cmd
}

func newHandOverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hand-over",
		Short: "Have the replica that leads make another one lead",
		Long: `Have the replica that leads make another one lead. It takes no more changes, gives deliveries
in flight time to end, and writes everything. So nothing is lost, and nothing is repeated but what
does not end within 20 seconds. Ask the replica that leads: the others refuse.
` + whichDaemon,
		Args: cli.NoArguments,
	}
	flags := addControlFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.ask(func(c *control.Client) error {
			status, err := c.HandOver(cmd.Context())
			if err != nil {
				return err
			}
			return cli.Show(cmd, "%s leads\n", cmp.Or(status.Leader, "another replica"))
		})
	}
	return cmd
}

func newClusterStatusCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status [-o json]",
		Short: "Show the replicas: which one leads, and how far the others are",
		Long: `Show the replicas: which one leads, and how far the others are. Every replica answers, also if
none leads. What it shows then is stale: each replica as another one last knew it.

LAG is how many entries of the log the leader has that the replica has not applied yet.
` + whichDaemon,
		Args: cli.NoArguments,
	}
	outputFlag(cmd, &output, "json")
	flags := addControlFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.ask(func(c *control.Client) error {
			status, err := c.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				return writeDocument(cmd.OutOrStdout(), output, status)
			}
			return writeCluster(cmd.OutOrStdout(), status)
		})
	}
	return cmd
}

// writeCluster writes the replicas for people.
func writeCluster(w io.Writer, s control.Cluster) error {
	says := fmt.Sprintf("informd tolerates the loss of %d more", s.Tolerates)
	switch {
	case s.Leader == "" || s.Stale:
		says = "no replica leads: nothing is delivered"
		if s.Tolerates < 0 {
			says += fmt.Sprintf(" until %d more are there", -s.Tolerates)
		}
	case s.Tolerates <= 0:
		says = "informd does not tolerate the loss of another one"
	}
	if _, err := fmt.Fprintf(w, "%s\n\n", says); err != nil {
		return err
	}
	t := newTable(w, "NAME", "ROLE", "TERM", "LAG", "VERSION", "ADDRESS", "TROUBLE")
	for _, m := range s.Members {
		if m.Unreachable != "" {
			t.row(m.Name, "unreachable", "-", "-", "-", m.Address, m.Unreachable)
			continue
		}
		t.row(m.Name, string(m.Role), strconv.FormatUint(m.Term, 10), strconv.FormatUint(m.Lag, 10),
			m.Version, m.Address, cmp.Or(m.Trouble, m.Unable, "-"))
	}
	return t.flush()
}
