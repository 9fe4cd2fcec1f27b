package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/google/go-containerregistry/pkg/registry"
)

// A registry takes the layout, and gives an image to each platform.
func TestRegistryTakesIt(t *testing.T) {
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		program := filepath.Join(dir, arch, "informd")
		cmd := exec.Command("go", "build", "-o", program, "testdata/informd.go")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	at := filepath.Join(dir, "layout")
	var stdout bytes.Buffer
	err := run([]string{"-o", at, "-version", "v1", "-time", "1", "amd64=" + filepath.Join(dir, "amd64"), "arm64=" + filepath.Join(dir, "arm64")}, &stdout, io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	reference, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/informd:v1")
	if err != nil {
		t.Fatal(err)
	}
	index := onlyIndex(t, at)
	if err := remote.WriteIndex(reference, index); err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil || config.Architecture != arch || config.Created.Unix() != 1 {
			t.Errorf("for %s it gives %+v, %v", arch, config, err)
		}
		if err := validate.Image(image); err != nil {
			t.Error(err)
		}
	}
	if digest, err := index.Digest(); err != nil || !strings.HasSuffix(stdout.String(), ":v1 "+digest.String()+"\n") {
		t.Errorf("it prints %q, and the digest is %v, %v", stdout.String(), digest, err)
	}
}

// onlyIndex returns the image of a layout for all platforms.
func onlyIndex(t *testing.T, dir string) v1.ImageIndex {
	t.Helper()
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}
