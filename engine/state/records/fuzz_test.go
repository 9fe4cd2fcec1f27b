package records

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/fields"
)

// noReferences are those of a record that stands for itself, without dictionaries.
type noReferences struct{}

func (noReferences) Dictionary(*object.Dictionary) DictionaryID { return DictionaryID{} }
func (noReferences) Repeat(*object.Object, int) bool            { return false }
func (noReferences) Wrote(*object.Object, int, int)             {}

// FuzzDecoding checks that decoding any bytes returns a value or an error, and that a decoded value
// survives writing and reading.
func FuzzDecoding(f *testing.F) {
	o := obj(f, "a", 1, "text")
	packer, packedOne := object.NewPacker(), obj(f, "b", 2, "text and text and text and text")
	packer.Pack(packedOne)
	none := noReferences{}
	d := delta.Delta{Type: delta.Updated, Object: o, Old: packedOne, Round: 3}
	now := time.Unix(1, 2)
	f.Add(AppendDelivery(nil, &Delivery{Value: delivery.Delivery{Delta: d, Payload: json.RawMessage(`{"a":1}`), Attempts: -1}, Since: now}, false, none))
	f.Add(AppendDelivery(nil, &Delivery{Value: delivery.Delivery{Delta: d, Payload: bytes.Repeat([]byte("a"), 1000)}, Due: now}, false, none))
	f.Add(AppendDelivery(nil, &Delivery{Value: delivery.Delivery{Delta: d}}, true, none))
	f.Add(AppendDelivery(nil, &Delivery{Value: delivery.Delivery{Delta: d, Answer: delivery.Recorded(json.RawMessage(`[{"Verb":"delete"}]`))}, Sent: true}, false, none))
	f.Add(AppendDelivery(nil, &Delivery{Value: delivery.Delivery{Delta: d}, Due: now, Yields: true}, false, none))
	f.Add(AppendLetter(nil, &delivery.Letter{ID: "i", Delta: d, Reason: "r", Died: now}, none))
	f.Add(AppendRule(nil, &Rule{ID: "r", Name: "b", Resource: "v1/pods", Former: []delivery.Former{{Rule: "r", Last: 1 << 62}}}))
	f.Add(AppendRule(nil, &Rule{Name: "r", Resource: "v1/pods", Seen: map[string]string{"a": "", "b": "object.x"}, Paused: true}))
	f.Add(AppendInformer(nil, Informer{"a", "b", "c"}))
	f.Add(AppendCluster(nil, Cluster{"a", "b"}))
	f.Add(AppendObject(nil, o, []string{"r"}, false, none))
	f.Add(AppendClaim(nil, &Claim{State: 1, Owns: true, Order: -1, Event: 1 << 63, Version: "v1"}))
	f.Add(AppendClaim(nil, &Claim{State: 3, Dropped: true, Failures: 7, Due: now, Cause: "quota", Reason: "r", FormerRule: "r", FormerKey: key("a")}))
	f.Add(AppendWrite(nil, &Write{N: 7, At: time.Minute, Group: "apps", Resource: "deployments", Key: key("a"), From: "1", To: "2", Depth: 2, Chain: []string{"r", "q"}}))
	f.Add(FormatOf(FormatVersion))
	f.Add(AppendDeliveryKey(nil, Letters, key("a"), 7))
	f.Add(bytes.Repeat([]byte{1, 0xff}, 40))
	dictionary := func(id DictionaryID) (*object.Dictionary, error) {
		if id[0] == 0 {
			return nil, fields.ErrMalformed
		}
		return new(object.Dictionary), nil
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		if d, err := ReadDelivery(b, dictionary); err == nil {
			again, err := ReadDelivery(AppendDelivery(nil, &d, false, none), dictionary)
			if diff := cmp.Diff(d, again, byText); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		if l, err := ReadLetter(b, dictionary); err == nil && !l.OfSecret() {
			again, err := ReadLetter(AppendLetter(nil, &l, none), dictionary)
			if diff := cmp.Diff(l, again, byText); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		if r, err := ReadRule(b); err == nil {
			again, err := ReadRule(AppendRule(nil, &r))
			if diff := cmp.Diff(r, again); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		if n, err := ReadNote(b); err == nil {
			again, err := ReadNote(AppendNote(nil, NoteID{n.Rule, n.Name}, n.Value))
			if diff := cmp.Diff(n, again); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		if c, err := ReadClaim(b); err == nil {
			again, err := ReadClaim(AppendClaim(nil, &c))
			if diff := cmp.Diff(c, again); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		if w, err := ReadWrite(b); err == nil {
			again, err := ReadWrite(AppendWrite(nil, &w))
			if diff := cmp.Diff(w, again); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		if i, err := ReadInformer(b); err == nil {
			if again, err := ReadInformer(AppendInformer(nil, i)); again != i || err != nil {
				t.Error(again, err)
			}
		}
		if c, err := ReadCluster(b); err == nil {
			if again, err := ReadCluster(AppendCluster(nil, c)); again != c || err != nil {
				t.Error(again, err)
			}
		}
		if k, n, ok := ParseDeliveryKey(b); ok {
			var o Owner
			copy(o[:], b)
			if again, m, ok := ParseDeliveryKey(AppendDeliveryKey(nil, o, k, n)); again != k || m != n || !ok {
				t.Error(again, m, ok)
			}
		}
		_, _ = ReadFormat(b)
		_, inside, _, _ := ReadObject(b, dictionary)
		ReadInside(inside)
		r := fields.Reader{Left: b}
		readVersion(&r)
		r.Texts()
		_, _, _ = readForm(&r, dictionary)
		if !bytes.Equal(b, before) {
			t.Error("decoding changes what it reads")
		}
	})
}

// A record may claim to hold more than it does.
func TestHostileLengthsAllocateLittle(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	for _, b := range [][]byte{
		append([]byte{Version, 0}, huge...),
		append([]byte{Version}, huge...),
		append([]byte{Version, 0, packed, 5}, huge[:5]...),
	} {
		allocated := testing.AllocsPerRun(10, func() {
			_, _ = ReadRule(b)
			_, _ = ReadInformer(b)
			_, _ = ReadClaim(b)
			_, _ = ReadWrite(b)
			_, _ = ReadDelivery(b, nil)
			r := fields.Reader{Left: b[1:]}
			_, _, _ = readForm(&r, nil)
		})
		if allocated > 10 {
			t.Errorf("%x: %v allocations", b, allocated)
		}
	}
}
