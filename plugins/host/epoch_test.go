package host_test

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host"
)

func term(n uint64) handler.Epoch {
	return handler.Epoch{Cluster: "c0ffee", Generation: 1, Term: n}
}

func podIn(name string, epoch handler.Epoch) handler.Event {
	ev := pod(name)
	ev.Epoch = epoch
	return ev
}

// The epoch and the place in a trace arrive. An older epoch does not reach the handler.
func TestEpoch(t *testing.T) {
	t.Parallel()
	h := start(t, spec("echo"), host.Options{})
	ready(t, h)
	traced := podIn("back", term(7))
	traced.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	back(t, h, traced)
	back(t, h, podIn("back", term(9)))
	back(t, h, pod("back")) // of an informd without replicas
	_, err := h.Handle(t.Context(), traced)
	if want := "this event comes from an informd that no longer leads: epoch c0ffee/1/7, newest c0ffee/1/9"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	back(t, h, podIn("back", term(9)))
}

// Two informds use one remote handler, as a leader and the one before it. The one before gets nothing
// done any more, whichever connection its events take.
func TestEpochOfTwoInformds(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	process := f.process(1)
	f.resolve(1)
	former, leader := f.remote(host.Options{}), f.remote(host.Options{})
	runs(t, former, 1)
	runs(t, leader, 1)
	for _, c := range []struct {
		of    *host.Remote
		name  string
		epoch handler.Epoch
		done  bool
	}{
		{former, "first", term(7), true},
		{leader, "second", term(8), true},
		{former, "third", term(7), false},
		{leader, "fourth", term(8), true},
		{former, "fifth", term(7), false},
		{former, "sixth", handler.Epoch{Cluster: "another", Generation: 1, Term: 1}, true},
	} {
		_, err := c.of.Handle(t.Context(), podIn(c.name, c.epoch))
		if (err == nil) != c.done {
			t.Errorf("%s: %v", c.name, err)
		}
		waitFor(t, "the process to say what it did", func() bool { return !c.done || process.did("did "+c.name) == 1 })
		if n := process.did("began " + c.name); (n == 1) != c.done {
			t.Errorf("%s: the handler had it %d times", c.name, n)
		}
	}
}

func init() {
	modes["older"] = func() {
		serveRaw(raw{name: "older", stream: func(stream handlerpb.Handler_DeliverServer) error {
			request := olderRequest()
			for {
				got := dynamicpb.NewMessage(request)
				if err := grpc.ServerStream(stream).RecvMsg(got); err != nil {
					return nil
				}
				var same handlerpb.DeliverRequest // as the older protocol has it
				text, err := proto.MarshalOptions{}.Marshal(known(got))
				if err == nil {
					err = proto.Unmarshal(text, &same)
				}
				if err != nil {
					return err
				}
				resp := &handlerpb.DeliverResponse{}
				for _, ev := range same.GetEvents() {
					if ev.GetName() == "n" && ev.GetEpoch() == nil && len(ev.GetObject()) > 0 {
						resp.Done = append(resp.Done, ev.GetSeq())
					}
				}
				if err := stream.Send(resp); err != nil {
					return err
				}
			}
		}})
	}
}

// known returns a message without the fields that its descriptor lacks.
func known(m *dynamicpb.Message) proto.Message {
	events := m.Get(m.Descriptor().Fields().ByName("events")).List()
	for i := range events.Len() {
		events.Get(i).Message().SetUnknown(nil)
	}
	return m
}

// olderRequest returns DeliverRequest as it was before events had an epoch.
func olderRequest() protoreflect.MessageDescriptor {
	file := protodesc.ToFileDescriptorProto((&handlerpb.DeliverRequest{}).ProtoReflect().Descriptor().ParentFile())
	for _, m := range file.GetMessageType() {
		if m.GetName() != "Event" {
			continue
		}
		var fields []*descriptorpb.FieldDescriptorProto
		for _, field := range m.GetField() {
			if field.GetNumber() <= 16 {
				fields = append(fields, field)
			}
		}
		m.Field = fields
	}
	older, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		panic(err)
	}
	return older.Messages().ByName("DeliverRequest")
}

// A handler that was built before events had an epoch takes those that have one.
func TestEpochForAnOlderHandler(t *testing.T) {
	t.Parallel()
	h := start(t, spec("older"), host.Options{})
	ready(t, h)
	for _, n := range []uint64{7, 8, 7} { // it knows nothing of epochs, and takes all
		ev := podIn("n", term(n))
		ev.Traceparent = "00-a-b-01"
		if _, err := h.Handle(t.Context(), ev); err != nil {
			t.Errorf("term %d: %v", n, err)
		}
	}
}
