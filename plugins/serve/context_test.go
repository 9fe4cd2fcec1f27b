//go:build go1.25

package serve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A callContext is what context.WithDeadline makes, whenever it is first looked at.
func TestCallContext(t *testing.T) {
	type key struct{}
	for _, c := range []struct {
		why    string
		before func(c *callContext, endParent func()) // the first look
		after  func(c *callContext, endParent func())
		want   error
	}{
		{"nothing happens", nil, nil, nil},
		{"the limit passes", nil, func(*callContext, func()) { time.Sleep(time.Minute) }, context.DeadlineExceeded},
		{"the limit has passed", func(*callContext, func()) { time.Sleep(time.Minute) }, nil, context.DeadlineExceeded},
		{"it ends", nil, func(c *callContext, _ func()) { c.end() }, context.Canceled},
		{"it has ended", func(c *callContext, _ func()) { c.end() }, nil, context.Canceled},
		{"it ends twice", func(c *callContext, _ func()) { c.end() }, func(c *callContext, _ func()) { c.end() }, context.Canceled},
		{"the stream ends", nil, func(_ *callContext, endParent func()) { endParent() }, context.Canceled},
		{"the stream has ended", func(_ *callContext, endParent func()) { endParent() }, nil, context.Canceled},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, endParent := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
				defer endParent()
				limit := time.Now().Add(time.Minute)
				ctx := &callContext{parent: parent, deadline: limit}
				if c.before != nil {
					c.before(ctx, endParent)
				}
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				if c.after != nil {
					c.after(ctx, endParent)
				}
				synctest.Wait()
				if ctx.Err() != c.want || child.Err() != c.want {
					t.Errorf("got %v, and for a child %v", ctx.Err(), child.Err())
				}
				select {
				case <-ctx.Done():
					if c.want == nil {
						t.Error("done")
					}
				default:
					if c.want != nil {
						t.Error("not done")
					}
				}
				if deadline, ok := ctx.Deadline(); !ok || !deadline.Equal(limit) {
					t.Errorf("deadline %v, %v", deadline, ok)
				}
				if ctx.Value(key{}) != "value" {
					t.Error("the stream's values are missing")
				}
				ctx.end()
			})
		})
	}
}

func TestCallContextWithoutLimit(t *testing.T) {
	ctx := &callContext{parent: t.Context()}
	if _, ok := ctx.Deadline(); ok {
		t.Error("a deadline")
	}
	ctx.end()
	if ctx.Err() != context.Canceled {
		t.Errorf("got %v", ctx.Err())
	}
}
