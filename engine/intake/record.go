package intake

import (
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
)

// record is what the state keeps of one informer. The nil record keeps nothing. The informer's
// intake calls its methods. It calls apply, put and hold between begin and end.
type record struct {
	store    *state.Store
	id       string
	informer *state.Objects
	keep     *object.Paths
	isSecret bool
}

// newRecord returns the record of an informer, or nil if nothing is kept.
func newRecord(store *state.Store, id string, planned *plan.Informer, of *source.Informer) *record {
	if store == nil {
		return nil
	}
	r := &record{
		store: store, id: id, keep: planned.Keep,
		isSecret: planned.Resource == object.Secrets,
	}
	r.informer = store.Objects(r.id, state.ObjectsOptions{
		Packer: of.Packer(), Kept: resume.Kept(planned.Keep), Secret: r.isSecret,
	})
	return r
}

// pace waits while more is recorded than the disk has had time to write. See [state.Store.Pace].
func (r *record) pace() {
	if r != nil {
		r.store.Pace()
	}
}

// begin begins a cut, and end ends it.
func (r *record) begin() (end func()) {
	if r == nil {
		return func() {}
	}
	r.store.Begin()
	return r.store.End
}

// apply records what a change says about the informer. Parts of the old cut that late rules still
// need stay on disk for now, and resuming holds the new states.
func (r *record) apply(c *evaluate.Change, resuming *resuming) {
	if r == nil {
		return
	}
	if o := c.Put; o != nil && !resuming.hold(delta.KeyOf(o), o, r.isSecret) {
		r.informer.Put(o, c.Inside)
	}
	if o := c.Gone; o != nil && !resuming.drop(delta.KeyOf(o)) {
		r.informer.Delete(delta.KeyOf(o))
	}
	if c.Moved {
		if position, ok := resuming.positionAfter(c.Position); ok {
			r.informer.Version(position)
		}
	}
}
