package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// limits bound how long a request waits for the next of its answer. They do not bound how long the
// whole answer takes, because a large list takes its time.
type limits struct {
	header time.Duration // until the answer begins
	body   time.Duration // for the next bytes of it; 0 means that somebody else looks after that
}

// silentError says that a request was given up because nothing came.
type silentError struct {
	after   time.Duration
	isBegun bool // a part of the answer had come
}

func (e *silentError) Error() string {
	if e.isBegun {
		return fmt.Sprintf("the API server stopped in the middle of an answer: nothing came for %v", e.after)
	}
	return fmt.Sprintf("the API server does not answer: nothing came for %v", e.after)
}

// limited calls send with a context that ends when the answer has not begun within its limit, or when
// its body is closed. send must return the body as soon as the headers are there.
func (l limits) limited(
	ctx context.Context, send func(context.Context) (io.ReadCloser, error),
) (*answerBody, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	header := time.AfterFunc(l.header, func() { cancel(&silentError{after: l.header}) })
	body, err := send(ctx)
	header.Stop()
	if _, isPlugin := errors.AsType[*PluginError](err); isPlugin {
		cancel(nil)
		return nil, err
	}
	switch silent, ok := errors.AsType[*silentError](context.Cause(ctx)); {
	case ok && err == nil: // at the last moment
		_ = body.Close()
		fallthrough
	case ok:
		return nil, silent
	case err != nil:
		cancel(nil)
		return nil, err
	}
	b := &answerBody{ReadCloser: body, limit: l.body, cancel: cancel}
	b.cause = func() error { return context.Cause(ctx) }
	if l.body > 0 {
		b.timer = time.AfterFunc(l.body, func() { cancel(&silentError{after: l.body, isBegun: true}) })
		b.timer.Stop()
	}
	return b, nil
}

// answerBody is the body of an answer. A Read that waits for longer than limit ends the request.
type answerBody struct {
	io.ReadCloser
	limit  time.Duration
	timer  *time.Timer // runs during a Read; nil without a limit
	cancel context.CancelCauseFunc
	cause  func() error // why the request has ended, if it has
	heard  func()       // called when bytes came; may be nil
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	if b.timer != nil {
		b.timer.Reset(b.limit)
	}
	n, err := b.ReadCloser.Read(p)
	if b.timer != nil {
		b.timer.Stop()
	}
	if n > 0 && b.heard != nil {
		b.heard()
	}
	if err != nil && err != io.EOF {
		if silent, ok := errors.AsType[*silentError](b.cause()); ok {
			err = silent
		}
	}
	return n, err
}

// cut ends the request, also while a Read waits. It may be called by any goroutine.
func (b *answerBody) cut() { b.cancel(nil) }

// Close implements io.Closer. It ends the request first: a body must not be closed while a Read waits.
func (b *answerBody) Close() error {
	b.cancel(nil)
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.ReadCloser.Close()
}
