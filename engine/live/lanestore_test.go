package live

import (
	"encoding/json"
	"testing"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/queue"
)

// ownVersions is the Own of a rule that made all changes, or none.
type ownVersions bool

func (o ownVersions) Mine(_ delta.Key, version string) bool  { return version != "" && bool(o) }
func (o ownVersions) Begun() uint64                          { return 0 }
func (o ownVersions) Writing(_ delta.Key, first uint64) bool { return false }

// A delivery that is loaded has a Version only if the rule made the change and nothing has come of
// it yet.
func TestLoadedDeliveriesOfOwnChanges(t *testing.T) {
	at := func(version string) *object.Object { return object.FromIdentity("shop", "a", "u", version) }
	for name, c := range map[string]struct {
		own   ownVersions
		spoil func(*queue.Record[delivery.Delivery])
		want  string
	}{
		"its own":                      {own: true, want: "1 to 2"},
		"its own addition":             {own: true, spoil: func(r *queue.Record[delivery.Delivery]) { r.Value.Delta.Type, r.Value.Delta.Old = delta.Added, nil }, want: " to 2"},
		"somebody else's":              {},
		"a deletion":                   {own: true, spoil: func(r *queue.Record[delivery.Delivery]) { r.Value.Delta.Type = delta.Deleted }},
		"of a resync":                  {own: true, spoil: func(r *queue.Record[delivery.Delivery]) { r.Value.Delta.Type = delta.Synced }},
		"the handler had it":           {own: true, spoil: func(r *queue.Record[delivery.Delivery]) { r.Value.Attempts = 1 }},
		"the handler has answered":     {own: true, spoil: func(r *queue.Record[delivery.Delivery]) { r.Value.Answer = delivery.Recorded(json.RawMessage(`[{}]`)) }},
		"the event of a group":         {own: true, spoil: func(r *queue.Record[delivery.Delivery]) { r.Value.Items = make([]delivery.Item, 1) }},
		"a letter, delivered again":    {own: true, spoil: func(r *queue.Record[delivery.Delivery]) { r.Redriven = true }},
		"what only own actions follow": {own: true, spoil: func(r *queue.Record[delivery.Delivery]) { r.Value.Answer = delivery.Acknowledged }},
	} {
		r := queue.Record[delivery.Delivery]{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Updated, Object: at("2"), Old: at("1")}}}
		if c.spoil != nil {
			c.spoil(&r)
		}
		(&laneStore{own: c.own}).recognize(&r)
		if r.Value.Version != c.want {
			t.Errorf("%s: version %q, want %q", name, r.Value.Version, c.want)
		}
	}
	r := queue.Record[delivery.Delivery]{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Updated, Object: at("2"), Old: at("1")}}}
	if (&laneStore{}).recognize(&r); r.Value.Version != "" {
		t.Error("a rule that receives its own changes does not receive one")
	}
}
