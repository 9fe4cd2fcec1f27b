package e2e

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/informd/informd/integration/harness"
)

// testVersion is fixed, because the real version changes with each commit, and the programs would
// be linked again.
const testVersion = "v1.2.3-test"

// made has what `make` made for this test binary, and the images that it unpacked.
var made struct {
	sync.Mutex
	err    map[string]error // by target
	out    map[string]string
	images map[string]*image // by layout
}

// bin is where `make` puts what this package asks for. It stays there, so that the next run finds
// the programs up to date.
func bin(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(harness.Root, "bin", "test", "install"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// runMake makes a target once, for this machine's architecture only, and returns its output.
func runMake(t *testing.T, target string) string {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	if made.out == nil {
		made.out, made.err = make(map[string]string), make(map[string]error)
	}
	if _, is := made.out[target]; !is {
		cmd := exec.Command("make", "--no-print-directory", target,
			"BIN="+bin(t), "ARCHS="+runtime.GOARCH, "VERSION="+testVersion, "COMMIT=0123456789", "TIME=1700000000")
		// Not as a part of the make that runs the tests.
		cmd.Dir, cmd.Env = harness.Root, append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		out, err := cmd.CombinedOutput()
		made.out[target], made.err[target] = string(out), err
	}
	if err := made.err[target]; err != nil {
		t.Fatalf("make %s: %v\n%s", target, err, made.out[target])
	}
	return made.out[target]
}

// An image is what a layout has for this machine's architecture.
type image struct {
	root   string // unpacked
	files  map[string]*tar.Header
	digest string // of the index
	Config struct {
		User, WorkingDir string
		Entrypoint, Env  []string
		Labels           map[string]string
	}
}

type descriptor struct {
	Digest      string
	Size        int64
	Platform    struct{ OS, Architecture string }
	Annotations map[string]string
}

// unpack returns what is in an OCI image layout. All tests share it. tag is "" for any.
func unpack(t *testing.T, layout, tag string) *image {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	if i := made.images[layout]; i != nil {
		return i
	}
	root := filepath.Join(bin(t), "unpacked", filepath.Base(layout))
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	i := unpackInto(t, root, layout, tag)
	if made.images == nil {
		made.images = make(map[string]*image)
	}
	made.images[layout] = i
	return i
}

// unpackInto reads an OCI image layout as a container engine does.
func unpackInto(t *testing.T, root, layout, tag string) *image {
	t.Helper()
	var version struct{ ImageLayoutVersion string }
	decode(t, filepath.Join(layout, "oci-layout"), &version)
	if version.ImageLayoutVersion != "1.0.0" {
		t.Fatalf("%s has layout version %q", layout, version.ImageLayoutVersion)
	}
	var index, platforms struct{ Manifests []descriptor }
	decode(t, filepath.Join(layout, "index.json"), &index)
	if len(index.Manifests) != 1 {
		t.Fatalf("the layout is not one image: %+v", index)
	}
	if is := index.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; tag != "" && is != tag {
		t.Errorf("the image's tag is %q, want %q", is, tag)
	}
	i := &image{root: root, files: make(map[string]*tar.Header), digest: index.Manifests[0].Digest}
	decode(t, blob(t, layout, index.Manifests[0]), &platforms)
	for _, platform := range platforms.Manifests {
		if platform.Platform.OS != "linux" || platform.Platform.Architecture != runtime.GOARCH {
			continue
		}
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		decode(t, blob(t, layout, platform), &manifest)
		decode(t, blob(t, layout, manifest.Config), i)
		for _, layer := range manifest.Layers {
			i.unpackLayer(t, blob(t, layout, layer))
		}
		return i
	}
	t.Fatalf("the layout has no image for %s: %+v", runtime.GOARCH, platforms)
	return nil
}

func decode(t *testing.T, path string, to any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// blob returns the path of a blob, which it checks.
func blob(t *testing.T, layout string, d descriptor) string {
	t.Helper()
	path := filepath.Join(layout, "blobs", strings.Replace(d.Digest, ":", "/", 1))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(content)); sum != d.Digest || int64(len(content)) != d.Size {
		t.Fatalf("%s has %d bytes and digest %s, want %d and %s", path, len(content), sum, d.Size, d.Digest)
	}
	return path
}

func (i *image) unpackLayer(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			i.files[header.Name] = header
			err = unpackFile(filepath.Join(i.root, header.Name), header, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func unpackFile(path string, header *tar.Header, content io.Reader) error {
	switch header.Typeflag {
	case tar.TypeDir:
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
	case tar.TypeSymlink:
		return os.Symlink(header.Linkname, path)
	default:
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	if os.Getuid() == 0 {
		if err := os.Chown(path, header.Uid, header.Gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, header.FileInfo().Mode())
}
