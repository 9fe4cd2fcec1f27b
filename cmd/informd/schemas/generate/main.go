// Command generate writes the schemas of Kubernetes' own resources that informd has built in: what
// several minor versions of Kubernetes allow, in one file.
//
//	go run ./cmd/informd/schemas/generate -o FILE VERSION…
//
// A version is that of the Go module k8s.io/kubernetes, such as v1.36.3. The command downloads the
// module as the go command does, and reads the OpenAPI documents in it.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/informd/informd/engine/schema"
)

func main() {
	out := flag.String("o", "", "write to this `FILE`")
	flag.Parse()
	if err := generate(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(out string, versions []string) error {
	if out == "" || len(versions) == 0 {
		return errors.New("usage: generate -o FILE VERSION…")
	}
	var documents [][]byte
	for _, version := range versions {
		folder, err := download(version)
		if err != nil {
			return err
		}
		paths, err := filepath.Glob(filepath.Join(folder, "api/openapi-spec/v3/*_openapi.json"))
		if err != nil || len(paths) == 0 {
			return fmt.Errorf("%s has no OpenAPI documents", version)
		}
		enums, err := readEnums(filepath.Join(folder, "pkg/generated/openapi/zz_generated.openapi.go"))
		if err != nil {
			return err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err == nil {
				text, err = withEnums(text, enums)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			documents = append(documents, text)
		}
	}
	text, err := schema.Condense(documents...)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	w.Comment = minor(versions[0]) + " to " + minor(versions[len(versions)-1])
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	fmt.Printf("%s: %s, %d bytes, %d unpacked\n", out, w.Comment, packed.Len(), len(text))
	return os.WriteFile(out, packed.Bytes(), 0o644)
}

// minor returns the minor version of Kubernetes, as 1.36, of a version such as v1.36.3.
func minor(version string) string {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// download returns the folder of a version of k8s.io/kubernetes.
func download(version string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+version)
	cmd.Dir = os.TempDir() // outside of any module, so that no go.mod or go.sum changes
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w", version, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(text, &module); err != nil {
		return "", fmt.Errorf("download %s: %w", version, err)
	}
	return module.Dir, nil
}
