package dispatch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/plugins/handler"
)

// The environment variables that configure the child process.
const (
	killedDir    = "DISPATCH_TEST_DIR"
	killedSecret = "DISPATCH_TEST_SECRET"
)

// onStore runs a dispatcher with one lane over the store in dir. stop ends both. On a slow disk, a
// store before it releases the directory some time after it was stopped.
func onStore(dir string, h handler.Handler, a Actor, o LaneOptions) (s *state.Store, l *Lane, stop func(), err error) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if s, err = state.Open(dir, state.Options{}); err == nil {
			break
		}
		if _, locked := errors.AsType[*state.LockedError](err); !locked || time.Now().After(deadline) {
			return nil, nil, nil, err
		}
	}
	lane := s.Lane("r", state.LaneOptions{})
	keys, err := lane.Keys()
	if err != nil {
		return nil, nil, nil, err
	}
	o.Store = lane
	d := New(Recipient{Handler: h}, NewLetterBox(LetterBoxOptions{}), Options{Journal: s, Actor: a})
	l = d.Lane("r", pods, o)
	for _, k := range keys {
		l.Restore(k.Key, k.N, k.First, k.Last, k.Bytes)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var dispatching, writing sync.WaitGroup
	dispatching.Go(func() { _ = d.Run(ctx) })
	storeCtx, closeStore := context.WithCancel(context.Background())
	writing.Go(func() { _ = s.Run(storeCtx) })
	return s, l, func() {
		cancel()
		dispatching.Wait()
		l.Close()
		closeStore()
		writing.Wait()
	}, nil
}

const hunted = "hunter2-hunter2"

// hunting is an answer with a text that must not be on disk if it may be a secret's.
func hunting(ev handler.Event) handler.Answer {
	actions := patch(ev)
	actions[0].Patch = json.RawMessage(`{"data":{"password":"` + hunted + `"}}`)
	return handler.Answer{Actions: actions}
}

// actUntilKilled is a process that reports when it begins to act, and never finishes.
func actUntilKilled(dir string, secret bool) int {
	asked := handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) { return hunting(ev), nil })
	acts := &actor{do: func(ctx context.Context, ev *handler.Event, actions []handler.Action) error {
		fmt.Println("acts", ev.ID, string(actions[0].Patch))
		<-ctx.Done()
		return ctx.Err()
	}}
	s, l, _, err := onStore(dir, asked, acts, preparer{secret: func() bool { return secret }}.lane(LaneOptions{}))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for n := range 5 {
		s.Begin()
		l.Offer(added(fmt.Sprint("web", n), fmt.Sprint("u", n), n+1))
		s.End()
	}
	time.Sleep(time.Hour)
	return 1
}

// A process that is killed while it acts has all of its actions on disk. The next process performs
// them without asking anybody. If the actions may hold a secret, nothing of them is on disk, and
// the next process asks the handler.
func TestKilledWhileActing(t *testing.T) {
	for _, secret := range []bool{false, true} {
		t.Run(fmt.Sprint("secret ", secret), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), killedDir+"="+dir)
			if secret {
				child.Env = append(child.Env, killedSecret+"=yes")
			}
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for n := range 5 {
				if !lines.Scan() || !strings.HasPrefix(lines.Text(), "acts") {
					t.Fatalf("line %d is %q", n, lines.Text())
				}
			}
			if secret {
				// whatever is to be written is written by then
				time.Sleep(2 * state.DefaultFlushEvery)
			}
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = child.Wait() // it was killed

			if found := grep(t, dir, hunted); found == secret {
				t.Errorf("the answer is on disk: %v", found)
			}
			var h recorder
			var mu sync.Mutex
			acted := map[string]int{}
			asked := handler.Func(func(ctx context.Context, ev handler.Event) (handler.Answer, error) {
				_, err := h.Handle(ctx, ev)
				return hunting(ev), err
			})
			acts := &actor{do: func(_ context.Context, ev *handler.Event, actions []handler.Action) error {
				mu.Lock()
				defer mu.Unlock()
				acted[fmt.Sprint(ev.ID, string(actions[0].Patch))]++
				if ev.Attempt == 2 {
					return handler.RetryAfter(time.Millisecond, errors.New("the API server is away"))
				}
				return nil
			}}
			_, l, stop, err := onStore(dir, asked, acts, preparer{secret: func() bool { return secret }}.lane(LaneOptions{}))
			if err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
				if stats := l.Stats(); stats.Waiting+stats.Away+stats.InFlight == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("deliveries still wait or fly: %+v", l.Stats())
				}
			}
			stop()
			want, times := map[string]int{}, 2
			if secret {
				equal(t, "asked", len(h.ids()), 5)
				times = 1
			} else {
				equal(t, "asked", h.ids(), nil)
			}
			for n := range 5 {
				want[fmt.Sprintf("r/u%d/added/%d", n, n+1)+string(hunting(handler.Event{}).Actions[0].Patch)] = times
			}
			equal(t, "acted", acted, want)

			_, l, stop, err = onStore(dir, asked, acts, LaneOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if stats := l.Stats(); stats.Away > 0 {
				t.Errorf("%d deliveries are left in the store", stats.Away)
			}
			stop()
		})
	}
}

// grep reports whether any file in dir holds a text.
func grep(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || strings.Contains(string(content), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
