package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/log"
)

// lettersInLogs returns a directory as a killed process leaves it: with letters, each in a cut of its
// own, in logs that Pebble does not have.
func lettersInLogs(t *testing.T, letters int, o Options) (dir string, logs []string) {
	t.Helper()
	whole := t.TempDir()
	s := open(t, whole, o)
	for n := range letters {
		s.recorded(func() {
			s.PutLetter(delivery.Letter{
				ID: fmt.Sprint("r/", n), Rule: "r", Key: key(fmt.Sprint("o", n)),
				Delta: delta.Delta{Type: delta.Added, Object: obj(t, fmt.Sprint("o", n), n+1, "text")},
			})
		})
		if err := s.flush(s.db.Load()); err != nil {
			t.Fatal(err)
		}
	}
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	logs, err := filepath.Glob(filepath.Join(dir, storeName, "cuts-*"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	return dir, logs
}

// A bit that flips in a log loses nothing in silence: letters that are gone are reported.
func TestFlippedBitsInALogAreReported(t *testing.T) {
	const letters = 30
	for name, o := range map[string]Options{"one log": {}, "several": {limits: limits{log: 2 << 10}}} {
		t.Run(name, func(t *testing.T) {
			dir, logs := lettersInLogs(t, letters, o)
			if name == "several" && len(logs) < 2 {
				t.Fatalf("the logs are %v", logs)
			}
			for _, path := range logs {
				whole, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				for at := 0; at < len(whole); at += max(1, len(whole)/int(cases(20, 400))) {
					damaged := t.TempDir()
					text := append([]byte(nil), whole...)
					text[at] ^= 1 << (at % 8)
					err := errors.Join(os.CopyFS(damaged, os.DirFS(dir)),
						os.WriteFile(filepath.Join(damaged, storeName, filepath.Base(path)), text, 0o600))
					if err != nil {
						t.Fatal(err)
					}
					var said journal
					s := open(t, damaged, Options{Logger: said.logger()})
					found, err := s.Letters()
					if err != nil && !errors.Is(err, ErrSetAside) {
						t.Fatal(err)
					}
					if len(found) < letters && said.count("level=ERROR") == 0 {
						t.Errorf("a bit flipped at %d of %s: %d letters are left, and nothing is logged", at, filepath.Base(path), len(found))
					}
					closed(t, s)
				}
			}
		})
	}
}

// A log that was written to its end is no reason to complain, also not one that has nothing yet.
func TestWholeLogsAreNotReported(t *testing.T) {
	dir, logs := lettersInLogs(t, 3, Options{})
	last := filepath.Join(dir, storeName, log.Name(99))
	if number, ok := log.NumberOf(filepath.Base(logs[len(logs)-1])); ok {
		last = filepath.Join(dir, storeName, log.Name(number+1))
	}
	if err := os.WriteFile(last, nil, 0o600); err != nil { // the process ended before the first frame
		t.Fatal(err)
	}
	var said journal
	s := open(t, dir, Options{Logger: said.logger()})
	found, err := s.Letters()
	if len(found) != 3 || err != nil || said.count("level=ERROR") > 0 {
		t.Errorf("%d letters, %v; logged %s", len(found), err, said.text())
	}
	closed(t, s)
}

// A log that somebody removed is reported, whichever it is.
func TestMissingLogsAreReported(t *testing.T) {
	const letters = 30
	for name, o := range map[string]Options{"one log": {}, "several": {limits: limits{log: 2 << 10}}} {
		t.Run(name, func(t *testing.T) {
			dir, logs := lettersInLogs(t, letters, o)
			for _, path := range logs {
				damaged := t.TempDir()
				err := errors.Join(os.CopyFS(damaged, os.DirFS(dir)),
					os.Remove(filepath.Join(damaged, storeName, filepath.Base(path))))
				if err != nil {
					t.Fatal(err)
				}
				var said journal
				s := open(t, damaged, Options{Logger: said.logger()})
				found, err := s.Letters()
				if err != nil && !errors.Is(err, ErrSetAside) {
					t.Fatal(err)
				}
				if len(found) == letters {
					t.Errorf("without %s there are still %d letters", filepath.Base(path), letters)
				}
				if said.count("level=ERROR") == 0 {
					t.Errorf("%s is missing: %d letters are left, and nothing is logged", filepath.Base(path), len(found))
				}
				closed(t, s)
			}
		})
	}
}
