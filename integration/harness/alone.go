package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// Hanging is a handler that appends a line to a ledger when it is done with an event: the object's
// name and version. Until the file "go" is in its folder, it hangs with objects whose names end in
// "hangs".
type Hanging struct {
	dir    string
	ledger *os.File
	mu     sync.Mutex
	busy   map[string]bool // objects with an event; guarded by mu
}

// NewHanging returns a Hanging whose files are in dir.
func NewHanging(dir string) (*Hanging, error) {
	ledger, err := os.OpenFile(filepath.Join(dir, "ledger"),
		os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	return &Hanging{dir: dir, ledger: ledger, busy: make(map[string]bool)}, err
}

// Handle implements handler.Handler.
func (h *Hanging) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	h.mu.Lock()
	overlaps := h.busy[ev.Name]
	h.busy[ev.Name] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.busy, ev.Name)
	}()
	if overlaps {
		_, err := fmt.Fprintf(h.ledger, "%s overlaps\n", ev.Name)
		return handler.Answer{}, err
	}
	for strings.HasSuffix(ev.Name, "hangs") {
		if _, err := os.Stat(filepath.Join(h.dir, "go")); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return handler.Answer{}, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	_, err := fmt.Fprintf(h.ledger, "%s %s\n", ev.Name, ev.ResourceVersion)
	return handler.Answer{}, err
}

// AloneObjects is how many objects WantAlone makes.
const AloneObjects = 1000

// WantAlone runs informd with a handler that is a Hanging, or behaves as one, with its files in
// dir. It makes 1000 objects, of which the handler hangs with some, and changes all of them. The
// handler must be done with all others twice before it goes on with the first that hangs, and with
// all of them in the end, in order for each object. The time limit is so long that nobody waits for
// it; all else is default.
func WantAlone(t *testing.T, dir, spec string, hung int) {
	t.Helper()
	stub, kubeconfig := NewStub(t)
	name := func(i int) string {
		// Half of those that hang come first, one after the other. The rest is among the others.
		every := 2 * AloneObjects / hung
		if i < hung/2 || i >= AloneObjects/2 && i%(every/2) == 0 {
			return fmt.Sprintf("o-%03d-hangs", i)
		}
		return fmt.Sprintf("o-%03d", i)
	}
	names := make([]string, AloneObjects)
	hangs := 0
	for i := range names {
		if names[i] = name(i); strings.HasSuffix(names[i], "hangs") {
			hangs++
		}
	}
	if hangs != hung {
		t.Fatalf("%d names say that they hang, want %d", hangs, hung)
	}
	change := func() { // all at once
		stub.Load(ConfigMapResource, AloneObjects, func(i int) any {
			return fmt.Sprintf(`{"metadata":{"name":%q},"data":{"at":"%d"}}`, names[i], time.Now().UnixNano())
		})
	}
	change()
	d := RunInformd(t, kubeconfig, Source("objects", "resource: v1/configmaps")+
		Handler("hanging", spec+", timeout: 10m")+Rule("all", "source: objects, handler: hanging"))
	d.AwaitReady()
	good := func() (objects, events int, hung []string) {
		seen := make(map[string]bool)
		for _, line := range LinesOf(t, dir, "ledger") {
			name, _, _ := strings.Cut(line, " ")
			if strings.HasSuffix(name, "hangs") {
				hung = append(hung, line)
				continue
			}
			seen[name] = true
			events++
		}
		return len(seen), events, hung
	}
	most := 0
	for round := range 2 {
		d.Poll(fmt.Sprintf("round %d of the others", round), func() bool {
			inFlight, _ := strconv.Atoi(d.Metric(`informd_handler_in_flight{handler="hanging"}`))
			most = max(most, inFlight)
			objects, events, hung := good()
			if len(hung) > 0 {
				t.Fatalf("%q is done before the others: %d are", hung[0], objects)
			}
			return objects == AloneObjects-hangs && events == (round+1)*objects
		})
		if round == 0 {
			change()
		}
	}
	if most > 136 {
		t.Errorf("%d events were in flight at once, want at most 8 + 128", most)
	}
	Touch(t, dir, "go")
	d.Poll("those that hang", func() bool {
		return d.Waiting("all") == 0 && d.Metric(`informd_handler_in_flight{handler="hanging"}`) == "0"
	})
	versions := make(map[string][]int)
	for _, line := range LinesOf(t, dir, "ledger") {
		name, text, _ := strings.Cut(line, " ")
		version, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("the ledger has %q", line)
		}
		versions[name] = append(versions[name], version)
	}
	for _, name := range names {
		told := versions[name]
		if len(told) == 0 || !slices.IsSorted(told) {
			t.Errorf("%s was told in the order %v", name, told)
		}
	}
	d.Stop()
}
