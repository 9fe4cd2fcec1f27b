package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// inLines is a shell script that gets one event after the other.
func inLines(t *testing.T, text string, arguments ...string) *Handler {
	t.Helper()
	config, err := json.Marshal(map[string]any{"command": append([]string{"sh", "-c", text, "sh"}, arguments...), "lines": true})
	if err != nil {
		t.Fatal(err)
	}
	h := New()
	if err := h.Configure(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Drain(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func numbered(n int) handler.Event {
	ev := event
	ev.ID, ev.Name = fmt.Sprintf("id-%d", n), fmt.Sprintf("web-%d", n)
	return ev
}

// answering begins a script that notes its start in $1, and reads the id of each event into $id.
const answering = `echo start >> "$1"; while read -r line; do id=${line#*\"id\":\"}; id=${id%%\"*}; `

func starts(t *testing.T, path string) int {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(content), "start")
}

func notes(t *testing.T) string { return filepath.Join(t.TempDir(), "notes") }

// One process handles all events, one after the other, however many come at once.
func TestLines(t *testing.T) {
	note := notes(t)
	h := inLines(t, answering+`echo "$id" >> "$1"; echo "$id" >&2; echo; echo "{\"id\": \"$id\", \"actions\": [{\"verb\": \"delete\"}]}"; done`, note)
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			ev := numbered(n)
			a, err := h.Handle(t.Context(), ev)
			if err != nil || len(a.Actions) != 1 || a.Actions[0].Name != ev.Name {
				t.Errorf("%s: %v, %v", ev.ID, a, err)
			}
		})
	}
	all.Wait()
	if n := starts(t, note); n != 1 {
		t.Errorf("%d processes", n)
	}
	content, _ := os.ReadFile(note)
	if n := strings.Count(string(content), "id-"); n != 50 {
		t.Errorf("%d events", n)
	}
}

// Whatever goes wrong with one event, the next gets another process.
func TestLinesThatGoWrong(t *testing.T) {
	const fine = `echo "{\"id\": \"$id\"}"`
	for name, test := range map[string]struct {
		bad, want string // for id-1
		processes int
		reject    bool
	}{
		"no JSON":            {`echo hunter2`, "it begins with no JSON object", 2, false},
		"another's id":       {`echo '{"id": "id-0"}'`, "its id is not the event's", 2, false},
		"no id":              {`echo '{}'`, "it has no id; with lines", 2, false},
		"an unknown field":   {`echo "{\"id\": \"$id\", \"hunter2\": 1}"`, "unknown field", 2, false},
		"a reject":           {`echo "{\"id\": \"$id\", \"result\": \"reject\", \"reason\": \"no team\"}"`, "rejected: no team", 1, true},
		"an action like no":  {`echo "{\"id\": \"$id\", \"actions\": [{\"verb\": \"x\"}]}"`, "actions[0]: the verbs are", 1, true},
		"a crash":            {`exit 3`, "the command ended before it answered: exit status 3", 2, false},
		"an end":             {`exit 0`, "the command ended before it answered: exit status 0", 2, false},
		"a signal":           {`kill -KILL $$`, "the command ended before it answered: signal: killed", 2, false},
		"an endless line":    {`head -c 9000000 /dev/zero | tr '\0' x; sleep 60`, "a line of more than 8388608 bytes", 2, false},
		"an answer, then no": {fine + `; exit 3`, "", 2, false},
		"two answers":        {fine + "; " + fine + `; sleep 0.2`, "", 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			note := notes(t)
			h := inLines(t, answering+`case $id in id-1) `+test.bad+` ;; *) `+fine+` ;; esac; done`, note)
			for n := range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				_, err := h.Handle(ctx, numbered(n))
				cancel()
				switch {
				case n != 1 || test.want == "":
					// The second answer to an event may look like the first to the next, but for
					// its id.
					if err != nil && (name != "two answers" || !errors.Is(err, errNoAnswer)) && (name != "an answer, then no" || !errors.Is(err, errEnded)) {
						t.Errorf("event %d: %v", n, err)
					}
				case err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2\n"):
					t.Errorf("got %v, want %q", err, test.want)
				case errors.Is(err, handler.ErrReject) != test.reject:
					t.Errorf("a reject or not: %v", err)
				}
			}
			if _, err := h.Handle(t.Context(), numbered(3)); err != nil {
				t.Errorf("at last: %v", err)
			}
			if n := starts(t, note); n != test.processes {
				t.Errorf("%d processes, want %d", n, test.processes)
			}
		})
	}
}

