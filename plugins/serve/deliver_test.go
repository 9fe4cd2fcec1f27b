package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// connect serves s until the test ends and returns a client of it.
func connect(t *testing.T, s *service) handlerpb.HandlerClient {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := GRPCServer(nil)
	handlerpb.RegisterHandlerServer(server, s)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return handlerpb.NewHandlerClient(conn)
}

// deliver opens a stream to a handler that is configured.
func deliver(t *testing.T, h handler.Handler) handlerpb.Handler_DeliverClient {
	t.Helper()
	s := &service{handler: h}
	s.configured.Store(true)
	stream, err := connect(t, s).Deliver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func send(t *testing.T, stream handlerpb.Handler_DeliverClient, req *handlerpb.DeliverRequest) {
	t.Helper()
	if err := stream.Send(req); err != nil {
		t.Fatal(err)
	}
}

// answersOf receives until n events are answered: by sequence number, nil for done.
func answersOf(t *testing.T, stream handlerpb.Handler_DeliverClient, n int) map[uint64]*handlerpb.Answer {
	t.Helper()
	got := map[uint64]*handlerpb.Answer{}
	for len(got) < n {
		resp, err := stream.Recv()
		if err != nil {
			t.Fatalf("after %d answers: %v", len(got), err)
		}
		for _, seq := range resp.GetDone() {
			got[seq] = nil
		}
		for _, a := range resp.GetAnswers() {
			got[a.GetSeq()] = a
		}
	}
	return got
}

func retryReason(a *handlerpb.Answer) string { return a.GetRetry().GetReason() }

func TestAnswerKinds(t *testing.T) {
	target := &handlerpb.Target{Resource: &handlerpb.Resource{Version: "v1", Resource: "pods"}, Namespace: "shop", Name: "a"}
	action := func(verb string) handler.Action {
		return handler.Action{Verb: verb, Resource: handler.Resource{Version: "v1", Resource: "pods"}, Namespace: "shop", Name: "a", Object: []byte("{}")}
	}
	for _, c := range []struct {
		why    string
		answer handler.Answer
		err    error
		want   *handlerpb.Answer
	}{
		{"done", handler.Answer{}, nil, nil},
		{"retry", handler.Answer{}, errors.New("busy"), retry("busy")},
		{"retry after", handler.Answer{}, handler.RetryAfter(time.Minute, errors.New("busy")), &handlerpb.Answer{
			Result: &handlerpb.Answer_Retry{Retry: &handlerpb.Retry{Reason: "busy", After: durationpb.New(time.Minute)}},
		}},
		{"reject", handler.Answer{}, handler.Reject(errors.New("bad")), reject("rejected: bad")},
		{"broken text", handler.Answer{}, errors.New("\xff" + strings.Repeat("é", 1000)), retry("\uFFFD" + strings.Repeat("é", 510))},
		{"an action", handler.Answer{Actions: []handler.Action{action(handler.ActionCreate)}}, nil, &handlerpb.Answer{
			Result: &handlerpb.Answer_Done{Done: &handlerpb.Done{Actions: []*handlerpb.Action{
				{Action: &handlerpb.Action_Create{Create: &handlerpb.Create{Target: target, Object: []byte("{}")}}},
			}}},
		}},
		{"an unknown verb", handler.Answer{Actions: []handler.Action{action("explode")}}, nil,
			reject(`the handler's answer has an action with the unknown verb "explode"`)},
		{"too many actions", handler.Answer{Actions: make([]handler.Action, 65)}, nil,
			reject("the handler's answer has 65 actions; at most 64 are allowed")},
		{"too large an action", handler.Answer{Actions: []handler.Action{{Verb: handler.ActionApply, Object: make(json.RawMessage, 9<<20)}}}, nil,
			reject("the handler's answer is larger than the 8388608 bytes that are allowed")},
	} {
		t.Run(c.why, func(t *testing.T) {
			if diff := cmp.Diff(c.want, answer(c.answer, c.err), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDeliverBeforeConfigure(t *testing.T) {
	stream, err := connect(t, &service{handler: handler.Func(nil)}).Deliver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %v", err)
	}
}

// Every event is answered, however Handle ends.
func TestHandleEnds(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.DiscardHandler))
	stream := deliver(t, handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
		switch ev.Name {
		case "panics":
			panic(ev)
		case "faults":
			var p *int
			*p = 1
		case "exits":
			runtime.Goexit()
		}
		return handler.Answer{}, nil
	}))
	send(t, stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{
		{Seq: 1, Name: "panics"}, {Seq: 2, Name: "faults"}, {Seq: 3, Name: "exits"}, {Seq: 4, Name: "returns"},
	}})
	got := answersOf(t, stream, 4)
	for seq, want := range map[uint64]string{
		1: "panic: a value of type handler.Event; the handler's log has it",
		2: "panic: runtime error: invalid memory address or nil pointer dereference",
		3: "the handler ended the goroutine that it was called in",
		4: "",
	} {
		if reason := retryReason(got[seq]); reason != want {
			t.Errorf("%d: got %q", seq, reason)
		}
	}
}

