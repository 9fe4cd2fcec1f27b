package dispatch

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func letter(id string, payload int) Letter {
	m := added("web", "u", 1)
	m.Payload = []byte(strings.Repeat("x", payload))
	return Letter{ID: id, Rule: "r", Handler: "h", Key: m.Delta.Key(), Reason: "because", Match: m}
}

func TestMemoryBounds(t *testing.T) {
	tests := []struct {
		name    string
		o       MemoryOptions
		payload int
		want    string
	}{
		{"letters", MemoryOptions{MaxLetters: 3}, 0, "7 8 9"},
		{"bytes", MemoryOptions{MaxBytes: 25_000}, 10_000, "8 9"},
		{"the newest is kept however large", MemoryOptions{MaxBytes: 1}, 10_000, "9"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			test.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			m := NewMemory(test.o)
			for i := range 10 {
				if err := m.Add(letter(fmt.Sprint(i), test.payload)); err != nil {
					t.Fatal(err)
				}
			}
			all, _ := m.List()
			var ids []string
			for _, l := range all {
				ids = append(ids, l.ID)
			}
			equal(t, "letters", strings.Join(ids, " "), test.want)
			dropped := 10 - len(ids)
			equal(t, "dropped", m.Stats().Dropped, uint64(dropped))
			equal(t, "lines logged", strings.Count(log.String(), "\n"), dropped)
			for _, id := range ids {
				m.Take(id)
			}
			equal(t, "stats when all are taken", m.Stats(), MemoryStats{Dropped: uint64(dropped)})
		})
	}
}

func TestMemoryTakeAndReplace(t *testing.T) {
	m := NewMemory(MemoryOptions{})
	for _, id := range []string{"a", "b", "a"} {
		m.Add(letter(id, 0))
	}
	equal(t, "letters: the same event is there once, by its last death", letters(t, m), []string{"b: because", "a: because"})
	if _, ok, _ := m.Take("a"); !ok {
		t.Error("a is not there")
	}
	if _, ok, _ := m.Take("a"); ok {
		t.Error("a is there twice")
	}
	equal(t, "letters", letters(t, m), []string{"b: because"})
}
