package running

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/source"
)

// Work is a plan at work: what runs for its sources, rules, handlers and informers. Once the engine
// has taken it up, its lists do not change: Reload makes another work, which shares with it
// everything that stays.
type Work struct {
	Sources     []*live.Source // those of rules without a source last
	Rules       []*live.Rule
	Dispatchers []*live.Dispatcher
	Intakes     intake.Set
	Waiting     []*intake.Waiting
	Metrics     []*live.Metric // of manifests
}

// Rule returns the rule with that name, or nil.
func (w *Work) Rule(name string) *live.Rule {
	for _, r := range w.Rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// renamed returns the rule that had a name before it was renamed, or nil.
func (w *Work) renamed(former string) *live.Rule {
	for _, r := range w.Rules {
		if r.Former != "" && r.Former == former {
			return r
		}
	}
	return nil
}

// ByID returns the rule with that id, or nil.
func (w *Work) ByID(id string) *live.Rule {
	for _, r := range w.Rules {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// source returns the source with that name, or nil.
func (w *Work) source(name string) *live.Source {
	for _, s := range w.Sources {
		if s.Name == name && !s.IsRule() {
			return s
		}
	}
	return nil
}

// dispatcher returns the dispatcher of a handler, or nil. "" means that of the rules' own actions.
func (w *Work) dispatcher(handler string) *live.Dispatcher {
	for _, d := range w.Dispatchers {
		if d.Name == handler || handler == "" && d.Handler == nil {
			return d
		}
	}
	return nil
}

// Intake returns the intake of an informer with the selection of planned, or nil.
func (w *Work) Intake(planned *plan.Informer) *intake.Intake {
	for _, in := range w.Intakes {
		isFixed := in.Planned.Fixed != nil
		if in.Planned.Selection == planned.Selection && isFixed == (planned.Fixed != nil) {
			return in
		}
	}
	return nil
}

// AwaitFollowing returns when all rules that began to catch up have done so.
func (w *Work) AwaitFollowing(ctx context.Context) error {
	for _, in := range w.Intakes {
		for in.HasCaughtUp() && in.HasCatchUps() {
			if !intake.Rest(ctx, 10*time.Millisecond) {
				return fmt.Errorf("rules still learn what has changed for them before: %w",
					context.Cause(ctx))
			}
		}
	}
	return nil
}

// sourceNames returns the names of the sources of a work that look at an informer.
func sourceNames(w *Work, of *source.Informer) (names []string) {
	for _, s := range w.Sources {
		if !s.IsRule() && slices.Contains(s.View.Informers(), of) {
			names = append(names, s.Name)
		}
	}
	return names
}

// KeepsTooLittle reports whether an informer has to keep more of its objects for a plan.
func KeepsTooLittle(in *intake.Intake, planned *plan.Informer) bool {
	return !resume.Covers(resume.Kept(in.Informer.Kept()), planned.Keep)
}

// Widen makes informers that stay keep what a plan needs of their objects. To the rules that run,
// nothing changes.
func (w *Work) Widen(ctx context.Context, p *plan.Plan) error {
	for _, planned := range p.AllInformers() {
		in := w.Intake(planned)
		if in == nil || !KeepsTooLittle(in, planned) {
			continue
		}
		if err := in.Informer.Widen(ctx, planned.Keep); err != nil {
			state, reason := in.Informer.State()
			return fmt.Errorf("source %s has to keep more of its objects, and has not listed them "+
				"again yet (it is %s): reload again when it has: %w",
				strings.Join(sourceNames(w, in.Informer), ", "),
				strings.TrimSuffix(fmt.Sprintf("%v: %s", state, reason), ": "), err)
		}
	}
	return nil
}
