package served

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/schema"
	"github.com/informd/informd/internal/bounded"
	"github.com/informd/informd/internal/ownfile"
)

// fileName is what save writes into a folder.
const fileName = "schemas.json"

// NewCommand returns informd schemas.
func NewCommand(version string) *cobra.Command {
	return cli.NewGroup("schemas", "Schemas of a cluster's resources, and of manifests", "",
		newSaveCommand(version), newManifestsCommand())
}

func newManifestsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "manifests",
		Short: "Print the JSON Schema of manifests, for editors",
		Long: `Print the JSON Schema of informd's manifests, so that an editor completes their fields, describes
them and marks mistakes. It is made from the tables by which informd reads manifests. informd check
finds more: it also knows the other manifests, expressions, and the types of objects.

docs/guides/editor.md says how editors find it.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Show(cmd, "%s", config.Schema())
		},
	}
}

func newSaveCommand(version string) *cobra.Command {
	var kubeconfig, context, output string
	cmd := &cobra.Command{
		Use:   "save -o PATH",
		Short: "Write the schemas of a cluster's resources to a file",
		Long: `Write the schemas of all resources that a cluster serves to a file, so that informd check
--schemas PATH checks expressions against them without the cluster. PATH is a file, - for standard
output, or a folder, which gets schemas.json. The file is one OpenAPI v3 document. It has fields and
their types, without descriptions, and no objects. The command replaces a file of that name.

informd finds the cluster as kubectl does: by --kubeconfig, $KUBECONFIG, ~/.kube/config, or
in-cluster.

Exit code 0: done. 1: something could not be read or written; what could be read is written. 2: the
command line is wrong.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "" {
				return errors.New("-o is missing: name a file, or a folder")
			}
			cluster, err := locate.Cluster(kubeconfig, context)
			if err != nil {
				return cli.Failed(err)
			}
			cluster.UserAgent = "informd/" + version
			cluster.QPS = -1
			cluster.Wrap(bounded.Transport)
			client, err := discovery.NewDiscoveryClientForConfig(cluster)
			if err != nil {
				return cli.Failed(fmt.Errorf("set up the connection to %s: %w", cluster.Host, err))
			}
			ctx, stop := cli.WithSignals(cmd.Context(), nil)
			defer stop()
			text, err := NewReader(client).Save(ctx)
			if text == nil {
				return cli.Failed(err)
			}
			if writeErr := write(cmd, output, text); writeErr != nil {
				return cli.Failed(errors.Join(err, writeErr))
			}
			if err != nil {
				return cli.Failed(err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "write to this `PATH`; - is standard output")
	f.StringVar(&kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE`; default: as for kubectl, or in-cluster")
	f.StringVar(&context, "context", "",
		"context `NAME` in the kubeconfig; default: the current one")
	return cmd
}

// write writes what Save has returned, indented, so that two files can be compared.
func write(cmd *cobra.Command, path string, text []byte) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", " "); err != nil {
		return err
	}
	indented.WriteByte('\n')
	if path == "-" {
		return cli.Show(cmd, "%s", indented.String())
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, fileName)
	}
	catalog := schema.NewCatalog(nil)
	if err := catalog.AddOpenAPI(text); err != nil {
		return err
	}
	if err := ownfile.Write(path, indented.Bytes(), 0o644); err != nil {
		return err
	}
	return cli.Show(cmd, "%s: the schemas of %d resources\n", path, catalog.Len())
}
