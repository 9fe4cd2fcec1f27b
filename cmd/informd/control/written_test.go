package control

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// What changes the state is answered once that is written. While the disk is in trouble, the answer
// says that a restart may undo it.
func TestAnswersComeAfterTheWrite(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(context.Context, *Client) (unwritten string, err error){
		"pause":  func(ctx context.Context, c *Client) (string, error) { return "", c.Pause(ctx, "crashes") },
		"resume": func(ctx context.Context, c *Client) (string, error) { return "", c.Resume(ctx, "crashes") },
		"retry": func(ctx context.Context, c *Client) (string, error) {
			o, err := c.Retry(ctx, LetterChoice{All: true})
			return o.Unwritten, err
		},
		"drop": func(ctx context.Context, c *Client) (string, error) {
			o, err := c.Drop(ctx, LetterChoice{All: true})
			return o.Unwritten, err
		},
		"resync": func(ctx context.Context, c *Client) (string, error) {
			_, err := c.Resync(ctx, "settings")
			return "", err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend()
			b.letters = []Letter{letter("a", "crashes"), letter("b", "crashes")}
			c, _ := serve(t, b)
			if unwritten, err := ask(t.Context(), c); err != nil || unwritten != "" {
				t.Errorf("%s, %v", unwritten, err)
			}
			b.mu.Lock()
			if b.pending > 0 {
				t.Errorf("answered with %d changes not written", b.pending)
			}
			b.letters = []Letter{letter("a", "crashes")}
			b.written = func() error { return errors.New("the disk is full") }
			b.mu.Unlock()
			unwritten, err := ask(t.Context(), c)
			said, failed := errors.AsType[*Error](err)
			switch {
			case failed && said.Code == http.StatusServiceUnavailable && strings.HasSuffix(said.Message, ", but a restart may undo that: the disk is full"):
			case err == nil && unwritten == "the disk is full":
			default:
				t.Errorf("%q, %v", unwritten, err)
			}
		})
	}
}
