package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/acting"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/timing"
)

// Stepping are the Options of an Engine that a Stepper drives in place of Run.
type Stepping struct {
	// Cluster takes the place of the cluster, for actions. Its methods must not call the engine.
	Cluster acting.Virtual
	// Died, if not nil, gets each dead letter. It must not call the engine.
	Died func(delivery.Letter)
	// Failed, if not nil, gets each failure of an expression that makes no dead letter. rule is the
	// rule's name. For an index or a metric it is empty, and f.Reason begins with its name. Failed
	// must not call the engine.
	Failed func(rule string, f live.ExpressionFailure)
}

// Stepper drives an Engine on its caller's goroutine, in the time of Options.Clock. It takes the
// place of everything that Run does with goroutines: the Hands give it what informers receive, and
// it sends no request. What an event does is decided by the same code.
//
// Two things are left out. It does not look for objects that a rule has applied and no longer
// wants, because there is no cluster to look in. And it does not run the state: records are written
// by Stop, all at once, so that nothing waits for them.
//
// Its calls, and those of its Hands, must not overlap.
type Stepper struct {
	engine *Engine
	hands  []Hand
	waits  []wait
}

// Hand drives one informer of the plan.
type Hand struct {
	object.Selection
	*source.Hand
	isFixed bool
}

// wait is what happens once informers have settled.
type wait struct {
	on     []*source.Informer
	awaits func(*source.Informer) bool
	then   func(context.Context)
}

// NewStepper makes an Engine and its Stepper. o.Stepping and o.Clock must be set; handlers is as
// New takes it. It resumes from the state, as Run does. After an error it has closed the state.
func NewStepper(p *plan.Plan, handlers map[string]live.Handler, o Options) (*Stepper, error) {
	e, err := New(p, nowhere(), handlers, o)
	if err != nil {
		e = &Engine{store: o.State}
	} else {
		err = e.resumeIn(context.Background(), "")
	}
	if err != nil {
		return nil, errors.Join(err, e.endState())
	}
	e.phase.Loaded.Store(true)
	s := &Stepper{engine: e}
	for _, in := range e.work().Intakes {
		s.hands = append(s.hands, Hand{
			in.Informer.Selection(), in.Informer.Hand(), in.Informer.IsFixed(),
		})
	}
	for _, in := range e.work().Intakes {
		if then := in.OnceSettled(); then != nil {
			on := []*source.Informer{in.Informer}
			s.waits = append(s.waits, wait{on: on, awaits: live.IsUnsettled, then: then})
		}
	}
	for _, w := range e.work().Waiting {
		s.waits = append(s.waits, wait{w.On, w.Awaits, w.Run})
	}
	return s, nil
}

// nowhere returns a cluster to which no request is sent.
func nowhere() Cluster {
	config := &rest.Config{Host: "https://nowhere.invalid"}
	return Cluster{
		Config: config, HTTP: &http.Client{},
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(config),
	}
}

// Hands returns a Hand for each informer of the cluster, in the order of the plan. The caller
// begins each of them with Resume or List.
func (s *Stepper) Hands() []Hand {
	return slices.DeleteFunc(slices.Clone(s.hands), func(h Hand) bool { return h.isFixed })
}

// Work does everything that is due at the time of the clock: rounds of informers, and attempts at
// deliveries. It returns when something is due again; zero means never. Timers come on top of that.
func (s *Stepper) Work(ctx context.Context) (due time.Time) {
	for {
		now := s.engine.parts.Clock.Now()
		due = time.Time{}
		for _, h := range s.hands {
			due = timing.Earlier(due, h.Tick())
		}
		for _, r := range s.engine.work().Rules {
			if r.Pruning != nil {
				due = timing.Earlier(due, r.Pruning.Spared.Prune(ctx))
			}
		}
		s.Settle(ctx)
		due = timing.Earlier(due, s.deliver(ctx))
		if due.IsZero() || due.After(now) {
			return due
		}
	}
}

