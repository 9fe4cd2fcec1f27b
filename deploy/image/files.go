package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user and the group that the image runs as, known as "nonroot" elsewhere.
const user = "65532"

// A file of a layer is a folder if its name ends in a slash, a link if link is not empty, or a
// regular file.
type file struct {
	name    string // without a slash at its beginning
	mode    int64
	isUsers bool // belongs to user, not to root
	content []byte
	link    string
}

// newLayer makes a layer of files, which stand behind the folders that they are in.
func (r release) newLayer(files []file) (v1.Layer, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, f := range files {
		header := &tar.Header{
			Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: r.created,
			Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		}
		switch {
		case strings.HasSuffix(f.name, "/"):
			header.Typeflag = tar.TypeDir
		case f.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		}
		if f.isUsers {
			id, err := strconv.Atoi(user)
			if err != nil {
				return nil, err
			}
			header.Uid, header.Gid = id, id
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil
	}
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// baseFiles returns what programs expect of a system.
func baseFiles() []file {
	return []file{
		{name: "bin", mode: 0o777, link: "usr/bin"},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644,
			content: []byte("root:x:0:\ninformd:x:" + user + ":\n")},
		{name: "etc/passwd", mode: 0o644,
			content: []byte("root:x:0:0:root:/:/sbin/nologin\n" +
				"informd:x:" + user + ":" + user + ":informd:/tmp:/sbin/nologin\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates()},
		{name: "state/", mode: 0o700, isUsers: true},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
	}
}

// certificates returns the certificates of public authorities, as Mozilla trusts them. It leaves
// out those that Mozilla trusts under conditions, because a PEM file cannot express conditions.
func certificates() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return all.Bytes()
}

// applets are the commands that busybox stands for, if it is in the image. wget is not among them,
// because Debian's static busybox does not check certificates.
var applets = strings.Fields(`
	awk base64 basename cat chmod cmp comm cp cut date diff dirname du echo env expr false find fold
	grep gunzip gzip head hostname id kill ln ls md5sum mkdir mktemp mv nl nslookup od paste printf
	ps pwd readlink realpath rm rmdir sed seq sh sha1sum sha256sum sha512sum sleep sort split stat
	strings tac tail tar tee test timeout touch tr true tty uname uniq wc which xargs yes`)

// readPrograms returns the programs of a folder as files of /usr/bin, in order of their names.
func readPrograms(folder, arch string) (files []file, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), copyrightSuffix) {
			continue
		}
		names[entry.Name()] = true
		path := filepath.Join(folder, entry.Name())
		if err := checkProgram(path, arch); err != nil {
			return nil, err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "usr/bin/" + entry.Name(), mode: 0o755, content: content})
	}
	if !names["informd"] {
		return nil, fmt.Errorf("%s has no informd", folder)
	}
	if names["busybox"] {
		for _, applet := range applets {
			if !names[applet] {
				files = append(files, file{name: "usr/bin/" + applet, mode: 0o777, link: "busybox"})
			}
		}
	}
	return files, nil
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram reports a file that cannot run in the image: no program, one for another
// architecture, or one that needs libraries.
func checkProgram(path, arch string) error {
	machine, ok := machines[arch]
	if !ok {
		return fmt.Errorf("unknown architecture %s: use amd64 or arm64", strconv.Quote(arch))
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return &fs.PathError{Op: "add", Path: path, Err: errors.New("it is not an executable file")}
	}
	program, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is not a Linux program: %w", path, err)
	}
	defer program.Close()
	if program.Machine != machine {
		return fmt.Errorf("%s is a program for %v, not for %s", path, program.Machine, arch)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs libraries, which the image does not have: "+
				"build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}
