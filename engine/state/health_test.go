package state

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// stuckLog is a log whose reader has stopped reading, until it is closed.
type stuckLog struct{ entered, closed chan struct{} }

func (stuckLog) Enabled(context.Context, slog.Level) bool { return true }
func (s stuckLog) WithAttrs([]slog.Attr) slog.Handler     { return s }
func (s stuckLog) WithGroup(string) slog.Handler          { return s }

func (s stuckLog) Handle(context.Context, slog.Record) error {
	s.entered <- struct{}{}
	<-s.closed
	return nil
}

// A lane asks for room within a change, with its queue locked. So it must not wait for the log.
func TestTroubleThatIsBeingLoggedHoldsUpNobody(t *testing.T) {
	log := stuckLog{make(chan struct{}, 2), make(chan struct{})}
	h := &health{logger: slog.New(log)}
	now := time.Now()
	for _, trouble := range []string{"no space left", ""} {
		logged := make(chan struct{})
		go func() {
			h.is(trouble, now)
			close(logged)
		}()
		<-log.entered
		asked := make(chan bool)
		go func() { asked <- h.isWell() }()
		select {
		case well := <-asked:
			if well != (trouble == "") {
				t.Errorf("with the trouble %q it is well: %v", trouble, well)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("whether the store is well is not known while %q is being logged", trouble)
		}
		log.closed <- struct{}{}
		<-logged
	}
}

// lookingLog looks at the store whenever something is logged, as another goroutine might just then.
type lookingLog struct{ look func() }

func (*lookingLog) Enabled(context.Context, slog.Level) bool { return true }
func (l *lookingLog) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l *lookingLog) WithGroup(string) slog.Handler          { return l }

func (l *lookingLog) Handle(context.Context, slog.Record) error {
	l.look()
	return nil
}

// Damage lasts, even if the disk is looked at, and nothing is wrong with it, while it is reported.
func TestNobodyTakesBackDamage(t *testing.T) {
	for name, end := range map[string]func(*Store){
		"damaged":      func(s *Store) { s.breakDown(s.db.Load(), errDamaged) },
		"not writable": func(s *Store) { s.stopWriting(errDamaged) },
	} {
		t.Run(name, func(t *testing.T) {
			var log lookingLog
			s := open(t, t.TempDir(), Options{Logger: slog.New(&log)})
			defer closed(t, s)
			log.look = func() { s.health.is("", time.Now()) }
			end(s)
			s.examine(time.Now())
			if trouble := s.Status().Trouble; !strings.Contains(trouble, errDamaged.Error()) {
				t.Errorf("the trouble is %q, although nothing is written until the next start", trouble)
			}
		})
	}
}

// Damage is logged, although something else was logged just before, and then once a minute.
func TestDamageIsLoggedAtOnce(t *testing.T) {
	var log bytes.Buffer
	h := health{logger: slog.New(slog.NewTextHandler(&log, nil))}
	now := time.Now()
	h.is("the disk is full", now)
	for after, want := range []int{1, 1, 2, 2} { // in half minutes
		h.remains("it is damaged", now.Add(time.Second+time.Duration(after)*complainEvery/2))
		h.is("", now.Add(time.Second+time.Duration(after)*complainEvery/2))
		if n := strings.Count(log.String(), "it is damaged"); n != want {
			t.Errorf("damage is logged %d times, want %d:\n%s", n, want, &log)
		}
	}
}