// Time limits and cancels end the context; the answer tells informd that the handler let go.
func TestTimeLimitAndCancel(t *testing.T) {
	stream := deliver(t, handler.Func(func(ctx context.Context, _ handler.Event) (handler.Answer, error) {
		<-ctx.Done()
		return handler.Answer{}, ctx.Err()
	}))
	send(t, stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{
		{Seq: 1, Name: "a", TimeLimit: durationpb.New(time.Millisecond)}, {Seq: 2, Name: "b"},
	}})
	if got := retryReason(answersOf(t, stream, 1)[1]); got != context.DeadlineExceeded.Error() {
		t.Errorf("time limit: got %q", got)
	}
	send(t, stream, &handlerpb.DeliverRequest{Cancel: []uint64{2, 99}})
	if got := retryReason(answersOf(t, stream, 1)[2]); got != context.Canceled.Error() {
		t.Errorf("cancel: got %q", got)
	}
}

// Events of one object never overlap, even when informd has given up on one that Handle does not
// return from.
func TestNoOverlap(t *testing.T) {
	release := make(chan struct{})
	stream := deliver(t, handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
		if ev.ID == "stuck" {
			<-release
		}
		return handler.Answer{}, nil
	}))
	send(t, stream, &handlerpb.DeliverRequest{
		Events: []*handlerpb.Event{{Seq: 1, Id: "stuck", Rule: "r", Name: "a"}},
		Cancel: []uint64{1},
	})
	send(t, stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{{Seq: 2, Rule: "r", Name: "a"}, {Seq: 3, Rule: "s", Name: "a"}}})
	got := answersOf(t, stream, 2)
	if reason := retryReason(got[2]); !strings.Contains(reason, "still has an earlier event") {
		t.Errorf("same object: got %q", reason)
	}
	if got[3] != nil {
		t.Errorf("another rule: got %v", got[3])
	}
	close(release)
	answersOf(t, stream, 1)
	send(t, stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{{Seq: 4, Rule: "r", Name: "a"}}})
	if got := answersOf(t, stream, 1); got[4] != nil {
		t.Errorf("afterwards: got %v", got[4])
	}
}

// A call that takes long holds up neither what came with it, before or behind, nor what comes
// later, nor any answer.
func TestLongCalls(t *testing.T) {
	release := make(chan struct{})
	stream := deliver(t, handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
		if strings.HasPrefix(ev.Name, "long") {
			<-release
		}
		return handler.Answer{}, nil
	}))
	seq := uint64(0)
	batch := func(names ...string) {
		req := &handlerpb.DeliverRequest{}
		for _, name := range names {
			seq++
			req.Events = append(req.Events, &handlerpb.Event{Seq: seq, Name: fmt.Sprint(name, seq)})
		}
		send(t, stream, req)
	}
	batch("quick", "quick", "long", "quick", "long", "long", "quick", "long")
	answersOf(t, stream, 4)
	batch("long")
	batch("quick")
	answersOf(t, stream, 1)
	close(release)
	answersOf(t, stream, 5)
}

// However many events come, no more than the bound are with the handler; the others are answered at
// once.
func TestTooManyEvents(t *testing.T) {
	release := make(chan struct{})
	stream := deliver(t, handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
		<-release
		return handler.Answer{}, nil
	}))
	const more = 3
	req := &handlerpb.DeliverRequest{}
	for seq := range uint64(maxRunning + more) {
		req.Events = append(req.Events, &handlerpb.Event{Seq: seq, Name: fmt.Sprint(seq)})
	}
	send(t, stream, req)
	for seq, a := range answersOf(t, stream, more) {
		if seq < maxRunning || retryReason(a) != "the handler has too many events at once" {
			t.Errorf("%d: %v", seq, a)
		}
	}
	close(release)
	answersOf(t, stream, maxRunning)
}

