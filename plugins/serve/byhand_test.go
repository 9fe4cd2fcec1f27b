//go:build go1.25

package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/wire"
)

// tryOut is the handler that the test binary is when it is run by hand.
type tryOut struct{ config struct{ Greeting string } }

func (h *tryOut) Configure(_ context.Context, config json.RawMessage) error {
	if len(config) == 0 {
		return nil
	}
	if err := json.Unmarshal(config, &h.config); err != nil {
		return errors.Join(err, errors.New("and that is that"))
	}
	return nil
}

func (h *tryOut) Health(context.Context) error { return errors.New("a headache") }

func (h *tryOut) Drain(context.Context) error {
	_, err := fmt.Fprintln(os.Stderr, "drained")
	return err
}

func (h *tryOut) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	fmt.Println("printed for", ev.Name) // must not stand among the answers
	switch ev.Name {
	case "retry":
		return handler.Answer{}, handler.RetryAfter(time.Minute, errors.New("not now"))
	case "reject":
		return handler.Answer{}, handler.Reject(errors.New("never"))
	case "act":
		return handler.Answer{Actions: []handler.Action{{Verb: handler.ActionApply, Resource: ev.Resource, Name: "x", Object: ev.Object}}}, nil
	case "panic":
		_ = []int{}[ev.Attempt-1]
	case "wait":
		<-ctx.Done()
		return handler.Answer{}, ctx.Err()
	case "stuck":
		select {}
	}
	return handler.Answer{}, nil
}

// byHandProcess prepares a run of the test binary by hand, with these events on standard input.
func byHandProcess(t *testing.T, events string, env ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append([]string{"BY_HAND=1", "GORACE=atexit_sleep_ms=0", "INFORMD_EVENTS=-"}, env...)
	c.Stdin = strings.NewReader(events)
	return c
}

func runHand(t *testing.T, c *exec.Cmd) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	_ = c.Run()
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// seconds matches the durations, which differ from run to run.
var seconds = regexp.MustCompile(`,"seconds":[0-9.e-]+`)

func TestByHand(t *testing.T) {
	in := `{"id":"i1","rule":"r","event":"added","attempt":2,"resource":{"group":"apps","version":"v1","resource":"deployments"},"namespace":"shop","name":"web","object":{"n":9007199254740993}}
{"event":"updated","name":"retry"}{"event":"deleted",
  "name":"reject"}

{"event":"added","name":"act","resource":{"version":"v1","resource":"pods"},"object":{"n":9007199254740993}}
{"event":"added","name":"panic","namespace":"a"}
`
	status, out, log := runHand(t, byHandProcess(t, in, "INFORMD_CONFIG="+file(t, `{"greeting":"hi"}`)))
	want := map[string]bool{
		`{"line":1,"id":"i1","event":"added","object":"r apps/v1/deployments shop/web","result":"done"}`:                                                                                                                      true,
		`{"line":2,"id":"by-hand/2","event":"updated","object":"retry","result":"retry","reason":"not now","retryAfter":"1m0s"}`:                                                                                              true,
		`{"line":2,"id":"by-hand/3","event":"deleted","object":"reject","result":"reject","reason":"rejected: never"}`:                                                                                                        true,
		`{"line":5,"id":"by-hand/4","event":"added","object":"v1/pods act","result":"done","actions":[{"verb":"apply","resource":{"group":"","version":"v1","resource":"pods"},"name":"x","object":{"n":9007199254740993}}]}`: true,
		`{"line":6,"id":"by-hand/5","event":"added","object":"a/panic","result":"retry","reason":"panic: runtime error: index out of range [0] with length 0"}`:                                                               true,
	}
	got := map[string]bool{}
	for line := range strings.Lines(out) {
		got[seconds.ReplaceAllString(strings.TrimSpace(line), "")] = true
	}
	if diff := cmp.Diff(want, got); diff != "" || status != 1 {
		t.Errorf("status %d\n%s", status, diff)
	}
	for _, want := range []string{
		"level=INFO msg=described name=serve.test",
		`level=WARN msg="the handler reports a problem" problem="a headache"`,
		"printed for web\n",
		`level=ERROR msg=panic in=Handle value="runtime error: index out of range [0] with length 0" key=a/panic id=by-hand/5` + "\ngoroutine ",
		"drained\n",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is missing in:\n%s", want, log)
		}
	}
}

