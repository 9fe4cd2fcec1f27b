package launch

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/plugins/builtin"
	"github.com/informd/informd/plugins/serve"
)

// NewServeCommand returns informd handler serve, the command that [Spec] starts a builtin handler
// with.
func NewServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve NAME",
		Short: "Serve a builtin handler; informd run starts this itself",
		Long: "Serve a builtin handler: " + cli.OneOf(builtin.Names()) + `.
informd run starts this command itself, for each Handler manifest with a builtin. Started by hand,
it fails and says so.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one builtin handler: %s", cli.OneOf(builtin.Names()))
			}
			return nil
		},
		ValidArgs: builtin.Names(),

		RunE: func(_ *cobra.Command, args []string) error {
			h, ok := builtin.New(args[0])
			if !ok {
				return fmt.Errorf("no builtin handler %q: want %s",
					args[0], cli.OneOf(builtin.Names()))
			}
			if !serve.Hosted() {
				return cli.Failed(fmt.Errorf("informd run starts this itself, "+
					"for a Handler manifest with spec: {builtin: %s}", args[0]))
			}
			if args[0] == "log" && os.Getenv("GOMAXPROCS") == "" {
				// It writes one line after the other. Go would wake up a second processor for
				// nothing, and spend a tenth of an event's processor time on that at ordinary
				// rates. A write that blocks holds up nothing else: Go takes its processor away
				// within milliseconds.
				runtime.GOMAXPROCS(1)
			}
			serve.Main(h)
			return nil
		},
	}
}
