package intake

import (
	"github.com/informd/informd/engine/due"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/gauges"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
)

// sinks are where the changes of one informer go. The informer's lock guards them.
type sinks struct {
	informer *source.Informer
	offering offering        // to the rules' lanes
	waits    due.Rules       // what waits to become a member
	gauges   *gauges.Set     // nil if it has none
	record   *record         // nil keeps no record
	learns   *learning       // which may hold records back
	change   evaluate.Change // reused for each step
}

// begin returns an empty change for the next step.
func (s *sinks) begin() *evaluate.Change {
	s.change.Reset()
	return &s.change
}

// commit applies the change that o causes in one cut: the lanes take their matches, and the state
// takes its records. Within the cut nothing is evaluated, logged or waited for. commit reports the
// change afterwards. o is nil if only the position moves.
func (s *sinks) commit(c *evaluate.Change, o *object.Object) {
	if o != nil { // first: whatever panics below, the object has changed
		s.learns.changed(o)
	}
	s.offering.stamp(c)
	if !c.IsEmpty() {
		s.apply(c)
	}
	s.gauges.Apply(c)
	s.offering.report(c, o)
}

// apply does the work of commit, as one cut.
func (s *sinks) apply(c *evaluate.Change) {
	if s.record != nil {
		s.record.store.Begin()
		defer s.record.store.End()
	}
	for i := range c.Matches {
		s.offering.offer(&c.Matches[i], c)
	}
	if s.waits.Apply(c.Waits) {
		s.informer.Wake()
	}
	s.record.apply(c, s.learns.resuming)
}
