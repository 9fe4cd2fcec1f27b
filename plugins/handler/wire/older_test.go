package wire

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// olderRequest returns DeliverRequest as it was before events had an epoch.
func olderRequest(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
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
		t.Fatal(err)
	}
	return older.Messages().ByName("DeliverRequest")
}

// Without an epoch and a place in a trace, a message is what it was before there were any. With them,
// an older handler reads everything else, and a newer one reads what an older informd sends.
func TestOlderPeers(t *testing.T) {
	plain := full()
	plain.Epoch, plain.Traceparent = handler.Epoch{}, ""
	for _, c := range []struct {
		why     string
		event   handler.Event
		unknown bool
	}{{"without", plain, false}, {"with", full(), true}} {
		sent := batch{attempts: []Attempt{{Event: c.event, Seq: 1}}}
		message := sent.encode(NewEncoder(testLimit)).Buffers().Materialize()
		got := dynamicpb.NewMessage(olderRequest(t))
		if err := proto.Unmarshal(message, got); err != nil {
			t.Fatal(err)
		}
		events := got.Get(got.Descriptor().Fields().ByName("events")).List()
		event := events.Get(0).Message()
		if has := len(event.GetUnknown()) > 0; has != c.unknown {
			t.Errorf("%s: it has fields that an older handler does not know: %v", c.why, has)
		}
		event.SetUnknown(nil)
		var r Request
		if err := r.decode(marshal(t, got)); err != nil {
			t.Fatal(err)
		}
		older := batch{attempts: []Attempt{{Event: plain, Seq: 1}}}
		if diff := r.diff(older.inProto()); diff != "" {
			t.Errorf("%s: %s", c.why, diff)
		}
	}
}
