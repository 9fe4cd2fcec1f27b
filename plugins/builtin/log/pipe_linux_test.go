package log

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// toPipe returns log handlers that write to one pipe, and the pipe's other end.
func toPipe(t *testing.T, n int) (handlers []*Handler, r *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	fd := int(w.Fd())
	for range n {
		h := inherit(t, fd)
		if h.out.pipe == nil {
			t.Fatal("the pipe has no lock")
		}
		handlers = append(handlers, h)
	}
	_ = w.Close()
	return handlers, r
}

// What is in the pipe already may leave no room, so lines go as they would without a lock.
func TestRoomInAPipe(t *testing.T) {
	handlers, r := toPipe(t, 1)
	out := handlers[0].out
	if n := out.room(); n <= together {
		t.Errorf("room for %d bytes in an empty pipe", n)
	}
	handle(t, handlers[0], "a")
	if n := out.room(); n != together {
		t.Errorf("room for %d bytes, want %d", n, together)
	}
	if _, err := r.Read(make([]byte, 64<<10)); err != nil {
		t.Fatal(err)
	}
	if n := out.room(); n <= together {
		t.Errorf("room for %d bytes once it was read", n)
	}
}

// Lines do not mix, however long they are, and however slowly they are read.
func TestHandlersTakeTurnsInAPipe(t *testing.T) {
	handlers, r := toPipe(t, 4)
	const batches, each = 5, 4
	var writing sync.WaitGroup
	for i, h := range handlers {
		writing.Go(func() {
			for n := range batches {
				var events []handler.Event
				for k := range each {
					name := fmt.Sprintf("%d-%d-%d-", i, n, k)
					events = append(events, event(name+strings.Repeat(fmt.Sprint(i), 30<<10)))
				}
				for _, result := range h.HandleBatch(t.Context(), events) {
					if result.Err != nil {
						t.Error(result.Err)
					}
				}
			}
			_ = h.Drain(t.Context())
		})
	}
	lines := bufio.NewScanner(slowly{r})
	lines.Buffer(nil, 1<<20)
	count, mixed := 0, 0
	for lines.Scan() {
		count++
		_, rest, ok := strings.Cut(lines.Text(), `"name":"`)
		name, _, _ := strings.Cut(rest, `"`)
		by, _, _ := strings.Cut(name, "-")
		if !ok || lines.Text()+"\n" != line(name) || strings.Trim(name[strings.LastIndexByte(name, '-')+1:], by) != "" {
			mixed++
		}
	}
	_ = r.Close() // nobody waits for a reader if the loop has failed
	writing.Wait()
	if want := len(handlers) * batches * each; count != want || mixed > 0 {
		t.Errorf("%d lines, of which %d have parts of others, want %d", count, mixed, want)
	}
}

// slowly leaves writers waiting.
type slowly struct{ r *os.File }

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return s.r.Read(p[:min(len(p), 8<<10)])
}
