//go:build linux

package host_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/internal/procfs"
	"github.com/informd/informd/plugins/host"
)

// rogue is a handler that does harm, on purpose or not.
type rogue struct {
	does  string // for people
	mode  string // what the test binary is then
	needs func(t *testing.T)
	spec  func(t *testing.T, s *host.Spec)    // may be nil
	opts  func(t *testing.T, o *host.Options) // likewise
	acts  func(t *testing.T, s *scene)        // returns when the rogue has done its worst
	after func(t *testing.T, s *scene)        // may be nil; nothing of the rogue should be left
}

// scene is a rogue at work.
type scene struct {
	host    *host.Host
	log     *recorder
	opts    host.Options
	results *results
}

// TestGallery shows that whatever one handler does, the daemon and the other handlers continue as
// if it did not exist. The test is the daemon. A neighbour takes a steady stream of events all the
// time. Each rogue is a real process. Nothing of it may remain when it is gone: no unanswered
// event, no goroutine, descriptor, process or file, and no significant memory.
func TestGallery(t *testing.T) {
	n := newNeighbour(t)
	for _, r := range slices.Concat(rogues(), confinedRogues(), cacheRogues()) {
		t.Run(r.does, func(t *testing.T) {
			if r.needs != nil {
				r.needs(t)
			}
			perform(t, n, r)
		})
	}
}

func perform(t *testing.T, n *neighbour, r rogue) {
	s := &scene{log: &recorder{}, results: &results{}}
	s.opts = host.Options{
		Logger: s.log.logger(), RunDir: publicDir(t), TempDir: publicDir(t),
		StartTimeout: 20 * time.Second, DescribeTimeout: 10 * time.Second, ConfigureTimeout: 10 * time.Second,
		HealthInterval: 100 * time.Millisecond, HealthTimeout: 5 * time.Second,
		DrainTimeout: 200 * time.Millisecond, StopTimeout: 400 * time.Millisecond,
		Backoff: host.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond},
	}
	if r.opts != nil {
		r.opts(t, &s.opts)
	}
	spec := spec(r.mode)
	spec.Name, spec.Timeout = "rogue", 5*time.Second
	mark := "ROGUE=" + strconv.Itoa(os.Getpid()) + "/" + t.Name() // finds its children, wherever they flee
	spec.Env = append(spec.Env, mark)
	if r.spec != nil {
		r.spec(t, &spec)
	}

	before := takeStock()
	stream := n.traffic(t)
	s.host = host.New(spec, s.opts)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.host.Run(ctx) }()
	customers := s.results.submit(ctx, s.host)
	func() {
		defer func() { // also when the rogue does not act as it should, which ends the test
			cancel()
			select {
			case <-ended:
			case <-time.After(30 * time.Second):
				t.Error("the host does not end")
			}
			customers.Wait() // every event has an outcome, or this never returns
			stream.end(t)
		}()
		r.acts(t, s)
	}()

	before.checkNow(t, mark)
	for _, dir := range []string{s.opts.RunDir, s.opts.TempDir} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
	if r.after != nil {
		r.after(t, s)
	}
}

// results are the outcomes of a rogue's events.
type results struct {
	mu   sync.Mutex
	done int
	errs map[string]int // by their texts
}

// submit keeps a few events with a handler until ctx ends; the group ends when each has its
// outcome.
func (r *results) submit(ctx context.Context, h *host.Host) *sync.WaitGroup {
	var customers sync.WaitGroup
	for customer := range 6 {
		customers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, err := h.Handle(ctx, pod(fmt.Sprintf("done-%d-%d", customer, n)))
				r.note(err)
				time.Sleep(2 * time.Millisecond) // the processor is for the rogue
			}
		})
	}
	return &customers
}

func (r *results) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.errs == nil {
		r.errs = map[string]int{}
	}
	if err == nil {
		r.done++
		return
	}
	if text := err.Error(); len(r.errs) < 1000 {
		r.errs[text]++
	}
}

// answered returns how many events were done.
func (r *results) answered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// said reports whether an event ended with an error that contains this text.
func (r *results) said(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for err := range r.errs {
		if strings.Contains(err, text) {
			return true
		}
	}
	return false
}

// neighbour is a handler that does what it should.
type neighbour struct {
	host  *host.Host
	alone time.Duration // the longest that an event took while nobody else was there
}

func newNeighbour(t *testing.T) *neighbour {
	t.Helper()
	s := spec("echo")
	s.Name = "neighbour"
	n := &neighbour{host: start(t, s, host.Options{})}
	ready(t, n.host)
	st := n.traffic(t)
	waitFor(t, "200 events of the neighbour alone", func() bool { return st.answered() >= 200 })
	n.alone = st.end(t)
	return n
}

