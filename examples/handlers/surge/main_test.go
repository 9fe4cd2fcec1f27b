package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest"
)

// TestMain lets the test binary be the handler, so that the tests need no build step.
func TestMain(m *testing.M) {
	if os.Getenv("SURGE_TEST_HANDLER") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// informd's own suite checks that surge is a handler as handlers should be.
func TestConformance(t *testing.T) {
	config, err := json.Marshal(map[string]any{"file": filepath.Join(t.TempDir(), "alerts"), "threshold": 2})
	if err != nil {
		t.Fatal(err)
	}
	handlertest.Run(t, handlertest.Options{
		Command:   []string{os.Args[0]},
		Env:       []string{"SURGE_TEST_HANDLER=1", "GORACE=atexit_sleep_ms=0"}, // the latter for go test -race: end at once
		Config:    config,
		BadConfig: json.RawMessage(`{"file":"alerts","treshold":2}`),
	})
}

func TestCounter(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		why   string
		steps []step
		want  []string // "when: objects, last"
	}{
		{
			"the third object within the window is one too many",
			[]step{{0, "a", true}, {1, "b", true}, {2, "c", true}},
			[]string{"2: 3, c"},
		},
		{
			"one object again and again is one object",
			[]step{{0, "a", true}, {1, "a", true}, {2, "a", true}},
			nil,
		},
		{
			"who recovered does not count",
			[]step{{0, "a", true}, {1, "a", false}, {2, "b", true}, {3, "c", true}},
			nil,
		},
		{
			"who was not heard of for longer than the window does not count",
			[]step{{0, "a", true}, {1, "b", true}, {12, "c", true}},
			nil,
		},
		{
			"further ones are quiet until the repeat",
			[]step{{0, "a", true}, {1, "b", true}, {2, "c", true}, {3, "d", true}, {61, "e", true}, {62, "f", true}, {63, "g", true}},
			[]string{"2: 3, c", "63: 3, g"},
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			counter := newCounter(3, 10*time.Minute, time.Hour)
			var got []string
			for i, s := range c.steps {
				now := start.Add(time.Duration(s.minute) * time.Minute)
				o := object{"failing", "shop", handler.Resource{Version: "v1", Resource: "pods"}, s.name}
				for range 2 { // each event comes twice, and counts once
					if a, raised := counter.see(o, fmt.Sprint(i), s.inTrouble, now); raised {
						got = append(got, fmt.Sprintf("%d: %d, %s", s.minute, a.Objects, a.Last))
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type step struct {
	minute    int
	name      string
	inTrouble bool
}

// An alert that could not be written is raised again by the repeat of its event.
func TestAlertNotWritten(t *testing.T) {
	file, err := os.Open(os.DevNull) // not for writing
	if err != nil {
		t.Fatal(err)
	}
	s := &surge{counter: newCounter(1, time.Hour, time.Hour), file: file}
	ev := handler.Event{ID: "1", Rule: "r", Event: handler.Added, Name: "a"}
	if _, err := s.Handle(t.Context(), ev); err == nil {
		t.Fatal("no error")
	}
	path := filepath.Join(t.TempDir(), "alerts")
	if s.file, err = os.Create(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Handle(t.Context(), ev); err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), `"rule":"r","objects":1,"last":"a"`) {
		t.Errorf("got %s, %v", b, err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct{ config, want string }{
		{`{"file":"x"}`, ""},
		{`{}`, "file: required: the path that alerts are appended to"},
		{`{"file":"","threshold":0,"window":"0s"}`, "file: required: the path that alerts are appended to\n" +
			"threshold: is 0; it must be at least 1\nwindow: must be longer than 0"},
		{`{"repeat":"-1s","threshold":"3","window":10}`, "threshold: must be a whole number, not a string\n" +
			`window: must be a duration such as "10s", not a number` + "\n" +
			"file: required: the path that alerts are appended to\nrepeat: must not be negative"},
		{`{"file":"x","windows":"10m"}`, `unknown field "windows", did you mean "window"? (known: file, repeat, threshold, window)`},
	} {
		_, err := handler.DecodeConfig(json.RawMessage(c.config), defaults)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %s", c.config, got)
		}
	}
}
