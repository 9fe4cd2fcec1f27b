package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// asks sends a request to the member name by the Transport of n.
func (n *node) asks(
	ctx context.Context, name, method, path string, body io.Reader,
) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+name+path, body)
	if err != nil {
		return nil, err
	}
	return n.member.Transport().RoundTrip(request)
}

// others returns the nodes but n.
func (c *cluster) others(n *node) (all []*node) {
	for _, other := range c.nodes {
		if other != n {
			all = append(all, other)
		}
	}
	return all
}

func TestRequestsReachAnotherMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	began, ended := make(chan struct{}), make(chan struct{}, 2)
	for _, n := range c.nodes {
		n.options.Asked = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				fmt.Fprintln(w, "begun")
				_ = http.NewResponseController(w).Flush()
				began <- struct{}{}
				<-r.Context().Done()
				ended <- struct{}{}
				return
			}
			size, err := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%s %s %s %q %d %v", n.name, r.Method, r.URL, r.Header["Informd-Cluster"],
				size, err)
		})
	}
	c.startAll()
	leader := c.leader()
	follower, third := c.others(leader)[0], c.others(leader)[1]
	wait(t, "the follower knows the leader", func() bool {
		return follower.member.Leader() == leader.name
	})
	wait(t, "the follower knows its cluster", func() bool {
		return follower.member.Info().Cluster != ""
	})
	answer, err := follower.asks(t.Context(), leader.name, "POST", "/v1/x?y=z",
		strings.NewReader(strings.Repeat("b", 3<<20)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	want := leader.name + ` POST /v1/x?y=z [] 3145728 <nil>`
	if err != nil || string(text) != want || answer.StatusCode != http.StatusOK {
		t.Errorf("%s %s, %v; want %s", answer.Status, text, err, want)
	}

	// The end of the request's context ends it on the other member.
	ctx, cancel := context.WithCancel(t.Context())
	answer, err = follower.asks(ctx, leader.name, "GET", "/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-began
	cancel()
	<-ended
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("a cancelled answer looks whole")
	}
	_ = answer.Body.Close()

	// So does the end of the member that asks.
	answer, err = third.asks(t.Context(), leader.name, "GET", "/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-began
	third.close(t)
	<-ended
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("an answer that broke off looks whole")
	}
	_ = answer.Body.Close()
	if _, err := follower.asks(t.Context(), third.name, "GET", "/", nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a request to a member that is closed: %v", err)
	}
	if _, err := follower.asks(t.Context(), "x", "GET", "/", nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a request to nobody: %v", err)
	}
}

func TestRequestsOfAnotherClusterAreRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, n := range c.nodes {
		n.options.Asked = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("a request of another cluster was answered")
		})
	}
	c.startAll()
	leader := c.leader()
	follower := c.others(leader)[0]
	wait(t, "the follower knows its cluster", func() bool {
		return follower.member.Info().Cluster != ""
	})
	request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+leader.name+"/passed/v1/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Informd-Cluster", newID())
	answer, err := follower.member.Transport().(*passing).http.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("it answers %s", answer.Status)
	}
}
