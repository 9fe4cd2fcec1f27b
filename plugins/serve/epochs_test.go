package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

func outdated(epoch, newest string) string {
	return "this event comes from an informd that no longer leads: epoch " + epoch + ", newest " + newest
}

func TestEpochs(t *testing.T) {
	var e epochs
	for i, c := range []struct {
		epoch handler.Epoch
		want  string
	}{
		{handler.Epoch{Cluster: "a", Generation: 1, Term: 7}, ""},
		{handler.Epoch{Cluster: "a", Generation: 1, Term: 7}, ""},
		{handler.Epoch{}, ""}, // of an informd without replicas
		{handler.Epoch{Cluster: "a", Generation: 1, Term: 10}, ""},
		{handler.Epoch{Cluster: "a", Generation: 1, Term: 7}, outdated("a/1/7", "a/1/10")},
		{handler.Epoch{Cluster: "b", Generation: 1, Term: 3}, ""}, // another group
		{handler.Epoch{Cluster: "a", Generation: 2, Term: 1}, ""},
		{handler.Epoch{Cluster: "a", Generation: 1, Term: 11}, outdated("a/1/11", "a/2/1")},
		{handler.Epoch{Cluster: "a", Generation: 2, Term: 1}, ""},
		{handler.Epoch{Cluster: "b", Generation: 1, Term: 2}, outdated("b/1/2", "b/1/3")},
		{handler.Epoch{Generation: 1, Term: 1}, ""},
		{handler.Epoch{Cluster: strings.Repeat("c", 65), Generation: 1, Term: 2}, ""}, // too long to keep
		{handler.Epoch{Cluster: strings.Repeat("c", 65), Generation: 1, Term: 1}, ""},
	} {
		if got := e.refuse(c.epoch); got != c.want {
			t.Errorf("%d: got %q, want %q", i, got, c.want)
		}
	}
	if n := len(e.newest); n != 2 {
		t.Errorf("it remembers %d epochs", n)
	}
}

// A process forgets the group that it has not seen for longest, and never remembers more than it may.
func TestEpochsAreBounded(t *testing.T) {
	var e epochs
	see := func(n int, term uint64) string {
		return e.refuse(handler.Epoch{Cluster: fmt.Sprint(n), Generation: 1, Term: term})
	}
	for n := range maxEpochs {
		see(n, 5)
	}
	see(0, 6)
	see(maxEpochs, 5) // in the place of 1
	if len(e.newest) != maxEpochs {
		t.Errorf("it remembers %d", len(e.newest))
	}
	for n := range maxEpochs + 1 {
		if n == 1 {
			continue
		}
		if see(n, 4) == "" {
			t.Errorf("it has forgotten %d", n)
		}
	}
	if why := see(1, 4); why != "" {
		t.Errorf("it remembers 1: %s", why)
	}
	if why := see(0, 6); why != "" {
		t.Error(why)
	}
}

func epochOf(cluster string, term uint64) *handlerpb.Epoch {
	return &handlerpb.Epoch{Cluster: cluster, Generation: 1, Term: term}
}

// A handler gets no event of an older epoch than its process has seen, on whichever stream.
func TestOlderEpochIsRefused(t *testing.T) {
	got := make(chan handler.Event, 10)
	h := handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
		got <- ev
		return handler.Answer{}, nil
	})
	s := &service{handler: h}
	s.configured.Store(true)
	client := connect(t, s)
	for i, c := range []struct {
		epoch *handlerpb.Epoch
		want  string
	}{
		{nil, ""},
		{epochOf("a", 7), ""},
		{epochOf("a", 8), ""},
		{epochOf("b", 2), ""},
		{epochOf("a", 7), outdated("a/1/7", "a/1/8")},
		{nil, ""},
		{epochOf("a", 8), ""},
	} {
		stream, err := client.Deliver(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		send(t, stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{
			{Seq: 1, Rule: "r", Name: "n", Epoch: c.epoch, Traceparent: "00-a-b-01"},
		}})
		if reason := retryReason(answersOf(t, stream, 1)[1]); reason != c.want {
			t.Errorf("%d: got %q, want %q", i, reason, c.want)
		}
		if c.want != "" {
			continue
		}
		want := handler.Epoch{Cluster: c.epoch.GetCluster(), Generation: c.epoch.GetGeneration(), Term: c.epoch.GetTerm()}
		if ev := <-got; ev.Epoch != want || ev.Traceparent != "00-a-b-01" {
			t.Errorf("%d: the handler got %v %s", i, ev.Epoch, ev.Traceparent)
		}
	}
	if len(got) > 0 {
		t.Errorf("the handler got %v", <-got)
	}
}

// An older event of a batch is refused, and the others are handled.
func TestOlderEpochInABatch(t *testing.T) {
	h := &batched{batches: make(chan []string, 10)}
	h.handle = func(_ context.Context, events []handler.Event) []handler.Result {
		return make([]handler.Result, len(events))
	}
	stream := deliver(t, h)
	send(t, stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{
		{Seq: 1, Rule: "r", Name: "a", Epoch: epochOf("x", 7)},
		{Seq: 2, Rule: "r", Name: "b", Epoch: epochOf("x", 8)}, // a is older by the time they are handled
		{Seq: 3, Rule: "r", Name: "c", Epoch: epochOf("x", 7)},
		{Seq: 4, Rule: "r", Name: "d", Epoch: epochOf("y", 1)},
		{Seq: 5, Rule: "r", Name: "e"},
	}})
	got := make(map[uint64]string)
	for seq, a := range answersOf(t, stream, 5) {
		got[seq] = retryReason(a)
	}
	old := outdated("x/1/7", "x/1/8")
	if diff := cmp.Diff(map[uint64]string{1: old, 2: "", 3: old, 4: "", 5: ""}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b", "d", "e"}, <-h.batches); diff != "" {
		t.Error(diff)
	}
}

// An event that waits for another connection's event of its object is refused if its epoch is older by
// the time its turn comes.
func TestEpochGrowsWhileAnEventWaits(t *testing.T) {
	called, goOn := make(chan string, 10), make(chan struct{})
	h := handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
		called <- ev.ID
		<-goOn
		return handler.Answer{}, nil
	})
	s := &service{handler: h, shared: newShared()}
	s.configured.Store(true)
	s.shared.taken = true
	client := connect(t, s)
	begin := func(id, name string, term uint64) handlerpb.Handler_DeliverClient {
		stream, err := client.Deliver(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		send(t, stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{{
			Seq: 1, Id: id, Rule: "r", Name: name, Epoch: epochOf("x", term), TimeLimit: durationpb.New(time.Minute),
		}}})
		return stream
	}
	first := begin("first", "a", 7)
	<-called
	second := begin("second", "a", 7)
	time.Sleep(20 * time.Millisecond) // it is with the process, and waits
	newer := begin("newer", "b", 8)
	if id := <-called; id != "newer" {
		t.Fatalf("it handles %s", id)
	}
	close(goOn)
	for _, c := range []struct {
		of   handlerpb.Handler_DeliverClient
		want string
	}{{first, ""}, {newer, ""}, {second, outdated("x/1/7", "x/1/8")}} {
		if reason := retryReason(answersOf(t, c.of, 1)[1]); reason != c.want {
			t.Errorf("got %q, want %q", reason, c.want)
		}
	}
}