// A process that hangs is ended at the event's time limit, with what it started. Events that wait
// for their turn until then are retried, and end nothing.
func TestLinesThatHang(t *testing.T) {
	note := notes(t)
	fifo, opened, closed := gone(t)
	h := inLines(t, answering+`if [ "$id" = id-1 ]; then sh -c 'exec 9>"$0"; exec sleep 1000' "$2"; fi; echo "{\"id\": \"$id\"}"; done`, note, fifo)
	if _, err := h.Handle(t.Context(), numbered(0)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hanging := make(chan error, 1)
	go func() {
		_, err := h.Handle(ctx, numbered(1))
		hanging <- err
	}()
	<-opened
	short, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	if _, err := h.Handle(short, numbered(2)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "at work on other events") {
		t.Errorf("in the queue: %v", err)
	}
	cancel()
	if err := <-hanging; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "did not answer, and was ended") {
		t.Errorf("got %v", err)
	}
	<-closed
	if _, err := h.Handle(t.Context(), numbered(3)); err != nil {
		t.Error(err)
	}
	if n := starts(t, note); n != 2 {
		t.Errorf("%d processes", n)
	}
}

// A process that does not read, or answers before it has, gets nothing of the next event.
func TestLinesThatAreNotRead(t *testing.T) {
	large := numbered(1)
	large.Object = json.RawMessage(`"` + strings.Repeat("x", 4<<20) + `"`)
	for name, test := range map[string]struct{ script, want string }{
		"never":          {`sleep 60`, "did not answer, and was ended"},
		"answered first": {`echo '{"id": "id-1"}'; sleep 60`, "before the command had read the event"},
	} {
		t.Run(name, func(t *testing.T) {
			h := inLines(t, test.script)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if name == "never" {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				defer cancel()
			}
			if _, err := h.Handle(ctx, large); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// Most languages buffer what they write to a pipe. Who forgets that gets a hint.
func TestLinesThatAreNotFlushed(t *testing.T) {
	note := notes(t)
	h := inLines(t, answering+`if [ -e "$1.answers" ]; then echo "{\"id\": \"$id\"}"; fi; done`, note)
	const hint = "does it flush its standard output"
	handle := func(n int) (log string) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		var buf bytes.Buffer
		ev := numbered(n)
		_, _ = h.lines.handle(ctx, &ev, []byte(`{"id":"`+ev.ID+`"}`+"\n"), slog.New(slog.NewTextHandler(&buf, nil)))
		return buf.String()
	}
	if log := handle(0); !strings.Contains(log, hint) {
		t.Errorf("got %q", log)
	}
	if err := os.WriteFile(note+".answers", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Handle(t.Context(), numbered(1)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(note + ".answers"); err != nil {
		t.Fatal(err)
	}
	if log := handle(2); strings.Contains(log, hint) { // it hangs for another reason
		t.Errorf("got %q", log)
	}
}

// An answer counts when its line ends. A script that forgets the newline gets a hint.
func TestLinesWithoutNewline(t *testing.T) {
	const answer = `printf '{"id": "%s"}' "$id"`
	for name, script := range map[string]string{
		"waits": answer + "; done",
		"ends":  answer + "; exit; done",
		"then":  `[ "$id" = id-0 ] && echo "{\"id\": \"$id\"}" && continue; ` + answer + "; done",
	} {
		t.Run(name, func(t *testing.T) {
			h := inLines(t, answering+script, notes(t))
			from := 0
			if name == "then" {
				if _, err := h.Handle(t.Context(), numbered(0)); err != nil {
					t.Fatal(err)
				}
				from++
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var log bytes.Buffer
			ev := numbered(from)
			_, err := h.lines.handle(ctx, &ev, []byte(`{"id":"`+ev.ID+`"}`+"\n"), slog.New(slog.NewTextHandler(&log, nil)))
			const hint = "end each answer with one"
			if err == nil || !strings.Contains(err.Error(), hint) || !strings.Contains(log.String(), hint) {
				t.Errorf("got %v, and the log %q", err, log.String())
			}
		})
	}
}

// Before informd lets go of the handler, the process sees the end of its input, and may finish.
func TestLinesAreDrained(t *testing.T) {
	note := notes(t)
	h := inLines(t, answering+`echo "{\"id\": \"$id\"}"; done; echo finished >> "$1"`, note)
	if _, err := h.Handle(t.Context(), numbered(0)); err != nil {
		t.Fatal(err)
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if content, _ := os.ReadFile(note); !strings.Contains(string(content), "finished") {
		t.Errorf("got %q", content)
	}
}
