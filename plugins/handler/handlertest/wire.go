package handlertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// serving: go-plugin's hosts ask gRPC's own health service, informd's the handler's.
func (t *trial) serving(ctx context.Context) {
	t.byHand(ctx, func(ctx context.Context, p *process) {
		resp, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "plugin"})
		code := status.Code(err)
		switch {
		case t.Remote != nil && (code == codes.Unimplemented || code == codes.NotFound): // it is taken as serving
		case err != nil:
			t.fail(`grpc.health.v1.Health/Check of the service "plugin" fails: %v`, err)
		case resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
			t.fail(`grpc.health.v1.Health/Check of the service "plugin" says %s, not SERVING`, resp.GetStatus())
		}
		if !t.configure(ctx, p) {
			return
		}
		if _, err := p.api.Health(ctx, &handlerpb.HealthRequest{}); err != nil && status.Code(err) != codes.Unimplemented {
			t.fail("Health fails: %v", err)
		}
	})
}

// letsGo: a handler tells that it let go of a cancelled event by answering it.
func (t *trial) letsGo(ctx context.Context) {
	t.onStream(ctx, func(_ context.Context, _ *process, stream handlerpb.Handler_DeliverClient) {
		first, second := t.wire(t.Event(1), 1), t.wire(t.Event(1), 2)
		t.send(stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{first}})
		t.send(stream, &handlerpb.DeliverRequest{Cancel: []uint64{1, 77}}) // 77 was never sent
		t.wantAnswered(stream, "an event that was cancelled", 1)
		t.send(stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{second}})
		t.wantAnswered(stream, "the next event of the object", 2)
		_ = stream.CloseSend()
	})
}

// streamEnd: when informd closes its side, the handler finishes what it has and closes its own.
func (t *trial) streamEnd(ctx context.Context) {
	t.onStream(ctx, func(_ context.Context, _ *process, stream handlerpb.Handler_DeliverClient) {
		req := &handlerpb.DeliverRequest{}
		for n := range uint64(8) {
			req.Events = append(req.Events, t.wire(t.Event(int(n)), n+1))
		}
		t.send(stream, req)
		_ = stream.CloseSend()
		t.wantAnswered(stream, "events that were sent before the end", 1, 2, 3, 4, 5, 6, 7, 8)
		if resp, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.fail("it does not close the stream when everything is answered: %v, %v", resp, err)
		}
	})
}

// signals: a terminal or a service manager may send them to everybody, but it is informd that decides.
func (t *trial) signals(ctx context.Context) {
	t.onStream(ctx, func(ctx context.Context, p *process, stream handlerpb.Handler_DeliverClient) {
		for i, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			if err := p.cmd.Process.Signal(signal); err != nil {
				t.fail("%v: %v", signal, err)
			}
			select {
			case <-p.exited:
			case <-time.After(signalled):
			}
			seq := uint64(i + 1)
			t.send(stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{t.wire(t.Event(1), seq)}})
			t.wantAnswered(stream, fmt.Sprintf("an event after the signal %q", signal), seq)
		}
		_ = stream.CloseSend()
		if _, err := p.api.Drain(ctx, &handlerpb.DrainRequest{}); err != nil && status.Code(err) != codes.Unimplemented {
			t.fail("Drain fails: %v", err)
		}
	})
}

// signalled is how long a process that a signal ends has for that.
const signalled = 500 * time.Millisecond

// onStream has work done on the stream of a handler that was started by hand. work closes it.
func (t *trial) onStream(ctx context.Context, work func(context.Context, *process, handlerpb.Handler_DeliverClient)) {
	t.byHand(ctx, func(ctx context.Context, p *process) {
		if !t.configure(ctx, p) {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, t.Timeout+5*time.Second)
		defer cancel()
		stream, err := p.api.Deliver(ctx, grpc.CallContentSubtype("proto"))
		if err != nil {
			t.fail("Deliver fails: %v", err)
			return
		}
		work(ctx, p, stream)
	})
}

func (t *trial) configure(ctx context.Context, p *process) bool {
	_, err := p.api.Describe(ctx, &handlerpb.DescribeRequest{InformdVersion: "handlertest"})
	if err != nil {
		t.fail("Describe fails: %v", err)
		return false
	}
	resp, err := p.api.Configure(ctx, &handlerpb.ConfigureRequest{Config: t.Config, Handler: "handlertest"})
	if err != nil || len(resp.GetProblems()) > 0 {
		t.fail("Configure fails: %v, %v", resp.GetProblems(), err)
		return false
	}
	return true
}

func (t *trial) send(stream handlerpb.Handler_DeliverClient, req *handlerpb.DeliverRequest) {
	if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) { // then Recv says why
		t.fail("send events: %v", err)
	}
}

// wantAnswered receives until each of these events is answered once.
func (t *trial) wantAnswered(stream handlerpb.Handler_DeliverClient, what string, seqs ...uint64) {
	open := map[uint64]bool{}
	for _, seq := range seqs {
		open[seq] = true
	}
	for len(open) > 0 {
		resp, err := stream.Recv()
		if err != nil {
			t.fail("%s: %d of %d not answered: %v", what, len(open), len(seqs), err)
			return
		}
		answered := resp.GetDone()
		for _, a := range resp.GetAnswers() {
			if a.GetResult() == nil {
				t.fail("%s: an answer says neither done, retry nor reject", what)
			}
			answered = append(answered, a.GetSeq())
		}
		for _, seq := range answered {
			if !open[seq] {
				t.fail("%s: the event with seq %d was not asked for, or was answered before", what, seq)
			}
			delete(open, seq)
		}
	}
}

// wire is an event as it goes to the handler.
func (t *trial) wire(ev handler.Event, seq uint64) *handlerpb.Event {
	return &handlerpb.Event{
		Seq: seq, Id: ev.ID, Rule: ev.Rule, Event: ev.Event, Attempt: uint32(ev.Attempt),
		Resource: &handlerpb.Resource{
			Group: ev.Resource.Group, Version: ev.Resource.Version, Resource: ev.Resource.Resource,
		},
		Namespace: ev.Namespace, Name: ev.Name, Uid: ev.UID, ResourceVersion: ev.ResourceVersion,
		Object: ev.Object, Old: ev.Old, Payload: ev.Payload, TimeLimit: durationpb.New(t.Timeout),
	}
}