// deliver makes attempts until nothing is ready. The handlers take turns. It returns when one may
// load deliveries again; zero means never.
func (s *Stepper) deliver(ctx context.Context) (due time.Time) {
	for delivered := true; delivered; {
		delivered, due = false, time.Time{}
		s.engine.parts.Heirs.Offer(&s.engine.parts)
		for _, d := range s.engine.work().Dispatchers {
			next, ok := d.Step(ctx)
			delivered = delivered || ok
			due = timing.Earlier(due, next)
		}
	}
	return due
}

// Settle lets rules go on that have waited for informers, if those have settled meanwhile. It
// delivers nothing.
func (s *Stepper) Settle(ctx context.Context) {
	s.waits = slices.DeleteFunc(s.waits, func(w wait) bool {
		if slices.ContainsFunc(w.on, w.awaits) {
			return false
		}
		w.then(ctx) // does not wait
		return true
	})
}

// Stop ends the engine, and writes its state.
func (s *Stepper) Stop() error {
	for _, r := range s.engine.work().Rules {
		r.Lane.Close()
	}
	s.engine.phase.Ended.Store(true)
	return s.engine.endState()
}

// Engine returns the engine, for operators' requests and reports.
func (s *Stepper) Engine() *Engine { return s.engine }

// endState writes and closes the state.
func (e *Engine) endState() error {
	if e.store == nil {
		return nil
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return e.store.Run(ended)
}

// step adapts the options of a dispatcher to a Stepper.
func (s *Stepping) step(o *dispatch.Options) {
	if s == nil {
		return
	}
	o.IsStepped = true
	if store, ok := o.Journal.(*state.Store); ok {
		o.Journal = unwritten{store}
	}
}

// keepAll adapts the options of a lane to a Stepper: nothing is left to the state alone, because
// only Stop writes that.
func (s *Stepping) keepAll(o *dispatch.LaneOptions) {
	if s != nil {
		o.MaxItems, o.MaxBytes = math.MaxInt, math.MaxInt64
	}
}

// failed returns what reports the failures of a rule, an index or a metric, which attrs name.
func (s *Stepping) failed(attrs []any) func(live.ExpressionFailure) {
	if s == nil || s.Failed == nil {
		return func(live.ExpressionFailure) {}
	}
	if attrs[0] == "rule" {
		return func(f live.ExpressionFailure) { s.Failed(fmt.Sprint(attrs[1]), f) }
	}
	return func(f live.ExpressionFailure) {
		for i := len(attrs) - 2; i >= 0; i -= 2 {
			f.Reason = fmt.Sprintf("%v %v: %s", attrs[i], attrs[i+1], f.Reason)
		}
		s.Failed("", f)
	}
}

// order sorts objects that were loaded in any order.
func (s *Stepping) order(loaded []*object.Object) {
	if s != nil {
		slices.SortFunc(loaded, byKey)
	}
}

func byKey(a, b *object.Object) int { return strings.Compare(a.Key(), b.Key()) }

// letters returns where dead letters go.
func (s *Stepping) letters(box *dispatch.LetterBox) dispatch.DeadLetters {
	if s == nil || s.Died == nil {
		return box
	}
	return reported{box, s.Died}
}

// reported is a LetterBox that reports each letter.
type reported struct {
	*dispatch.LetterBox
	died func(delivery.Letter)
}

// Add implements dispatch.DeadLetters.
func (r reported) Add(l delivery.Letter) (evicted []delivery.Letter, err error) {
	r.died(l)
	return r.LetterBox.Add(l)
}

// unwritten is the journal of a state that does not run. What Stop writes counts as written.
type unwritten struct{ *state.Store }

// Written implements dispatch.Journal.
func (unwritten) Written(context.Context) error { return nil }

// Await implements dispatch.Journal.
func (unwritten) Await(context.Context, uint64) error { return nil }
