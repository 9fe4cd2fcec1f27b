package dispatch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
)

// shelf is a lane's store and a Journal. It writes when a test says so, and checks how it is
// called.
type shelf struct {
	t testing.TB

	mu        sync.Mutex
	open      int            // changes that are being recorded
	ended     *sync.Cond     // a change was recorded; its lock is mu
	recording map[string]int // by which goroutines
	unwritten map[uint64]*filed
	written   map[uint64]*filed
	noRoom    bool
	failing   bool
	dead      bool          // the process that used it was killed
	writes    bool          // it writes everything before each read
	slow      time.Duration // time that a load takes
	loads     int
	awaits    func(ctx context.Context, cut uint64) error

	at, writtenAt int // how far a watch has come, and how much of that is written
}

type filed struct {
	key delta.Key
	record
}

func newShelf(t testing.TB) *shelf {
	s := &shelf{
		t: t, recording: map[string]int{},
		unwritten: map[uint64]*filed{}, written: map[uint64]*filed{},
	}
	s.ended = sync.NewCond(&s.mu)
	return s
}

func (s *shelf) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	s.recording[goroutine()]++
}

func (s *shelf) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.recording[goroutine()]--
	s.ended.Broadcast()
}

// isRecording reports whether the calling goroutine is recording a change. Others may do so.
func (s *shelf) isRecording() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recording[goroutine()] > 0
}

// goroutine returns a text that distinguishes the calling goroutine from others.
func goroutine() string {
	stack := make([]byte, 64)
	name, _, _ := strings.Cut(string(stack[:runtime.Stack(stack, false)]), "[")
	return name
}

// Written writes everything, once no change is being recorded. It does not sleep for that: for
// synctest.Wait, a goroutine that sleeps has come to rest.
func (s *shelf) Written(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.open > 0 && !s.dead && !s.failing {
		s.ended.Wait()
	}
	if s.dead || s.failing {
		return errors.New("input/output error")
	}
	s.writeLocked()
	return nil
}

// Await calls the test's hook, if it has one.
func (s *shelf) Await(ctx context.Context, cut uint64) error {
	if s.isRecording() {
		s.t.Error("Await is called within a change")
	}
	if s.awaits == nil {
		return nil
	}
	return s.awaits(ctx, cut)
}

// change adds or deletes a record, within Begin and End.
func (s *shelf) change(n uint64, f *filed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return
	}
	if s.open == 0 {
		s.t.Errorf("record %d changes outside of Begin and End", n)
	}
	s.unwritten[n] = f
}

func (s *shelf) Put(n uint64, key delta.Key, r record) (cut uint64) {
	s.change(n, &filed{key, asWritten(r)})
	return n
}

func (s *shelf) Delete(n uint64, _ delta.Key) { s.change(n, nil) }

// asWritten returns what a disk keeps of a record.
func asWritten(r record) record {
	v := &r.Value
	v.Answer = delivery.Recorded(v.Answer.Record())
	v.Version, v.Writes, v.Refusals, v.Weighed, v.Resync = "", 0, 0, false, 0
	return r
}

func (s *shelf) Room(int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.noRoom
}

func (s *shelf) Load(key delta.Key, after uint64, maxItems int, _ int64) (out []queue.Numbered[delivery.Delivery], _ error) {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	time.Sleep(slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	if s.failing {
		return nil, errors.New("input/output error")
	}
	if s.writes && s.open == 0 {
		s.writeLocked()
	}
	for _, n := range slices.SortedFunc(maps.Keys(s.written), cmp.Compare[uint64]) {
		if f := s.written[n]; f.key == key && n > after && len(out) < maxItems {
			out = append(out, queue.Numbered[delivery.Delivery]{N: n, Record: f.record})
		}
	}
	return out, nil
}

// write writes everything if no change is being recorded, and reports whether it did.
func (s *shelf) write() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open > 0 {
		return false
	}
	s.writeLocked()
	return true
}

func (s *shelf) writeLocked() {
	s.writtenAt = s.at
	maps.Copy(s.written, s.unwritten)
	maps.DeleteFunc(s.written, func(_ uint64, f *filed) bool { return f == nil })
	clear(s.unwritten)
}

// all returns everything that is recorded, in order, written or not.
func (s *shelf) all() (out []record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.written)
	maps.Copy(all, s.unwritten)
	for _, n := range slices.SortedFunc(maps.Keys(all), cmp.Compare[uint64]) {
		if all[n] != nil {
			out = append(out, all[n].record)
		}
	}
	return out
}

// ids returns the ids of the records.
func (s *shelf) ids() (ids []string) {
	for _, w := range s.all() {
		ids = append(ids, w.Value.Delta.ID("r"))
	}
	return ids
}

// kill ends the process that uses s, and returns what the next one finds.
func (s *shelf) kill() *shelf {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	next := newShelf(s.t)
	next.written, next.at, next.writtenAt = maps.Clone(s.written), s.writtenAt, s.writtenAt
	return next
}

// restore restores a new lane from s.
func (s *shelf) restore(l *Lane) {
	type span struct {
		count       int
		first, last uint64
	}
	keys := map[delta.Key]span{}
	for _, n := range slices.SortedFunc(maps.Keys(s.written), cmp.Compare[uint64]) {
		key := s.written[n].key
		r := keys[key]
		r.count, r.last = r.count+1, n
		r.first = cmp.Or(r.first, n)
		keys[key] = r
	}
	for key, r := range keys {
		l.Restore(key, r.count, r.first, r.last, int64(r.count)*1000)
	}
}

// offer offers matches as a source does.
func (s *shelf) offer(l *Lane, matches ...rule.Match) {
	for _, m := range matches {
		s.Begin()
		l.Offer(m)
		s.End()
	}
}
