package confine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A handler can replace a writable file by a link. The next process's sandbox must not follow it
// out of the allowed paths.
func TestLinkMadeInASandbox(t *testing.T) {
	for kind, add := range map[string]func(*Spec, string){
		"read":  func(s *Spec, path string) { s.Read = []string{path} },
		"write": func(s *Spec, path string) { s.Write = append(s.Write, path) },
	} {
		t.Run(kind, func(t *testing.T) {
			own, secret := folder(t), filepath.Join(folder(t), "secret")
			below := filepath.Join(own, "below")
			if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o644), os.Mkdir(below, 0o777)); err != nil {
				t.Fatal(err)
			}
			s := Spec{Sandbox: true, Write: []string{own}}
			add(&s, below)
			output(t, command(t, prepare(t, s, Own{}), nil, "/bin/sh", "-c", `rmdir "$1" && ln -s "$2" "$1"`, "sh", below, filepath.Dir(secret)))
			out, err := command(t, prepare(t, s, Own{}), nil, "/bin/cat", secret).CombinedOutput()
			if err == nil || !strings.Contains(string(out), errStrays.Error()) {
				t.Errorf("%v, %s; want it refused", err, out)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	at := func(path string) string { return dir + "/" + path } // as it is: not cleaned
	var errs []error
	for _, path := range []string{"own/sub/deep", "secret"} {
		errs = append(errs, os.MkdirAll(at(path), 0o700))
	}
	for _, path := range []string{"own/sub/file", "secret/file"} {
		errs = append(errs, os.WriteFile(at(path), nil, 0o600))
	}
	for link, to := range map[string]string{
		"own/in": "sub", "own/back": at("own/sub/file"), "own/out": at("secret"), "own/file": "../secret/file", "own/dots": "sub/deep/../../..",
		"own/loop": "loop", "alias": "own", "through": "own/out",
	} {
		errs = append(errs, os.Symlink(to, at(link)))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	own := []string{at("own")}
	for _, test := range []struct {
		why   string
		write []string
		path  string
		to    string
		err   error
	}{
		{"no link", own, "own/sub/", "own/sub", nil},
		{"a link of which nothing is gained", own, "own/in", "own/sub", nil},
		{"to a file", own, "own/back", "own/sub/file", nil},
		{"out of the folder", own, "own/out", "", errStrays},
		{"to a file outside", own, "own/file", "", errStrays},
		{"on the way", own, "own/out/file", "", errStrays},
		{"up", own, "own/dots", "", errStrays},
		{"written down as such", own, "own/sub/../../secret", "secret", nil},
		{"by another name of the folder", own, "alias/out", "", errStrays},
		{"of which another name is given", []string{at("alias")}, "own/out", "", errStrays},
		{"at the end of a link", own, "through", "", errStrays},
		{"which is given, too", []string{at("own/out"), at("own")}, "own/out", "", errStrays},
		{"to what is given elsewhere", []string{at("own"), at("secret")}, "own/out", "secret", nil},
		{"that the handler cannot make", []string{at("secret")}, "own/out", "secret", nil},
		{"where all may be written", []string{"/"}, "own/out", "secret", nil},
		{"to itself", own, "own/loop", "", unix.ELOOP},
		{"to nothing", own, "own/nothing", "", unix.ENOENT},
	} {
		p, err := newPaths(test.write)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := p.open(at(test.path))
		if !errors.Is(err, test.err) {
			t.Errorf("%s: %v, want %v", test.why, err, test.err)
		}
		if err != nil {
			continue
		}
		is, _, err := inodeOf(fd)
		_ = unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		var want unix.Stat_t
		if err := unix.Stat(at(test.to), &want); err != nil {
			t.Fatal(err)
		}
		if is != (inode{uint64(want.Dev), want.Ino}) {
			t.Errorf("%s: it is not %s", test.why, test.to)
		}
	}
}