func TestByHandStatus(t *testing.T) {
	const event = `{"event":"added","name":"a"}`
	for _, c := range []struct {
		why, events string
		env         []string
		want        int
		says        string
	}{
		{"all done", event + event, nil, 0, ""},
		{"no events", "", nil, 0, ""},
		{"an event that is rejected", `{"event":"added","name":"reject"}`, nil, 1, ""},
		{"a call that ignores its end", `{"event":"added","name":"stuck"}`, []string{"INFORMD_TIMEOUT=10ms"}, 1, ""},
		{"a call that does not", `{"event":"added","name":"wait"}`, []string{"INFORMD_TIMEOUT=10ms"}, 1, ""},
		{"broken JSON", event + "\n\n{\"event\":\n\n  oops}", nil, 2, "standard input:5: invalid character 'o'"},
		{"an end too early", event + "\n{\"event\":", nil, 2, "standard input:2: unexpected EOF"},
		{"of another type", event + "\n\n{\"event\":\"added\",\n\"attempt\":\"one\"}", nil, 2, "standard input:4: json: cannot unmarshal string"},
		{"no object", "\n[]", nil, 2, "standard input:2: json: cannot unmarshal array"},
		{"no event", event + "\n" + `{"kind":"Pod","metadata":{"name":"a"}}`, nil, 2, "standard input:2: no event: it has no member"},
		{"no file", "", []string{"INFORMD_EVENTS=/no/such/file"}, 2, "events: open /no/such/file: no such file"},
		{"no config", event, []string{"INFORMD_CONFIG=/no/such/file"}, 2, "config: open /no/such/file: no such file"},
		{"a config that is not JSON", event, []string{"INFORMD_CONFIG=" + file(t, "{\n\ngreeting: hi}")}, 2, ":3: invalid character 'g'"},
		{"a refused config", event, []string{"INFORMD_CONFIG=" + file(t, `{"greeting":5}`)}, 2, `msg="config refused" problem="and that is that"`},
		{"no time limit", event, []string{"INFORMD_TIMEOUT=soon"}, 2, "INFORMD_TIMEOUT=soon: a time limit is written 30s or 1h"},
		{"no level", event, []string{"INFORMD_LOG_LEVEL=loud"}, 2, "INFORMD_LOG_LEVEL=loud: a level is debug, info, warn or error"},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			status, out, log := runHand(t, byHandProcess(t, c.events, c.env...))
			if status != c.want || !strings.Contains(log, c.says) {
				t.Errorf("status %d, want %d; %q in:\n%s%s", status, c.want, c.says, out, log)
			}
		})
	}
}

// An interrupt cancels running events, drains, and does not wait for more input. Events that were
// not read do not count as done.
func TestByHandInterrupt(t *testing.T) {
	t.Run("while an event is being handled", func(t *testing.T) {
		interruptByHand(t, `{"event":"added","name":"wait"} {"event":"added","name":"a"} `, `"object":"wait","result":"retry","reason":"context canceled"`)
	})
	t.Run("before the end of the events", func(t *testing.T) {
		interruptByHand(t, `{"event":"added","name":"a"} `, "")
	})
}

