// Image writes informd's container image as an OCI image layout, without a container engine and
// without a base image.
//
//	image -o DIR -version VERSION [-revision COMMIT] [-time UNIX] ARCH=FOLDER…
//	image -notices PROGRAM…
//
// Each FOLDER holds the Linux programs for one architecture. Image puts them into /usr/bin:
// informd, which is the entry point, and whatever lies beside it. A busybox among them becomes the
// shell and the usual small commands. The programs must be static, because the image has no
// libraries.
//
// Beside the programs, the image has the certificates of public authorities, a user 65532 that it
// runs as, /tmp, and /state for that user. It runs with a read-only root if /tmp and /state are
// volumes.
//
// The image has the licenses of everything in it below /usr/share/licenses, and its label says which
// they are. Those of Go programs come from the modules that are linked into them, as the go command
// keeps them. For any other program, a file PROGRAM.copyright stands beside it. With -notices, Image
// prints the licenses of the modules in Go programs, for archives.
//
// The same arguments and files give the same digest.
//
// Image is a module of its own, so that nobody who builds informd needs its dependencies.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "image:", err)
		}
		os.Exit(2)
	}
}

// release says what the image's labels and times say.
type release struct {
	version  string
	revision string // "" if unknown
	created  time.Time
}

func run(args []string, stdout, stderr io.Writer) error {
	var r release
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, "usage: image -o DIR -version VERSION [-revision COMMIT] [-time UNIX] "+
			"ARCH=FOLDER…\n       image -notices PROGRAM…\n\n")
		flags.PrintDefaults()
	}
	out := flags.String("o", "", "`folder` to write the layout to; it must not exist yet")
	flags.StringVar(&r.version, "version", "", "`version` of informd, and the image's tag")
	flags.StringVar(&r.revision, "revision", "", "`commit` that the programs are built from")
	unix := flags.Int64("time", 0, "`seconds` since 1970, for the times of files and of the image")
	licenses := flags.Bool("notices", false, "print the licenses of the modules in programs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *licenses {
		n, err := newNotices(flags.Args(), false)
		if err != nil {
			return err
		}
		_, err = stdout.Write(n.text)
		return err
	}
	r.created = time.Unix(*unix, 0).UTC()
	switch {
	case *out == "":
		return errors.New("-o is missing: name the folder for the layout")
	case r.version == "":
		return errors.New("-version is missing")
	case flags.NArg() == 0:
		return errors.New("no programs: give ARCH=FOLDER, as amd64=bin/linux-amd64")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range flags.Args() {
		arch, folder, ok := strings.Cut(arg, "=")
		if !ok || arch == "" || folder == "" {
			return fmt.Errorf("%s is not ARCH=FOLDER", strconv.Quote(arg))
		}
		image, err := newImage(r, arch, folder)
		if err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return write(index, *out, r.version, stdout)
}

// write writes a layout with the index under one tag, and prints the index's digest. The layout
// appears whole or not at all.
func write(index v1.ImageIndex, dir, tag string, stdout io.Writer) error {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s exists: remove it first", dir)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	unfinished, err := os.MkdirTemp(parent, ".image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unfinished)
	if err := os.Chmod(unfinished, 0o755); err != nil {
		return err
	}
	path, err := layout.Write(unfinished, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})
	if err := path.AppendIndex(index, named); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s:%s %s\n", filepath.Base(dir), tag, digest)
	return err
}

const licensesLabel = "org.opencontainers.image.licenses"

// newImage makes the image for one architecture from the programs in a folder.
func newImage(r release, arch, folder string) (v1.Image, error) {
	programs, err := readPrograms(folder, arch)
	if err != nil {
		return nil, err
	}
	// The first layer rarely changes, so a node that has it need not fetch it again.
	base, err := r.newLayer(baseFiles())
	if err != nil {
		return nil, err
	}
	licenses, expression, err := licenseFiles(folder, programs)
	if err != nil {
		return nil, err
	}
	top, err := r.newLayer(append(programs, licenses...))
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err = mutate.AppendLayers(image, base, top)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Created = v1.Time{Time: r.created}
	for i := range config.History {
		config.History[i] = v1.History{Created: config.Created, CreatedBy: "deploy/image"}
	}
	config.Config = v1.Config{
		User:       user + ":" + user,
		Entrypoint: []string{"/usr/bin/informd"},
		WorkingDir: "/",
		// Commands in the container find the daemon's state where the daemon has it.
		Env: []string{"PATH=/usr/bin:/bin", "XDG_STATE_HOME=/state"},
		Labels: map[string]string{
			"org.opencontainers.image.title":   "informd",
			"org.opencontainers.image.version": r.version,
			"org.opencontainers.image.source":  "https://github.com/informd/informd",
			licensesLabel:                      expression,
		},
	}
	if r.revision != "" {
		config.Config.Labels["org.opencontainers.image.revision"] = r.revision
	}
	return mutate.ConfigFile(image, config)
}