// traffic is a steady stream of events to the neighbour.
type traffic struct {
	*neighbour
	cancel  context.CancelFunc
	working sync.WaitGroup
	results
	longest time.Duration
}

func (n *neighbour) traffic(t *testing.T) *traffic {
	ctx, cancel := context.WithCancel(t.Context())
	st := &traffic{neighbour: n, cancel: cancel}
	for customer := range 4 {
		st.working.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				began := time.Now()
				_, err := n.host.Handle(context.WithoutCancel(ctx), pod(fmt.Sprintf("done-%d-%d", customer, i)))
				st.note(err)
				st.mu.Lock()
				st.longest = max(st.longest, time.Since(began))
				st.mu.Unlock()
				<-pace.C
			}
		})
	}
	return st
}

// end ends the stream, and checks that no event was lost or delayed.
func (st *traffic) end(t *testing.T) (longest time.Duration) {
	t.Helper()
	st.cancel()
	st.working.Wait()
	if len(st.errs) > 0 || st.done == 0 {
		t.Errorf("the neighbour: %d events done, and errors: %v", st.done, st.errs)
	}
	if s := st.host.Status(); s.Restarts > 0 || s.State != host.Running {
		t.Errorf("the neighbour: %+v", s)
	}
	if limit := max(5*time.Second, 50*st.alone); st.longest > limit {
		t.Errorf("an event of the neighbour took %v; alone, at most %v", st.longest, st.alone)
	}
	return st.longest
}

// stock is what the daemon holds: goroutines, descriptors, processes, memory.
type stock struct {
	goroutines int
	files      []string // what its descriptors are of
	children   []int    // its descendants
	heap       uint64   // bytes in use, garbage apart
}

// takeStock counts what the daemon holds, once it has settled.
func takeStock() stock {
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := stock{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc, children: descendants(os.Getpid())}
	links, _ := os.ReadDir("/proc/self/fd")
	for _, link := range links {
		if to, err := os.Readlink("/proc/self/fd/" + link.Name()); err == nil {
			s.files = append(s.files, to)
		}
	}
	return s
}

// heapRoom is how much the heap may grow: caches and pools vary.
const heapRoom = 8 << 20

// checkNow checks that within a few seconds everything is as before, and that no process has the
// mark.
func (before stock) checkNow(t *testing.T, mark string) {
	t.Helper()
	var wrong []string
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now := takeStock()
		wrong = nil
		if now.goroutines > before.goroutines {
			wrong = append(wrong, fmt.Sprintf("%d goroutines, before %d:\n%s", now.goroutines, before.goroutines, stacks()))
		}
		if len(now.files) > len(before.files) {
			wrong = append(wrong, fmt.Sprintf("open files: %q, before: %q", now.files, before.files))
		}
		if now.heap > before.heap+heapRoom {
			wrong = append(wrong, fmt.Sprintf("%d KiB of memory, before %d", now.heap>>10, before.heap>>10))
		}
		if !slices.Equal(now.children, before.children) {
			wrong = append(wrong, fmt.Sprintf("processes: %v, before: %v", named(now.children), named(before.children)))
		}
		if left := marked(mark); len(left) > 0 {
			wrong = append(wrong, fmt.Sprintf("the rogue's processes: %v", named(left)))
		}
		if len(wrong) == 0 {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for _, text := range wrong {
		t.Errorf("afterwards: %s", text)
	}
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}

// descendants returns the descendants of a process, including zombies, in ascending order.
func descendants(of int) []int {
	all := pids(procfs.Below(of))
	slices.Sort(all)
	return all
}

// parentOf returns a process's parent, or 0 if there is no such process.
func parentOf(pid int) int {
	p, _ := procfs.Read(pid)
	return p.Parent
}

// marked returns the processes whose environment contains a variable.
func marked(variable string) []int {
	var out []int
	for _, pid := range processes() {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if slices.Contains(strings.Split(string(env), "\x00"), variable) {
			out = append(out, pid)
		}
	}
	return out
}

func processes() []int { return pids(procfs.All()) }

func pids(all []procfs.Process) (pids []int) {
	for _, p := range all {
		pids = append(pids, p.PID)
	}
	return pids
}

func named(pids []int) []string {
	var out []string
	for _, pid := range pids {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		out = append(out, fmt.Sprintf("%d %s %s", pid, strings.TrimSpace(string(comm)), state(pid)))
	}
	return out
}