// When informd closes its side, what is being handled is finished and answered before the stream
// ends.
func TestEndOfStream(t *testing.T) {
	stream := deliver(t, handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
		time.Sleep(200 * time.Millisecond) // the stream has time to end too early
		return handler.Answer{}, nil
	}))
	const n = 100
	req := &handlerpb.DeliverRequest{}
	for seq := range uint64(n) {
		req.Events = append(req.Events, &handlerpb.Event{Seq: seq, Name: fmt.Sprint(seq)})
	}
	send(t, stream, req)
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got := answersOf(t, stream, n); len(got) != n {
		t.Errorf("got %d answers", len(got))
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

// Answers that are large together go in several messages, each of which informd receives.
func TestLargeAnswers(t *testing.T) {
	object := make(json.RawMessage, 700<<10)
	stream := deliver(t, handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
		return handler.Answer{Actions: []handler.Action{{Verb: handler.ActionApply, Object: object}}}, nil
	}))
	req := &handlerpb.DeliverRequest{}
	for seq := range uint64(20) {
		req.Events = append(req.Events, &handlerpb.Event{Seq: seq, Name: fmt.Sprint(seq)})
	}
	send(t, stream, req)
	answersOf(t, stream, 20) // with gRPC's default limit of 4 MiB
}

// batched is a handler that notes its batches.
type batched struct {
	handler.Func
	handle  func(ctx context.Context, events []handler.Event) []handler.Result
	batches chan []string // names
}

func (b *batched) HandleBatch(ctx context.Context, events []handler.Event) []handler.Result {
	var names []string
	for _, ev := range events {
		names = append(names, ev.Name)
	}
	b.batches <- names
	return b.handle(ctx, events)
}

func TestBatches(t *testing.T) {
	results := func(events []handler.Event) (all []handler.Result) {
		for _, ev := range events {
			var r handler.Result
			if ev.Name == "bad" {
				r.Err = handler.Reject(errors.New("bad"))
			}
			all = append(all, r)
		}
		return all
	}
	h := &batched{batches: make(chan []string, 10)}
	h.Func = func(_ context.Context, ev handler.Event) (handler.Answer, error) {
		return handler.Answer{}, errors.New("alone")
	}
	stream := deliver(t, h)
	seq := uint64(0)
	come := func(names ...string) map[uint64]*handlerpb.Answer {
		t.Helper()
		var events []*handlerpb.Event
		for _, name := range names {
			seq++
			events = append(events, &handlerpb.Event{Seq: seq, Rule: "r", Name: name, TimeLimit: durationpb.New(time.Minute)})
		}
		send(t, stream, &handlerpb.DeliverRequest{Events: events})
		got := make(map[uint64]*handlerpb.Answer)
		for n, a := range answersOf(t, stream, len(names)) {
			got[n-seq+uint64(len(names))] = a
		}
		return got
	}
	check := func(why string, got, want map[uint64]*handlerpb.Answer) {
		t.Helper()
		if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&handlerpb.Answer{}, "seq")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", why, diff)
		}
	}

	h.handle = func(ctx context.Context, events []handler.Event) []handler.Result {
		if limit, ok := ctx.Deadline(); !ok || time.Until(limit) > time.Minute {
			t.Errorf("its limit is %v", limit)
		}
		return results(events)
	}
	check("a batch", come("a", "bad", "c"), map[uint64]*handlerpb.Answer{1: nil, 2: reject("rejected: bad"), 3: nil})
	if diff := cmp.Diff([]string{"a", "bad", "c"}, <-h.batches); diff != "" {
		t.Errorf("the batch (-want +got)\n%s", diff)
	}
	check("an event alone goes to Handle", come("a"), map[uint64]*handlerpb.Answer{1: retry("alone")})

	var many []string
	for n := range handlerpb.MaxBatchEvents + 1 {
		many = append(many, fmt.Sprint(n))
	}
	h.handle = func(_ context.Context, events []handler.Event) []handler.Result {
		if len(events) > handlerpb.MaxBatchEvents {
			t.Errorf("a batch has %d events", len(events))
		}
		return results(events)
	}
	if got := come(many...); len(got) != len(many) {
		t.Errorf("%d answers", len(got))
	}
}

