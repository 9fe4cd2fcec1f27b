package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
)

// newerStates make the state in a directory one of a newer informd.
var newerStates = map[string]func(t *testing.T, dir string){
	"a newer format": func(t *testing.T, dir string) {
		meddle(t, dir, func(db *pebble.DB) error {
			return db.Set(records.FormatKey, records.FormatOf(records.NewestFormat+1), pebble.Sync)
		})
	},
	"a newer Pebble": func(t *testing.T, dir string) {
		store := filepath.Join(dir, storeName)
		markers, err := filepath.Glob(filepath.Join(store, "marker.format-version.*"))
		if err != nil || len(markers) != 1 {
			t.Fatal(markers, err)
		}
		newer := filepath.Join(store, fmt.Sprintf("marker.format-version.999999.%03d", pebbleFormat+1))
		if err := os.Rename(markers[0], newer); err != nil {
			t.Fatal(err)
		}
	},
	"a newer log": func(t *testing.T, dir string) {
		var at records.Progress
		meddle(t, dir, func(db *pebble.DB) (err error) {
			text, _, err := get(db, records.ProgressKey)
			if err == nil {
				at, err = records.ReadProgress(text)
			}
			return err
		})
		payload := []byte("informd cuts 2\x00\x00")
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
		frame = binary.BigEndian.AppendUint32(frame, crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
		path := filepath.Join(dir, storeName, log.Name(at.Next))
		if err := os.WriteFile(path, append(frame, payload...), 0o600); err != nil {
			t.Fatal(err)
		}
	},
}

// A state of a newer informd ends the start, and nothing is set aside: whoever rolls back decides.
// The error names who can read the state, and the way without it. Afterwards, the newer informd
// finds all that it had.
func TestStateOfANewerVersion(t *testing.T) {
	for name, makeNewer := range newerStates {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Options{Version: "v9.8.7"})
			s.recorded(func() { s.PutRule(RuleMemory{Name: "r", Paused: true}) })
			closed(t, s)
			makeNewer(t, dir)
			for range 2 { // and the lock is free again
				var log journal
				_, err := Open(dir, Options{Version: "v1.0.0", Logger: log.logger()})
				newer, ok := errors.AsType[*VersionError](err)
				if !ok || newer.Dir != dir || newer.Writer != "v9.8.7" {
					t.Fatalf("%v", err)
				}
				for _, want := range []string{dir, "written by informd v9.8.7", "start that informd"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
				if aside, _ := filepath.Glob(filepath.Join(dir, asidePrefix+"*")); len(aside) > 0 {
					t.Errorf("set aside: %v", aside)
				}
			}
			if name != "a newer Pebble" { // which this one cannot open
				meddle(t, dir, func(db *pebble.DB) error {
					_, closer, err := db.Get(records.RuleKey("r"))
					if err != nil {
						return err
					}
					return closer.Close()
				})
			}
			var log journal
			s = open(t, dir, Options{SetAside: true, Logger: log.logger()})
			if rules, err := s.Rules(); len(rules) > 0 || err != nil {
				t.Errorf("rules %v, %v", rules, err)
			}
			aside := s.Status().SetAside
			if len(aside) != 1 || !strings.HasSuffix(aside[0], "-"+otherVersion) {
				t.Errorf("set aside: %v", aside)
			}
			if log.count("level=ERROR") != 1 || log.count(explanations[otherVersion]) != 1 {
				t.Errorf("logged %s", log.text())
			}
			if log.count("the state in "+dir+" was written by") != 1 {
				t.Errorf("it does not say which state: %s", log.text())
			}
			closed(t, s)
		})
	}
}

// SetAside concerns nothing but a state of another version: it may stay set.
func TestSetAsideLeavesAStateThatCanBeRead(t *testing.T) {
	dir := made(t)
	s := open(t, dir, Options{SetAside: true})
	defer closed(t, s)
	if rules, err := s.Rules(); len(rules) != 1 || err != nil || len(s.Status().SetAside) > 0 {
		t.Errorf("rules %v, %v, set aside: %v", rules, err, s.Status().SetAside)
	}
}

// A disk that accepts no writes makes no difference.
func TestNewerStateOnAReadOnlyDisk(t *testing.T) {
	memory, _ := written(t, 1)
	db, err := pebble.Open("/state/store", &pebble.Options{FS: memory, FormatMajorVersion: pebble.FormatNewest, Logger: &failure{logger: Options{}.withDefaults().Logger}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Set(records.FormatKey, records.FormatOf(records.NewestFormat+1), pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
	files := newSickFS(memory)
	files.fall(failing(syscall.EROFS))
	if _, err := Open("/state", onMemory(files)); errors.As(err, new(*VersionError)) == false {
		t.Errorf("%v", err)
	}
}

// Whoever begins to write a newer format says so, and what to do before an earlier informd starts.
func TestUpgradeIsLogged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{Version: "v0.1.0"})
	closed(t, s)
	meddle(t, dir, func(db *pebble.DB) error {
		return errors.Join(db.Set(records.FormatKey, records.FormatOf(records.Logless), pebble.Sync), db.Delete(records.ProgressKey, pebble.Sync))
	})
	for want := 1; want >= 0; want-- { // once
		var log journal
		s := open(t, dir, Options{Version: "v0.2.0", Logger: log.logger()})
		closed(t, s)
		if n := log.count("level=WARN"); n != want {
			t.Errorf("%d warnings, want %d: %s", n, want, log.text())
		}
		if want == 0 {
			break
		}
		for _, text := range []string{"from=1", "to=4", "writtenBy=v0.1.0", "move " + filepath.Join(dir, storeName) + " away"} {
			if log.count(text) != 1 {
				t.Errorf("the log does not say %q: %s", text, log.text())
			}
		}
	}
}

// Deltas have occasions since version 4. A store from before keeps what it has, and an informd from
// before then refuses it.
func TestStoreFromBeforeOccasions(t *testing.T) {
	for _, was := range []uint64{2, 3} {
		dir := t.TempDir()
		s := open(t, dir, Options{})
		s.recorded(func() { s.PutRule(RuleMemory{Name: "r", Resource: "v1/pods", Paused: true}) })
		closed(t, s)
		meddle(t, dir, func(db *pebble.DB) error {
			return db.Set(records.FormatKey, records.FormatOf(was), pebble.Sync)
		})
		var log journal
		s = open(t, dir, Options{Logger: log.logger()})
		rules, err := s.Rules()
		if err != nil || len(rules) != 1 || !rules[0].Paused {
			t.Errorf("version %d: %+v, %v", was, rules, err)
		}
		closed(t, s)
		if log.count("the format of the state was upgraded") != 1 {
			t.Errorf("version %d: logged %s", was, log.text())
		}
		meddle(t, dir, func(db *pebble.DB) error {
			text, closer, err := db.Get(records.FormatKey)
			if err != nil {
				return err
			}
			defer closer.Close()
			if version, err := records.ReadFormat(text); version != records.FormatVersion || err != nil {
				t.Errorf("version %d became %d, %v", was, version, err)
			}
			return nil
		})
	}
}
