//go:build linux

package host_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/informd/informd/plugins/host"
)

// If a file is swapped between the check of its digest and its execution, then the checked bytes
// run, or nothing. That holds for any kind of swap, and for scripts, which an interpreter reads
// long after.
func TestSwappedBinary(t *testing.T) {
	n := newNeighbour(t)
	const good, evil = "#!/bin/sh\necho good >> \"$RAN\"\n", "#!/bin/sh\necho evil >> \"$RAN\"\n"
	write := func(path, content string) {
		if err := writeProgram(path, []byte(content), 0o700); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		does string
		swap func(path, content string)
	}{
		{"renames another over it", func(path, content string) {
			write(path+".new", content)
			if err := os.Rename(path+".new", path); err != nil {
				t.Error(err)
			}
		}},
		{"overwrites it in place", func(path, content string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return // it is being executed
			}
			if _, err := f.WriteAt([]byte(content), 0); err != nil {
				t.Error(err)
			}
			_ = f.Close()
		}},
		{"puts a link in its place", func(path, content string) {
			to := path + "." + content[15:19]
			if _, err := os.Lstat(to); err != nil {
				write(to, content)
			}
			if err := os.Symlink(to, path+".link"); err != nil {
				t.Error(err)
			}
			if err := os.Rename(path+".link", path); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(c.does, func(t *testing.T) {
			dir := t.TempDir()
			path, ran := filepath.Join(dir, "handler"), filepath.Join(dir, "ran")
			write(path, good)
			mark := "ROGUE=" + strconv.Itoa(os.Getpid()) + "/" + t.Name()
			s := host.Spec{Name: "swapped", Path: path, SHA256: digestOf(t, path), Env: []string{"RAN=" + ran, mark}}
			before := takeStock()
			stream := n.traffic(t)

			stop := make(chan struct{})
			var attacker sync.WaitGroup
			attacker.Go(func() {
				for {
					for _, content := range []string{evil, good} {
						c.swap(path, content)
						select {
						case <-stop:
							return
						default:
						}
					}
				}
			})
			what := ""
			refused, tries := 0, 0
			for ; tries < 2000 && (strings.Count(what, "good") < 12 || refused < 12) && !strings.Contains(what, "evil"); tries++ {
				if err := try(t, s, host.Options{}); err != nil && strings.Contains(err.Error(), "its sha256 is") {
					refused++
				}
				b, _ := os.ReadFile(ran)
				what = string(b)
			}
			close(stop)
			attacker.Wait()
			stream.end(t)
			before.checkNow(t, mark)
			t.Logf("%d tries: %d refused, %d ran", tries, refused, strings.Count(what, "\n"))
			if strings.Contains(what, "evil") {
				t.Error("a file ran whose digest nobody allowed")
			}
			if !strings.Contains(what, "good") || refused == 0 {
				t.Error("the tries did not meet both files")
			}
		})
	}
}
