package handlertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// keeper keeps a handler running for one clause: when the handler goes away, the next event starts
// it again, so that a clause sees what every one of its events does.
type keeper struct {
	t     *trial
	cache *cacheService

	mu       sync.Mutex
	session  *session // guarded by mu; the last one
	restarts int      // guarded by mu: starts after the first, failed ones included
	strays   int      // guarded by mu: of sessions that are over
}

// handle sends ev to the handler, which it starts again if it has to. An error that wraps
// handler.ErrLost says that the handler went away with the event, or cannot be started.
func (k *keeper) handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	s, err := k.current(ctx)
	if err != nil {
		err = fmt.Errorf("%w: it cannot be started again: %w", handler.ErrLost, err)
		return handler.Answer{}, err
	}
	return s.handle(ctx, ev)
}

// current returns the session at hand, or begins one.
func (k *keeper) current(ctx context.Context) (*session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.session != nil && !k.session.isOver() {
		return k.session, nil
	}
	if k.session != nil {
		k.strays += k.session.strayAnswers()
		k.session.end(0)
		k.session = nil
		k.restarts++
	}
	return k.begin(ctx)
}

// begin starts the handler, if need be at the second try or a later one. k.mu is held.
func (k *keeper) begin(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, k.t.atLeast(3*k.t.patience/2))
	defer cancel()
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		s, err := k.start(ctx)
		if err == nil {
			k.session = s
			return s, nil
		}
		var refused *refusal
		if errors.As(err, &refused) {
			return nil, err
		}
		select {
		case <-time.After(pause):
			k.restarts++
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (k *keeper) start(ctx context.Context) (*session, error) {
	offer, err := newOffer()
	if err != nil {
		return nil, err
	}
	p, err := k.t.open(ctx, offer, k.cache)
	if err != nil {
		return nil, err
	}
	d, err := k.t.introduce(ctx, p, k.t.Config)
	if err == nil {
		var s *session
		if s, err = k.t.newSession(p, d); err == nil {
			return s, nil
		}
	}
	p.end(0)
	return nil, err
}

// end ends the handler within grace and reports whether it ended by itself or at SIGTERM.
func (k *keeper) end(grace time.Duration) (exited bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.session == nil {
		return true
	}
	exited = k.session.end(grace)
	k.strays += k.session.strayAnswers()
	k.session = nil
	return exited
}

// counts returns how often the handler was started again, and how many answers nobody asked for.
func (k *keeper) counts() (restarts, strays int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	restarts, strays = k.restarts, k.strays
	if k.session != nil {
		strays += k.session.strayAnswers()
		if k.session.isOver() {
			restarts++ // it would have to be, for the next event
		}
	}
	return restarts, strays
}

// stopGrace is how long a process has to end, as informd has it.
const stopGrace = 2 * time.Second

// keep runs the handler until work returns, or until work has ended it. cache is what it reads.
func (t *trial) keep(ctx context.Context, cache *cacheService, work func(*keeper)) {
	k := &keeper{t: t, cache: cache}
	defer k.end(stopGrace)
	if _, err := k.current(ctx); err != nil {
		t.fail("it is not ready: %v", err)
		return
	}
	work(k)
}

// run runs the handler until work returns. It is a problem if the handler had to be started again,
// or gave answers that nobody asked for.
func (t *trial) run(ctx context.Context, work func(*keeper)) {
	t.keep(ctx, t.newCache(), func(k *keeper) {
		work(k)
		t.wantSteady(k)
	})
}

func (t *trial) wantSteady(k *keeper) {
	restarts, strays := k.counts()
	if restarts > 0 {
		t.fail("it went away and was started again, %d times", restarts)
	}
	if strays > 0 {
		t.fail("it gave %d answers to events that it had answered before, or was never sent",
			strays)
	}
}

// try starts a handler to see whether it takes a config. The error is a *refusal if it refuses it.
func (t *trial) try(
	ctx context.Context, config json.RawMessage,
) (*handlerpb.DescribeResponse, error) {
	offer, err := newOffer()
	if err != nil {
		return nil, err
	}
	p, err := t.open(ctx, offer, t.newCache())
	if err != nil {
		return nil, err
	}
	defer p.end(stopGrace)
	return t.introduce(ctx, p, config)
}

// refusal is a handler's refusal of its config, as opposed to a handler that does not work.
type refusal struct{ problems []*handlerpb.Problem }

func (e *refusal) Error() string {
	var said []string
	for _, p := range e.problems {
		message := p.GetMessage()
		if len(p.GetPath()) > 0 {
			message = strings.Join(p.GetPath(), ".") + ": " + message
		}
		said = append(said, message)
	}
	return "it refuses its config: " + strings.Join(said, "; ")
}
