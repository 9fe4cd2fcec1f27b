package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
)

// record is the part of the log builtin's file that the test has read.
type record struct {
	path    string
	offset  int64
	cut     []byte                     // the beginning of a line that is not complete yet
	events  map[string][]handler.Event // by uid, in the file's order, without repeats and without the objects
	byID    map[string]int             // the last attempt
	repeats int
	torn    int // lines that are no events: their writer was killed
	wrong   []string
}

func newRecord(path string) *record {
	return &record{path: path, events: make(map[string][]handler.Event), byID: make(map[string]int)}
}

// read reads what was added since the last time, and reports whether there was anything.
func (r *record) read() (grew bool, err error) {
	file, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // it is created with the first event
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	if _, err := file.Seek(r.offset, io.SeekStart); err != nil {
		return false, err
	}
	added, err := io.ReadAll(file)
	if err != nil {
		return false, err
	}
	r.offset += int64(len(added))
	text := append(r.cut, added...)
	for {
		line, rest, found := bytes.Cut(text, []byte("\n"))
		if !found {
			break
		}
		r.add(line)
		text = rest
	}
	r.cut = bytes.Clone(text)
	return len(added) > 0, nil
}

func (r *record) add(line []byte) {
	var ev handler.Event
	if json.Unmarshal(line, &ev) != nil {
		r.torn++
		return
	}
	attempt, repeated := r.byID[ev.ID]
	r.byID[ev.ID] = ev.Attempt
	if repeated {
		r.repeats++
		if ev.Attempt <= attempt {
			r.wrong = append(r.wrong, ev.ID+": attempt "+strconv.Itoa(ev.Attempt)+" after "+strconv.Itoa(attempt))
		}
		return
	}
	if ev.Event != "deleted" && len(ev.Object) == 0 || (ev.Event == "updated") != (len(ev.Old) > 0) {
		r.wrong = append(r.wrong, ev.ID+": lacks its object or its old one, or has one too many")
	}
	ev.Object, ev.Old = nil, nil
	r.events[ev.UID] = append(r.events[ev.UID], ev)
}

func (r *record) last(o *written) handler.Event {
	events := r.events[o.uid]
	if len(events) == 0 {
		return handler.Event{}
	}
	return events[len(events)-1]
}

// isFinal reports whether the record has the final state of an object.
func (r *record) isFinal(o *written) bool {
	last := r.last(o)
	if o.deleted {
		return last.Event == "deleted"
	}
	return last.ResourceVersion == o.changed
}

// wantWhole checks that the record has every change of an object once and in order.
func (r *record) wantWhole(t *testing.T, o *written) {
	t.Helper()
	type change struct{ Event, ResourceVersion string }
	want := []change{{"added", o.created}, {"updated", o.changed}}
	if o.deleted {
		want = append(want, change{"deleted", r.last(o).ResourceVersion}) // which the server tells nobody else
	}
	var got []change
	for _, ev := range r.events[o.uid] {
		got = append(got, change{ev.Event, ev.ResourceVersion})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", o.name, diff)
	}
	r.wantOrdered(t, o)
}

// wantOrdered checks that the record of an object is in order and ends with the final state. It
// returns how many of the object's changes are missing.
func (r *record) wantOrdered(t *testing.T, o *written) (missing int) {
	t.Helper()
	for _, wrong := range r.wrong {
		t.Error(wrong)
	}
	r.wrong = nil
	events := r.events[o.uid]
	version := 0
	for i, ev := range events {
		v, err := strconv.Atoi(ev.ResourceVersion)
		if err != nil {
			t.Fatalf("%s: resource version %q: %v", o.name, ev.ResourceVersion, err)
		}
		// A deletion that informd missed comes with the last known state, which is no newer than
		// what came before.
		if v < version || v == version && ev.Event != "deleted" {
			t.Errorf("%s: %s %s came after %d", o.name, ev.Event, ev.ResourceVersion, version)
		}
		version = v
		if first := i == 0; first != (ev.Event == "added") {
			t.Errorf("%s: event %d is %s %s", o.name, i+1, ev.Event, ev.ResourceVersion)
		}
		if last := i == len(events)-1; ev.Event == "deleted" && !last {
			t.Errorf("%s: %s came after it was deleted", o.name, events[i+1].Event)
		}
	}
	if !r.isFinal(o) {
		last := r.last(o)
		t.Errorf("%s: the last of it is %s %s, want deleted %v, version %s", o.name, last.Event, last.ResourceVersion, o.deleted, o.changed)
	}
	total := 2
	if o.deleted {
		total++
	}
	return total - len(events)
}
