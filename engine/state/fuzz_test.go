package state

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// noReferences are those of a record that stands for itself, without dictionaries.
type noReferences struct{}

func (noReferences) dictionary(*object.Dictionary) dictionaryID { return dictionaryID{} }
func (noReferences) repeat(*object.Object, int) bool            { return false }
func (noReferences) wrote(*object.Object, int, int)             {}

// FuzzDecoding checks that decoding any bytes returns a value or an error, and that a decoded value
// survives writing and reading.
func FuzzDecoding(f *testing.F) {
	o := obj(f, "a", 1, "text")
	packer, packedOne := object.NewPacker(), obj(f, "b", 2, "text and text and text and text")
	packer.Pack(packedOne)
	none := noReferences{}
	d := delta.Delta{Type: delta.Updated, Object: o, Old: packedOne, Round: 3}
	now := time.Unix(1, 2)
	f.Add(appendDelivery(nil, &laneRecord{Value: delivery.Delivery{Delta: d, Payload: json.RawMessage(`{"a":1}`), Attempts: -1}, Since: now}, false, none))
	f.Add(appendDelivery(nil, &laneRecord{Value: delivery.Delivery{Delta: d, Payload: bytes.Repeat([]byte("a"), 1000)}, Due: now}, false, none))
	f.Add(appendDelivery(nil, &laneRecord{Value: delivery.Delivery{Delta: d}}, true, none))
	f.Add(appendDelivery(nil, &laneRecord{Value: delivery.Delivery{Delta: d, Answer: delivery.Recorded(json.RawMessage(`[{"Verb":"delete"}]`))}, Sent: true}, false, none))
	f.Add(appendLetter(nil, &delivery.Letter{ID: "i", Delta: d, Reason: "r", Died: now}, none))
	f.Add(appendRule(nil, &RuleMemory{ID: "r", Name: "b", Resource: "v1/pods", Former: []delivery.Former{{Rule: "r", Last: 1 << 62}}}))
	f.Add(appendRule(nil, &RuleMemory{Name: "r", Resource: "v1/pods", Seen: map[string]string{"a": "", "b": "object.x"}, Paused: true}))
	f.Add(informerRecord{"a", "b", "c"}.append(nil))
	f.Add(Cluster{"a", "b"}.append(nil))
	f.Add(appendObjectRecord(nil, o, []string{"r"}, false, none))
	f.Add(formatOf(formatVersion))
	f.Add(appendDeliveryKey(nil, letters, key("a"), 7))
	f.Add(bytes.Repeat([]byte{1, 0xff}, 40))
	dictionary := func(id dictionaryID) (*object.Dictionary, error) {
		if id[0] == 0 {
			return nil, errRecord
		}
		return new(object.Dictionary), nil
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		if d, err := readDelivery(b, dictionary); err == nil {
			again, err := readDelivery(appendDelivery(nil, &d, false, none), dictionary)
			if diff := cmp.Diff(d, again, byText); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		if l, err := readLetter(b, dictionary); err == nil && !l.OfSecret() {
			again, err := readLetter(appendLetter(nil, &l, none), dictionary)
			if diff := cmp.Diff(l, again, byText); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		if r, err := readRule(b); err == nil {
			again, err := readRule(appendRule(nil, &r))
			if diff := cmp.Diff(r, again); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		if n, err := readNote(b); err == nil {
			again, err := readNote(appendNote(nil, noteID{n.Rule, n.Name}, n.Value))
			if diff := cmp.Diff(n, again); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		if i, err := readInformer(b); err == nil {
			if again, err := readInformer(i.append(nil)); again != i || err != nil {
				t.Error(again, err)
			}
		}
		if c, err := readCluster(b); err == nil {
			if again, err := readCluster(c.append(nil)); again != c || err != nil {
				t.Error(again, err)
			}
		}
		if k, n, ok := parseDeliveryKey(b); ok {
			var o owner
			copy(o[:], b)
			if again, m, ok := parseDeliveryKey(appendDeliveryKey(nil, o, k, n)); again != k || m != n || !ok {
				t.Error(again, m, ok)
			}
		}
		_, _ = readFormat(b)
		r := reader{left: b}
		r.version()
		r.strings()
		_, _, _ = r.object(dictionary)
		if !bytes.Equal(b, before) {
			t.Error("decoding changes what it reads")
		}
	})
}

// A record may claim to hold more than it does.
func TestHostileLengthsAllocateLittle(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	for _, b := range [][]byte{
		append([]byte{recordVersion, 0}, huge...),
		append([]byte{recordVersion}, huge...),
		append([]byte{recordVersion, 0, packed, 5}, huge[:5]...),
	} {
		allocated := testing.AllocsPerRun(10, func() {
			_, _ = readRule(b)
			_, _ = readInformer(b)
			_, _ = readDelivery(b, nil)
			r := reader{left: b[1:]}
			_, _, _ = r.object(nil)
		})
		if allocated > 10 {
			t.Errorf("%x: %v allocations", b, allocated)
		}
	}
}
