package records

import (
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
)

// oldDelivery is a delivery as versions before answers existed wrote it.
const oldDelivery = "0123040202020180ee89ab0d050182ee89ab0d000100029201a101f03e7b2261706956657273696f6e223a227631222c226b696e" +
	"64223a22506f64222c226d65746164617461223a7b226e616d657370616365223a2273686f70222c051328223a22776562222c22" +
	"75690138187569642d6f662d09131c7265736f7572636519634437222c226c6162656c73223a7b22746965720d401c7d7d2c2273" +
	"706563051720657874223a22227d7d029201a101f03e7b2261706956657273696f6e223a227631222c226b696e64223a22506f64" +
	"222c226d65746164617461223a7b226e616d657370616365223a2273686f70222c051328223a22776562222c2275690138187569" +
	"642d6f662d09131c7265736f7572636519634436222c226c6162656c73223a7b22746965720d401c7d7d2c227370656305172065" +
	"7874223a22227d7d01077b2261223a317d"

// Records of earlier versions are readable. A delivery without an answer is written as those
// versions wrote it.
func TestDeliveryRecordedBeforeAnswersExisted(t *testing.T) {
	want := Delivery{
		Value: delivery.Delivery{
			Delta:   delta.Delta{Type: delta.Updated, Object: obj(t, "web", 7, ""), Old: obj(t, "web", 6, "")},
			Payload: json.RawMessage(`{"a":1}`), Stale: true, Undecided: true, Attempts: 2, Failures: 1, Backoff: 1, Losses: 1,
		},
		Sent: true, Since: time.Unix(1790000000, 5), Due: time.Unix(1790000001, 0),
	}
	old, err := hex.DecodeString(oldDelivery)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadDelivery(old, nil)
	if diff := cmp.Diff(want, got, byText); diff != "" || err != nil {
		t.Fatalf("read (-want +got): %s%v", diff, err)
	}
	none := noReferences{}
	if written := hex.EncodeToString(AppendDelivery(nil, &want, false, none)); written != oldDelivery {
		t.Errorf("the delivery is written as %s", written)
	}
	want.Value.Delta.Occasion = 300
	want.Value.Answer = delivery.Recorded(json.RawMessage(`[{"Verb":"delete"}]`))
	got, err = ReadDelivery(AppendDelivery(nil, &want, false, none), nil)
	if diff := cmp.Diff(want, got, byText); diff != "" || err != nil {
		t.Errorf("with an answer (-want +got): %s%v", diff, err)
	}
}

// The flag of a delay that yields is one that earlier versions ignore in deliveries.
func TestDelayThatYields(t *testing.T) {
	d := Delivery{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Added, Object: obj(t, "web", 7, "")}}, Due: time.Unix(1, 0)}
	plain := AppendDelivery(nil, &d, false, noReferences{})
	d.Yields = true
	text := AppendDelivery(nil, &d, false, noReferences{})
	if len(text) != len(plain) || text[1] != plain[1]|isSecret {
		t.Errorf("%x and %x differ in more than a flag", text, plain)
	}
	if got, err := ReadDelivery(text, nil); err != nil || !got.Yields {
		t.Errorf("it yields: %v, %v", got.Yields, err)
	}
}