// Whatever HandleBatch does to a batch, one of its events may be to blame. Each goes to Handle alone,
// within the same attempt: the innocent ones are done, and only the culprit fails.
func TestBatchThatFailsIsTakenApart(t *testing.T) {
	for why, ends := range map[string]func(events []handler.Event) []handler.Result{
		"a panic":                  func([]handler.Event) []handler.Result { panic(errors.New("secret")) },
		"the end of its goroutine": func([]handler.Event) []handler.Result { runtime.Goexit(); return nil },
		"too few results":          func(events []handler.Event) []handler.Result { return make([]handler.Result, len(events)-1) },
		"no results":               func([]handler.Event) []handler.Result { return nil },
	} {
		t.Run(why, func(t *testing.T) {
			h := &batched{batches: make(chan []string, 10)}
			h.handle = func(_ context.Context, events []handler.Event) []handler.Result { return ends(events) }
			h.Func = func(ctx context.Context, ev handler.Event) (handler.Answer, error) {
				if _, ok := ctx.Deadline(); !ok || ctx.Err() != nil {
					t.Errorf("%s has no context of its own: %v", ev.Name, ctx.Err())
				}
				if ev.Name == "culprit" {
					panic(errors.New("secret"))
				}
				return handler.Answer{}, nil
			}
			stream := deliver(t, h)
			req := &handlerpb.DeliverRequest{}
			for seq := range uint64(30) {
				req.Events = append(req.Events, &handlerpb.Event{Seq: seq, Name: fmt.Sprint(seq), TimeLimit: durationpb.New(time.Minute)})
			}
			req.Events[11].Name = "culprit"
			send(t, stream, req)
			reason := "panic: a value of type *errors.errorString; the handler's log has it"
			for seq, a := range answersOf(t, stream, len(req.Events)) {
				if got := a.GetRetry().GetReason(); seq == 11 && got != reason || seq != 11 && a != nil {
					t.Errorf("event %d: %v", seq, a)
				}
			}
			if n := len(<-h.batches); n != 30 {
				t.Errorf("a batch of %d", n)
			}
			send(t, stream, &handlerpb.DeliverRequest{Events: req.Events[:1]})
			answersOf(t, stream, 1) // the next one is not affected
		})
	}
}

// The events of a batch that took too long go to Handle alone when they come again.
func TestBatchThatHangsIsTakenApart(t *testing.T) {
	h := &batched{batches: make(chan []string, 10)}
	h.handle = func(ctx context.Context, events []handler.Event) []handler.Result {
		<-ctx.Done()
		return make([]handler.Result, len(events))
	}
	h.Func = func(context.Context, handler.Event) (handler.Answer, error) {
		return handler.Answer{}, errors.New("alone")
	}
	stream := deliver(t, h)
	req := &handlerpb.DeliverRequest{Events: []*handlerpb.Event{
		{Seq: 1, Name: "a", Id: "r/a", TimeLimit: durationpb.New(time.Millisecond)},
		{Seq: 2, Name: "b", Id: "r/b", TimeLimit: durationpb.New(time.Minute)},
	}}
	send(t, stream, req)
	answersOf(t, stream, 2)
	<-h.batches
	send(t, stream, req)
	for seq, a := range answersOf(t, stream, 2) {
		if got := a.GetRetry().GetReason(); got != "alone" {
			t.Errorf("event %d: %v", seq, a)
		}
	}
}

// A cancel of one event ends the context of its batch. Events that come meanwhile do not wait.
func TestBatchIsCancelled(t *testing.T) {
	h := &batched{batches: make(chan []string, 2)}
	h.Func = func(context.Context, handler.Event) (handler.Answer, error) { return handler.Answer{}, nil }
	h.handle = func(ctx context.Context, events []handler.Event) []handler.Result {
		<-ctx.Done()
		return make([]handler.Result, len(events))
	}
	stream := deliver(t, h)
	send(t, stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{{Seq: 1, Name: "a"}, {Seq: 2, Name: "b"}}})
	<-h.batches
	send(t, stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{{Seq: 3, Name: "c"}}})
	if _, ok := answersOf(t, stream, 1)[3]; !ok {
		t.Error("an event waits for a batch of others")
	}
	send(t, stream, &handlerpb.DeliverRequest{Cancel: []uint64{2}})
	answersOf(t, stream, 2)
}