// interruptByHand interrupts a handler that has events, a among them and no end, once a is done;
// then follows one more answer if some is wanted.
func interruptByHand(t *testing.T, events, want string) {
	c := byHandProcess(t, "")
	c.Stdin = nil
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c.Stderr = &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill() }()
	if _, err := io.WriteString(stdin, events); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	says := func(want string) {
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("got %q, want …%s…", lines.Text(), want)
		}
	}
	says(`"object":"a","result":"done"`)
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if want != "" {
		says(want)
	}
	if lines.Scan() {
		t.Errorf("more: %s", lines.Text())
	}
	_ = c.Wait()
	if status := c.ProcessState.ExitCode(); status != 1 || !strings.Contains(log.String(), "drained") {
		t.Errorf("status %d, log:\n%s", status, log.String())
	}
}

// A run by hand keeps informd's rules: the described concurrency, one event at a time per object,
// in order, each with a time limit.
func TestBench(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most, last := map[string]bool{}, 0, map[string]int{}
		h := handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
			mu.Lock()
			if running[ev.Name] {
				t.Errorf("two of %s at once", ev.Name)
			}
			if ev.Attempt != last[ev.Name]+1 {
				t.Errorf("%s: %d after %d", ev.Name, ev.Attempt, last[ev.Name])
			}
			running[ev.Name], last[ev.Name] = true, ev.Attempt
			most = max(most, len(running))
			mu.Unlock()
			time.Sleep(time.Duration(len(ev.Name)) * time.Millisecond)
			mu.Lock()
			delete(running, ev.Name)
			mu.Unlock()
			return handler.Answer{}, nil
		})
		var in bytes.Buffer
		for n := 1; n <= 20; n++ {
			for object := range 7 {
				fmt.Fprintf(&in, `{"event":"added","name":%q,"attempt":%d}`, strings.Repeat("x", object+1), n)
			}
		}
		var out bytes.Buffer
		b := newBench(h, time.Minute, 3, &out)
		e := &events{}
		e.read(&in)
		if err := b.deliverAll(t.Context(), e); err != nil {
			t.Error(err)
		}
		if failed := b.wait(); failed || most != 3 || strings.Count(out.String(), `"result":"done"`) != 140 {
			t.Errorf("failed %v, at most %d at once:\n%s", failed, most, out.String())
		}
	})
}

// A call that does not return holds up its object's next event, but only so long, and no other
// object's.
func TestBenchStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := handler.Func(func(ctx context.Context, ev handler.Event) (handler.Answer, error) {
			switch ev.ID {
			case "stuck":
				<-release
			case "late":
				<-ctx.Done()
				time.Sleep(grace / 2)
			}
			return handler.Answer{}, nil
		})
		var out bytes.Buffer
		b := newBench(h, time.Minute, 1, &out)
		e := &events{}
		e.read(strings.NewReader(`{"id":"stuck","event":"added","name":"a"} {"id":"next","event":"added","name":"a"}
			{"id":"other","event":"added","name":"b"} {"id":"late","event":"added","name":"c"} {"id":"after","event":"added","name":"c"}`))
		if err := b.deliverAll(t.Context(), e); err != nil {
			t.Error(err)
		}
		if !b.wait() {
			t.Error("not failed")
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			var v wire.Verdict
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatal(err)
			}
			got = append(got, v.ID+": "+v.Result+" "+v.Reason)
		}
		want := []string{
			"stuck: retry no answer within the time limit of 1m0s",
			"next: retry the handler still has an earlier event of this object, past its time limit",
			"other: done ",
			"late: retry no answer within the time limit of 1m0s",
			"after: done ",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		close(release)
	})
}

