package host

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/informd/informd/plugins/host/session"
)

// A launch asks the file system for the handler's program, its folder and its files. A mount whose
// server is gone keeps such a call forever, and nothing can interrupt it.

const mayBeStuck = "a file system that has its program, its folder or its files may not answer"

// launchGrace is how long a launch may go on after its context has ended. To kill a process and to
// wait for it takes less.
const launchGrace = 15 * time.Second

// abandoning returns a launcher that returns at most grace after its context has ended. If a launch
// goes on longer, what it gives in the end is ended.
func (l launcher) abandoning(grace time.Duration) launcher {
	return func(
		ctx context.Context, spec Spec, opts Options, log *slog.Logger,
	) (started *session.Session, err error) {
		type result struct {
			session *session.Session
			err     error
		}
		launched := make(chan result, 1)
		go func() {
			started, err := l(ctx, spec, opts, log)
			launched <- result{started, err}
		}()
		var overdue <-chan time.Time
		select {
		case r := <-launched:
			return r.session, r.err
		case <-ctx.Done():
			timer := time.NewTimer(grace)
			defer timer.Stop()
			overdue = timer.C
		}
		select {
		case r := <-launched:
			return r.session, r.err
		case <-overdue:
		}
		go func() {
			if r := <-launched; r.err == nil {
				r.session.End(0)
			}
		}()
		log.Warn("a start of the handler does not end, and nobody waits for it any more: " +
			mayBeStuck)
		return nil, errors.New("its start does not end: " + mayBeStuck)
	}
}

// remindOf says that a launch takes longer than all its parts may, until the caller calls stop.
func (s *supervisor) remindOf() (stop func() bool) {
	limit := s.opts.StartTimeout + s.opts.DescribeTimeout + s.opts.ConfigureTimeout
	return time.AfterFunc(limit, func() {
		s.log.Warn("the handler's start takes long: "+mayBeStuck, "took", limit)
		s.set(func(st *Status) {
			if st.State == Starting {
				st.Reason = "its start takes long: " + mayBeStuck
			}
		})
	}).Stop
}
