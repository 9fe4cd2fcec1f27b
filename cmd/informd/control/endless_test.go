package control

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// What listens on the socket may be anything. No answer takes the client's memory.
func TestEndlessAnswers(t *testing.T) {
	const most = 8 << 20 // in place of maxAnswer
	for name, test := range map[string]struct {
		begin, forEver string
		ask            func(context.Context, *Client) error
	}{
		"a status": {`{"version":"`, strings.Repeat("x", 1<<10), func(ctx context.Context, c *Client) error {
			_, err := c.Status(ctx)
			return err
		}},
		"white space": {"", strings.Repeat(" ", 1<<10), func(ctx context.Context, c *Client) error {
			_, err := c.Status(ctx)
			return err
		}},
		"a status of many rules": {`{"rules":[{}`, `,{"name":"a"}`, func(ctx context.Context, c *Client) error {
			_, err := c.Status(ctx)
			return err
		}},
		"letters": {"", `{"id":"a"}` + "\n", func(ctx context.Context, c *Client) error {
			_, err := c.Letters(ctx, "", "")
			return err
		}},
		"targets": {"", `{"rule":"a"}` + "\n", func(ctx context.Context, c *Client) error {
			c.most /= timesTargets
			_, err := c.Targets(ctx, TargetQuery{})
			return err
		}},
		"a letter": {`{"event":{"payload":"`, strings.Repeat("x", 1<<10), func(ctx context.Context, c *Client) error {
			_, err := c.Letter(ctx, "a", false)
			return err
		}},
		"a header": {"", strings.Repeat("x", 1<<10), func(ctx context.Context, c *Client) error {
			_, err := c.Rows(ctx, Query{Source: "pods"})
			return err
		}},
		"an object": {`{"count":1}` + "\n", strings.Repeat("x", 1<<10), func(ctx context.Context, c *Client) error {
			s, err := c.Objects(ctx, Query{Source: "pods"}, false)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			for _, err := range s.All() {
				if err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(shortDir(t), "s")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			sent := make(chan int, 1)
			server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.WriteString(w, test.begin)
				n := 0
				for err == nil && n < 1<<30 { // otherwise a client without a bound would never end
					var more int
					more, err = io.WriteString(w, test.forEver)
					n += more
				}
				sent <- n
			})}
			ended := make(chan error)
			go func() { ended <- server.Serve(l) }()
			defer func() { _ = server.Close(); <-ended }()
			c := NewClient(socket)
			c.most = most
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = test.ask(t.Context(), c)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), "is larger than one of informd can be") {
				t.Errorf("got %v", err)
			}
			if n := <-sent; n > 64<<20 {
				t.Errorf("the client reads %d bytes", n)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
				t.Errorf("it took %d bytes of memory", took)
			}
		})
	}
}

// A command trusts a daemon of its own user and of root. Root trusts whoever has the folder that the
// socket is in, too: nobody else can have put it there.
func TestWhoseSocket(t *testing.T) {
	for _, test := range []struct {
		listens, asks, folder int
		want                  bool
	}{
		{listens: 1000, asks: 1000, folder: 0, want: true},
		{listens: 0, asks: 1000, folder: 0, want: true},
		{listens: 0, asks: 0, folder: 0, want: true},
		{listens: 1000, asks: 0, folder: 1000, want: true},
		{listens: 1000, asks: 0, folder: 0},       // in /tmp
		{listens: 1001, asks: 1000, folder: 1001}, // no other user's folder
		{listens: 1001, asks: 1000, folder: 1000},
	} {
		if got := isTrusted(test.listens, test.asks, test.folder); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