// What a file has of different objects goes to HandleBatch, as if it had come together. An event of
// an object that the batch has, and one that comes later, begin the next one.
func TestBenchBatches(t *testing.T) {
	many := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf(`{"event":"added","name":"n%d"}`, i)
		}
		return text
	}
	panics := func([]handler.Event) []handler.Result { panic("ouch") }
	for _, c := range []struct {
		why         string
		events      []string // each a second after the last
		concurrency int
		handle      func([]handler.Event) []handler.Result // nil: all are done
		batches     []int
		alone       int
		verdicts    map[string]int // by result and batch
	}{
		{
			why: "together", events: []string{many(3)}, batches: []int{3},
			verdicts: map[string]int{"done 3": 3},
		},
		{
			why: "two of one object", events: []string{many(2) + many(3)}, batches: []int{2, 3},
			verdicts: map[string]int{"done 2": 2, "done 3": 3},
		},
		{
			why: "more than a message has", events: []string{many(33)}, batches: []int{32}, alone: 1,
			verdicts: map[string]int{"done 32": 32, "done 0": 1},
		},
		{
			why: "one after the other", events: []string{many(1), `{"event":"added","name":"x"}`}, alone: 2,
			verdicts: map[string]int{"done 0": 2},
		},
		{
			why: "it bears two", events: []string{many(5)}, concurrency: 2, batches: []int{2, 2}, alone: 1,
			verdicts: map[string]int{"done 2": 4, "done 0": 1},
		},
		{
			why: "it bears one", events: []string{many(2)}, concurrency: 1, alone: 2,
			verdicts: map[string]int{"done 0": 2},
		},
		{
			why: "a result each", events: []string{many(2)}, batches: []int{2},
			handle: func([]handler.Event) []handler.Result {
				return []handler.Result{{Err: handler.Reject(nil)}, {Answer: handler.Answer{Actions: []handler.Action{{Verb: handler.ActionDelete, Name: "x"}}}}}
			},
			verdicts: map[string]int{"reject 2": 1, "done 2 1 action": 1},
		},
		{
			why: "a panic", events: []string{many(3)}, batches: []int{3}, handle: panics, alone: 3,
			verdicts: map[string]int{"done 0": 3},
		},
		{
			why: "no end", events: []string{many(2) + many(2)}, batches: []int{2},
			handle:   func([]handler.Event) []handler.Result { time.Sleep(time.Hour); return nil },
			verdicts: map[string]int{"retry 2": 2, "retry 0": 2},
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				alone := 0
				h := &batched{batches: make(chan []string, 9)}
				h.Func = func(context.Context, handler.Event) (handler.Answer, error) {
					mu.Lock()
					defer mu.Unlock()
					alone++
					return handler.Answer{}, nil
				}
				h.handle = func(_ context.Context, events []handler.Event) []handler.Result {
					if c.handle != nil {
						return c.handle(events)
					}
					return make([]handler.Result, len(events))
				}
				r, w := io.Pipe()
				go func() {
					for _, text := range c.events {
						_, _ = io.WriteString(w, text)
						time.Sleep(time.Second)
					}
					_ = w.Close()
				}()
				var out bytes.Buffer
				b := newBench(h, time.Minute, c.concurrency, &out)
				e := &events{}
				e.read(r)
				if err := b.deliverAll(t.Context(), e); err != nil {
					t.Error(err)
				}
				b.wait()
				time.Sleep(2 * time.Hour) // the call without an end returns
				var batches []int
				for len(h.batches) > 0 {
					batches = append(batches, len(<-h.batches))
				}
				verdicts := map[string]int{}
				for line := range strings.Lines(out.String()) {
					var v wire.Verdict
					if err := json.Unmarshal([]byte(line), &v); err != nil {
						t.Fatal(err)
					}
					about := fmt.Sprint(v.Result, " ", v.Batch)
					if len(v.Actions) > 0 {
						about += " 1 action"
					}
					verdicts[about]++
				}
				if diff := cmp.Diff(c.batches, batches); diff != "" {
					t.Errorf("batches (-want +got)\n%s", diff)
				}
				if diff := cmp.Diff(c.verdicts, verdicts); diff != "" || alone != c.alone {
					t.Errorf("%d alone, want %d; verdicts (-want +got)\n%s%s", alone, c.alone, diff, out.String())
				}
			})
		})
	}
}
