package host

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host/session"
)

// life is a handler that runs for a time and then fails.
type life struct {
	handlerpb.HandlerClient // what is not here is not called
	lasts                   time.Duration
	going                   sync.Once
	gone                    chan struct{}
}

func (l *life) Kill(error)               { l.going.Do(func() { close(l.gone) }) }
func (l *life) End(time.Duration)        { l.Kill(nil) }
func (l *life) Explain(err error) error  { return err }
func (l *life) Exited() <-chan struct{}  { return l.gone }
func (l *life) Leaving() <-chan struct{} { return nil }
func (l *life) PID() int                 { return 1 }
func (l *life) Confined() string         { return "" }
func (l *life) LastLines() []string      { return nil }
func (l *life) Hide(func() bool)         {}

func (l *life) Connect() (handlerpb.HandlerClient, error) { return l, nil }

func (l *life) Describe(
	context.Context, *handlerpb.DescribeRequest, ...grpc.CallOption,
) (*handlerpb.DescribeResponse, error) {
	return &handlerpb.DescribeResponse{}, nil
}

func (l *life) Health(context.Context, *handlerpb.HealthRequest, ...grpc.CallOption) (*handlerpb.HealthResponse, error) {
	return &handlerpb.HealthResponse{}, nil
}

func (l *life) Drain(context.Context, *handlerpb.DrainRequest, ...grpc.CallOption) (*handlerpb.DrainResponse, error) {
	return &handlerpb.DrainResponse{}, nil
}

func (l *life) Deliver(ctx context.Context, _ ...grpc.CallOption) (handlerpb.Handler_DeliverClient, error) {
	return &lifeStream{ctx: ctx, end: time.After(l.lasts)}, nil
}

// lifeStream delivers no answers.
type lifeStream struct {
	handlerpb.Handler_DeliverClient
	ctx context.Context
	end <-chan time.Time
}

func (s *lifeStream) CloseSend() error { return nil }

func (s *lifeStream) Recv() (*handlerpb.DeliverResponse, error) {
	select {
	case <-s.end:
		return nil, errors.New("out of luck")
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// errUnlucky is the error of a launch that fails.
var errUnlucky = errors.New("deliver failed: out of luck")

// live runs a host whose nth launch fails if lasts(n) is 0, and otherwise runs for that time. stop
// stops the host and returns the times of the launches.
func live(opts Options, lasts func(n int) time.Duration) (h *Host, stop func() []time.Time) {
	var launches []time.Time
	h = newHost(Spec{Name: "h"}, opts, func(ctx context.Context, spec Spec, opts Options, log *slog.Logger) (*session.Session, error) {
		n := len(launches)
		launches = append(launches, time.Now())
		d := lasts(n)
		if d == 0 {
			return nil, errUnlucky
		}
		l := &life{lasts: d, gone: make(chan struct{})}
		return session.Begin(ctx, l, opts.terms(spec), false, log)
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.Run(ctx) }()
	return h, func() []time.Time { cancel(); <-ended; return launches }
}

// complaintCount counts the complaints that are logged.
type complaintCount struct{ atomic.Int64 }

func (c *complaintCount) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("handler failed")) {
		c.Add(1)
	}
	return len(line), nil
}

func about(got, want time.Duration) bool { return got >= want*8/10 && got <= want*12/10 }

// A handler that cannot be launched is tried again for ever, after pauses that double up to the
// longest.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, stop := live(Options{Backoff: Backoff{Min: 100 * time.Millisecond, Max: time.Second}}, func(int) time.Duration { return 0 })
		time.Sleep(time.Hour)
		if s := h.Status(); s.State != BackingOff || s.Reason != errUnlucky.Error() || s.Failures != 5 || s.Next.Before(time.Now()) {
			t.Errorf("%+v", s)
		}
		launches := stop()
		if n := len(launches); n < 3000 || h.Status().Restarts != n-1 {
			t.Fatalf("%d launches in an hour, %d restarts", n, h.Status().Restarts)
		}
		for i, began := range launches[1:] {
			want := time.Second
			if i < 4 {
				want = 100 * time.Millisecond << i
			}
			if pause := began.Sub(launches[i]); !about(pause, want) {
				t.Fatalf("the pause before launch %d is %v, want about %v", i+2, pause, want)
			}
		}
	})
}

// While a handler runs, its failures are forgotten one by one, and the log reports the next one
// again. Time in which it does not run does not count.
func TestDecay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log complaintCount
		const many = 1000 // until the log has grown tired of it
		h, stop := live(Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)), Backoff: Backoff{Min: 2 * time.Second, Max: 32 * time.Second, Decay: time.Minute},
		}, func(n int) time.Duration {
			switch {
			case n < many:
				return 0
			case n == many:
				return 150 * time.Second
			}
			return time.Hour
		})
		for h.Status().State != Running {
			time.Sleep(time.Second)
		}
		if n := h.Status().Failures; n != 5 {
			t.Errorf("%d failures count as it begins to run, want 5", n)
		}
		time.Sleep(130 * time.Second)
		if n := h.Status().Failures; n != 3 {
			t.Errorf("%d failures count after two minutes, want 3", n)
		}
		complaints := log.Load()
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if s := h.Status(); s.State != BackingOff || s.Failures != 4 || !about(s.Next.Sub(s.Since), 16*time.Second) {
			t.Errorf("after one more failure: %+v", s)
		}
		if got := log.Load(); got != complaints+1 {
			t.Errorf("%d complaints, before that failure %d", got, complaints)
		}
		stop()
	})
}
