package offline

import (
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/internal/ownfile"
	"github.com/informd/informd/plugins/handlerpb"
)

// NewProtoCommand returns informd handler proto.
func NewProtoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "proto [DIR]",
		Short: "Write the protocol's .proto files into a folder, for handlers in other languages",
		Long: `Write the .proto files of this informd's handler protocol into DIR, by default the
current folder. Files of the same name are replaced.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			names, err := fs.Glob(handlerpb.Sources, "*.proto")
			if err != nil {
				return cli.Failed(err)
			}
			for _, name := range names {
				text, err := handlerpb.Sources.ReadFile(name)
				if err != nil {
					return cli.Failed(err)
				}
				path := filepath.Join(dir, name)
				if err := ownfile.Write(path, text, 0o644); err != nil {
					return cli.Failed(err)
				}
				if err := cli.Show(cmd, "%s\n", path); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
