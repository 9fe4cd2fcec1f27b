package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/plugins/handler"
)

func letter(id string, payload int) delivery.Letter {
	m := added("web", "u", 1)
	m.Payload = []byte(strings.Repeat("x", payload))
	return delivery.Letter{ID: id, Rule: "r", Handler: "h", Key: m.Delta.Key(), Reason: "because", Delta: m.Delta, Payload: m.Payload}
}

func TestLetterBoxBounds(t *testing.T) {
	tests := []struct {
		name    string
		o       LetterBoxOptions
		payload int
		want    string
	}{
		{"letters", LetterBoxOptions{MaxLetters: 3}, 0, "7 8 9"},
		{"bytes", LetterBoxOptions{MaxBytes: 25_000}, 10_000, "8 9"},
		{"the newest is kept however large", LetterBoxOptions{MaxBytes: 1}, 10_000, "9"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			m := NewLetterBox(test.o)
			for i := range 10 {
				evicted, err := m.Add(letter(fmt.Sprint(i), test.payload))
				if err != nil {
					t.Fatal(err)
				}
				LogEvicted(slog.New(slog.NewTextHandler(&log, nil)), evicted)
			}
			all := m.List()
			var ids []string
			for _, l := range all {
				ids = append(ids, l.ID)
			}
			equal(t, "letters", strings.Join(ids, " "), test.want)
			equal(t, "letters of the rule", m.Stats().ByRule["r"], len(ids))
			m.Rename("r", "renamed")
			equal(t, "letters of rules", fmt.Sprint(m.Stats().ByRule), fmt.Sprintf("map[renamed:%d]", len(ids)))
			dropped := 10 - len(ids)
			equal(t, "dropped", m.Stats().Dropped, uint64(dropped))
			equal(t, "lines logged", strings.Count(log.String(), "\n"), dropped)
			for _, id := range ids {
				m.Take(id)
			}
			equal(t, "stats when all are taken", m.Stats(), LetterBoxStats{Dropped: uint64(dropped), ByRule: map[string]int{}})
		})
	}
}

func TestLetterBoxTakeAndReplace(t *testing.T) {
	m := NewLetterBox(LetterBoxOptions{})
	for _, id := range []string{"a", "b", "a"} {
		m.Add(letter(id, 0))
	}
	equal(t, "letters: the same event is there once, by its last death", letters(m), []string{"b: because", "a: because"})
	if _, ok := m.Take("a"); !ok {
		t.Error("a is not there")
	}
	if _, ok := m.Take("a"); ok {
		t.Error("a is there twice")
	}
	equal(t, "letters", letters(m), []string{"b: because"})
}

// letterFile is a LetterStore.
type letterFile map[string]delivery.Letter

func (f letterFile) PutLetter(l delivery.Letter) { f[l.ID] = l }
func (f letterFile) DeleteLetter(id string)      { delete(f, id) }

func (f letterFile) ids() string { return strings.Join(slices.Sorted(maps.Keys(f)), " ") }

func TestLetterBoxIsRecorded(t *testing.T) {
	f := letterFile{}
	m := NewLetterBox(LetterBoxOptions{MaxLetters: 3, Store: f})
	for i := range 5 {
		m.Add(letter(fmt.Sprint(i), 0))
	}
	equal(t, "records: those past the bounds are gone", f.ids(), "2 3 4")
	m.Add(letter("2", 0))
	m.Take("3")
	m.Take("3")
	m.Take("none")
	equal(t, "records", f.ids(), "2 4")
}

func TestLetterBoxRestore(t *testing.T) {
	f := letterFile{}
	all := []delivery.Letter{letter("1", 0), letter("2", 0), letter("3", 0)}
	for _, l := range all {
		f.PutLetter(l)
	}
	m := NewLetterBox(LetterBoxOptions{MaxLetters: 2, Store: f}) // fewer than before
	evicted := m.Restore(all)
	equal(t, "letters", letters(m), []string{"2: because", "3: because"})
	equal(t, "records", f.ids(), "2 3")
	equal(t, "evicted", len(evicted), 1)
	m.Add(letter("4", 0))
	equal(t, "letters", letters(m), []string{"3: because", "4: because"})
}

// Letters are in the order in which they died, as after a restart, although attempts that end
// together may add theirs in any order.
func TestLetterBoxOrder(t *testing.T) {
	b := NewLetterBox(LetterBoxOptions{})
	began := time.Unix(1_790_000_000, 0)
	for _, after := range []int{2, 1, 3, 1} {
		l := letter(fmt.Sprint(after, " ", len(b.List())), 1)
		l.Died = began.Add(time.Duration(after))
		if _, err := b.Add(l); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, l := range b.List() {
		got = append(got, l.ID)
	}
	equal(t, "letters", got, []string{"1 1", "1 3", "2 0", "3 2"})
}

// A handler rejects everything. The log has some of it, says how much it leaves out, and has room for
// another kind of failure.
func TestFloodOfLettersInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		const many = 2000
		to := &recorder{answer: func(_ context.Context, ev handler.Event) error {
			if ev.Name == "other" {
				return handler.Reject(errors.New("something else"))
			}
			return handler.Reject(fmt.Errorf("no such thing as %s", ev.Name))
		}}
		d := New(Recipient{Name: "h", Handler: to}, NewLetterBox(LetterBoxOptions{MaxLetters: 100}),
			Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l := d.Lane("r", handler.Resource{}, LaneOptions{MaxItems: many + 2})
		stop := start(t, d)
		for n := range many {
			l.Offer(added(fmt.Sprintf("pod-%d", n), fmt.Sprint("u", n), 1))
		}
		pass(time.Second)
		l.Offer(added("other", "other", 1))
		pass(time.Second)
		stop()
		if lines := strings.Count(log.String(), "became a dead letter"); lines > 2*maxLetters {
			t.Errorf("%d letters leave %d lines", many, lines)
		}
		if lines := strings.Count(log.String(), "\n"); lines > 3*maxLetters {
			t.Errorf("the log has %d lines", lines)
		}
		if !strings.Contains(log.String(), "something else") {
			t.Error("another kind of failure has no line")
		}
		if !strings.Contains(log.String(), fmt.Sprintf("unreported=%d", many-maxLetters)) {
			t.Errorf("the log does not say what it leaves out:\n%s", log.String())
		}
	})
}

// Failures whose reasons differ by a number or an address are of one kind. They take one line a minute,
// and leave room for another kind.
func TestKindsOfFailuresInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		to := &recorder{answer: func(_ context.Context, ev handler.Event) error {
			if ev.Name == "other" {
				return errors.New("something else")
			}
			return fmt.Errorf("dial 10.0.0.7:8080 for %s: refused", ev.Name)
		}}
		d := New(Recipient{Name: "h", Handler: to}, NewLetterBox(LetterBoxOptions{}),
			Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l := d.Lane("r", handler.Resource{}, LaneOptions{})
		stop := start(t, d)
		for n := range 10 * maxReasons {
			l.Offer(added(fmt.Sprintf("pod-%d", n), fmt.Sprint("u", n), 1))
		}
		pass(time.Second)
		l.Offer(added("other", "other", 1))
		pass(time.Second)
		stop()
		equal(t, "lines", strings.Count(log.String(), "delivery failed and will be repeated"), 2)
		equal(t, "lines about another kind", strings.Count(log.String(), `reason="something else"`), 1)
	})
}
