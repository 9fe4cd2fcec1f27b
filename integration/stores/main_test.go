package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck writes a little into each store and finds it again, exactly.
func TestCheck(t *testing.T) {
	for _, c := range candidates {
		t.Run(c.name, func(t *testing.T) {
			j := job{Store: c.name, Packed: true, Dir: t.TempDir(), Objects: 500, Batches: 3, Batch: 100}
			w, err := write(j)
			if err != nil {
				t.Fatal(err)
			}
			if w.Changes != 300 || len(w.Commits) != 3 {
				t.Errorf("%d changes in %d commits", w.Changes, len(w.Commits))
			}
			if f, err := check(j); err != nil || f != (finding{}) {
				t.Errorf("%+v, %v", f, err)
			}
			if _, err := read(j); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFindings tells what is older from what is wrong.
func TestFindings(t *testing.T) {
	for _, c := range candidates {
		t.Run(c.name, func(t *testing.T) {
			j := job{Store: c.name, Packed: true, Dir: t.TempDir(), Objects: 500, Batches: 3, Batch: 100}
			if _, err := write(j); err != nil {
				t.Fatal(err)
			}
			j.Batches = 5
			if f, err := check(j); err != nil || f != (finding{Older: 2}) {
				t.Errorf("two transactions are missing: %+v, %v", f, err)
			}
			if f, err := check(j); err != nil || f.Wrong == 0 || f.Older != 0 {
				t.Errorf("a hundred objects as they were at first: %+v, %v", f, err)
			}
		})
	}
}

func TestObjects(t *testing.T) {
	plain, packed := newObjects(false), newObjects(true)
	keys := map[string]bool{}
	for i := range 10_000 {
		keys[string(key(i))] = true
	}
	if len(keys) != 10_000 {
		t.Errorf("%d keys", len(keys))
	}
	text := string(plain.value(7, 1))
	if n := len(text); n < 2900 || n > 3500 || strings.Contains(text, "@") {
		t.Errorf("%d bytes: %s", n, text)
	}
	if again := string(newObjects(false).value(7, 1)); again != text {
		t.Error("not the same again")
	}
	if other := string(plain.value(7, 2)); other == text {
		t.Error("a change changes nothing")
	}
	got, err := packed.pack.Decode(nil, packed.value(7, 1))
	if err != nil || string(got) != text {
		t.Errorf("unpacked: %v", err)
	}
}

func TestFlip(t *testing.T) {
	dir := t.TempDir()
	const size = 10_000
	for _, name := range []string{"a", "b", "empty"} {
		content := make([]byte, size)
		if name == "empty" {
			content = nil
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := flip(dir, 20, rand.New(rand.NewPCG(1, 1))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		changed := 0
		for _, b := range content {
			changed += min(1, int(b))
		}
		if len(content) != size || changed == 0 || changed > 20 {
			t.Errorf("%s: %d bytes, of which %d changed", name, len(content), changed)
		}
	}
}
