package running

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
)

// Present is the plan at work, and while a reload carries it out, the next one. It is safe for
// concurrent use.
type Present struct {
	now  atomic.Pointer[Work]
	next atomic.Pointer[Work]
}

// Work returns the plan at work.
func (p *Present) Work() *Work { return p.now.Load() }

// Intakes returns the intakes of the plan at work.
func (p *Present) Intakes() intake.Set { return p.Work().Intakes }

// Target returns the rule that an operator means by a name, or nil: that of the plan which is in
// force once a reload that is being carried out has ended. Such a rule may not have its own lane
// yet: see live.Memory.Lane. If the rule has ended when the request acts on it, a reload has begun
// meanwhile, and Target returns another one.
func (p *Present) Target(name string) *live.Rule {
	if next := p.next.Load(); next != nil {
		return next.Rule(name)
	}
	return p.Work().Rule(name)
}

// TargetOf returns the rule that retries a letter, or nil. A reload may be about to rename the
// letter.
func (p *Present) TargetOf(letter delivery.Letter) *live.Rule {
	if r := p.Target(letter.Rule); r != nil {
		return r
	}
	w := p.next.Load()
	if w == nil {
		w = p.Work()
	}
	return w.renamed(letter.Rule)
}

// ByID returns the rule with an ID, or nil: that of the plan at work, or else of the next one.
func (p *Present) ByID(id string) *live.Rule {
	if r := p.Work().ByID(id); r != nil {
		return r
	}
	if next := p.next.Load(); next != nil {
		return next.ByID(id)
	}
	return nil
}

// Maker returns the rule that made an event under this name, or nil. What is in flight while a rule
// is renamed has its former name. What is delivered while a reload renames it may have the next
// one.
func (p *Present) Maker(name string) *live.Rule {
	next := p.next.Load()
	w := p.Work()
	if r := w.Rule(name); r != nil {
		return r
	}
	if next != nil {
		if r := next.Rule(name); r != nil {
			return r
		}
	}
	return w.renamed(name)
}

// Settled returns the plan at work. It waits while a reload is carried out. If ctx ends before
// that, it returns the cause.
func (p *Present) Settled(ctx context.Context) (*Work, error) {
	for {
		w := p.Work()
		if p.next.Load() == nil {
			return w, nil
		}
		if !intake.Rest(ctx, time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

// Watched returns the resources of which rules receive changes, some of them more than once.
func (p *Present) Watched() iter.Seq[schema.GroupVersionResource] {
	return func(yield func(schema.GroupVersionResource) bool) {
		for _, in := range p.Intakes() {
			if len(in.Rules) > 0 && !yield(in.Planned.Resource) {
				return
			}
		}
	}
}

// Take makes w the plan at work.
func (p *Present) Take(w *Work) { p.now.Store(w) }

// Prepare makes w the next plan, while a reload carries it out. ends says that the reload is
// through.
func (p *Present) Prepare(w *Work) (ends func()) {
	p.next.Store(w)
	return func() { p.next.Store(nil) }
}
