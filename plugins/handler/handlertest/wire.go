package handlertest

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// serving: go-plugin's hosts ask gRPC's own health service, and informd asks the handler's.
func (t *trial) serving(ctx context.Context) {
	t.byHand(ctx, func(ctx context.Context, p *process) {
		resp, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx,
			&grpc_health_v1.HealthCheckRequest{Service: "plugin"})
		code := status.Code(err)
		switch {
		case t.Remote != nil && (code == codes.Unimplemented || code == codes.NotFound):
			// A remote handler that does not know the service counts as serving.
		case err != nil:
			t.fail(`grpc.health.v1.Health/Check of the service "plugin" fails: %v`, err)
		case resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
			t.fail(`grpc.health.v1.Health/Check of the service "plugin" says %s, not SERVING`,
				resp.GetStatus())
		}
		if _, err := t.introduce(ctx, p, t.Config); err != nil {
			t.fail("%v", err)
			return
		}
		_, err = p.api.Health(ctx, &handlerpb.HealthRequest{})
		if err != nil && status.Code(err) != codes.Unimplemented {
			t.fail("Health fails: %v", err)
		}
	})
}

// letsGo: a handler says that it let go of a cancelled event by answering it.
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

// byHand starts the handler as another program could, without TLS, or connects to the one that
// runs elsewhere. It calls work and ends the handler.
func (t *trial) byHand(ctx context.Context, work func(context.Context, *process)) {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	p, err := t.open(ctx, nil, t.newCache())
	if err != nil {
		t.fail("%v", err)
		return
	}
	defer p.end(t.patience)
	work(ctx, p)
}

// onStream starts a handler by hand and calls work with a stream to it. work closes the stream.
func (t *trial) onStream(
	ctx context.Context, work func(context.Context, *process, handlerpb.Handler_DeliverClient),
) {
	t.byHand(ctx, func(ctx context.Context, p *process) {
		if _, err := t.introduce(ctx, p, t.Config); err != nil {
			t.fail("%v", err)
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

func (t *trial) drain(ctx context.Context, p *process) {
	_, err := p.api.Drain(ctx, &handlerpb.DrainRequest{})
	if err != nil && status.Code(err) != codes.Unimplemented {
		t.fail("Drain fails: %v", err)
	}
}

func (t *trial) send(stream handlerpb.Handler_DeliverClient, req *handlerpb.DeliverRequest) {
	if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) { // then Recv says why
		t.fail("send events: %v", err)
	}
}

// wantAnswered receives until each of these events has been answered once.
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
				t.fail("%s: the event with seq %d was not asked for, or was answered before",
					what, seq)
			}
			delete(open, seq)
		}
	}
}

// wire returns an event as the handler receives it.
func (t *trial) wire(ev handler.Event, seq uint64) *handlerpb.Event {
	out := onWire(&ev)
	out.Seq, out.TimeLimit = seq, durationpb.New(t.Timeout)
	return out
}

// onWire returns what the protocol says of an event and of its items.
func onWire(ev *handler.Event) *handlerpb.Event {
	out := &handlerpb.Event{
		Id: ev.ID, Rule: ev.Rule, Event: ev.Event, Attempt: uint32(ev.Attempt),
		Resource: &handlerpb.Resource{
			Group: ev.Resource.Group, Version: ev.Resource.Version, Resource: ev.Resource.Resource,
		},
		Namespace: ev.Namespace, Name: ev.Name, Uid: ev.UID, ResourceVersion: ev.ResourceVersion,
		Traceparent: ev.Traceparent, Object: ev.Object, Old: ev.Old, Payload: ev.Payload,
	}
	if e := ev.Epoch; !e.IsZero() {
		out.Epoch = &handlerpb.Epoch{Cluster: e.Cluster, Generation: e.Generation, Term: e.Term}
	}
	for name, objects := range ev.Attached {
		if out.Attached == nil {
			out.Attached = make(map[string]*handlerpb.Objects)
		}
		out.Attached[name] = &handlerpb.Objects{}
		for _, o := range objects {
			out.Attached[name].Items = append(out.Attached[name].Items, o)
		}
	}
	for i := range ev.Items {
		out.Items = append(out.Items, onWire(&ev.Items[i]))
	}
	return out
}
