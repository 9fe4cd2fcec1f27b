package daemon

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/rbac"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rights"
	"github.com/informd/informd/engine/source"
)

const (
	// rightsTick is how often permissions looks whether there is a cause to ask. While a right is
	// missing, or a source forbidden, it asks that often.
	rightsTick = 2 * time.Second
	// rightsPeriod is how often it asks without a cause: somebody may take a right away.
	rightsPeriod = 5 * time.Minute
	// rightsShare bounds the part of the time that is spent with asking: one in so many.
	rightsShare = 20
)

// retrier is what permissions needs of an [engine.Engine].
type retrier interface {
	Status() admin.Status
	RetryRule(rule, object string) (n int, err error)
}

// permissions knows which rights the daemon lacks of those that its plan needs. It asks the API
// server in the background, and nothing waits for it.
type permissions struct {
	reviewer   *rbac.Reviewer
	keepsState bool
	log        *slog.Logger
	woken      chan struct{} // capacity 1: holds a token after a refusal

	plan   func() *plan.Plan // set before run; a reload changes what it returns
	engine retrier           // set before run

	mu      sync.Mutex
	known   *control.RightsStatus // nil before the first answer; guarded by mu
	refused map[string]struct{}   // rules with a refused action since retry was called; guarded by mu
}

func newPermissions(reviewer *rbac.Reviewer, keepsState bool, log *slog.Logger) *permissions {
	return &permissions{
		reviewer: reviewer, keepsState: keepsState, log: log, woken: make(chan struct{}, 1),
	}
}

// follow sets what permissions asks for. It must be called before run.
func (p *permissions) follow(plan func() *plan.Plan, eng retrier) {
	p.plan, p.engine = plan, eng
}

// acted notes that an action has ended. It makes permissions ask soon if RBAC has refused it.
func (p *permissions) acted(d action.Done) {
	if d.Code == http.StatusForbidden {
		p.mu.Lock()
		if p.refused == nil {
			p.refused = make(map[string]struct{})
		}
		p.refused[d.Rule] = struct{}{}
		p.mu.Unlock()
		select {
		case p.woken <- struct{}{}:
		default:
		}
	}
}

// status returns what is known. It returns nil before the first answer.
func (p *permissions) status() *control.RightsStatus {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// gauge returns the metric of what is missing.
func (p *permissions) gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "informd_rights_missing",
		Help: "Rights in the cluster that the manifests need and that informd lacks; " +
			"NaN if the API server has not answered.",
	}, func() float64 {
		if s := p.status(); s != nil && s.Unknown == "" {
			return float64(s.Missing)
		}
		return math.NaN()
	})
}

// run asks until ctx ends.
func (p *permissions) run(ctx context.Context) {
	var asked time.Time
	var of *plan.Plan
	rest := time.Duration(0)
	for {
		now := p.plan()
		known := p.status()
		isDue := known == nil || known.Unknown != "" || known.Missing > 0 || now != of ||
			time.Since(asked) >= rightsPeriod || p.anyForbidden()
		select {
		case <-p.woken:
			isDue = true
		default:
		}
		if isDue {
			began := time.Now()
			p.ask(ctx, now)
			asked, of, rest = time.Now(), now, rightsShare*time.Since(began)
		}
		select {
		case <-time.After(max(rightsTick, rest)):
		case <-ctx.Done():
			return
		}
		rest = 0
	}
}

// missing asks for each right that a plan needs. err says why the answer is not known.
func (p *permissions) missing(
	ctx context.Context, of *plan.Plan,
) (is *control.RightsStatus, err error) {
	needs := rights.Of(of, p.keepsState)
	missing, err := p.reviewer.Missing(ctx, needs)
	is = &control.RightsStatus{Needed: len(needs), Asked: time.Now()}
	if err != nil {
		is.Unknown = err.Error()
	}
	var lacking []rights.Need
	for _, n := range missing {
		if n.Unless == "" { // others may be had in another way, and informd rbac --check tells
			lacking = append(lacking, n)
		}
	}
	is.Missing = len(lacking)
	if len(lacking) > 0 {
		is.Lines = strings.Split(strings.TrimSuffix(rights.Text(rights.Lines(lacking)), "\n"), "\n")
	}
	return is, err
}

// ask asks for each right, and logs what has changed.
func (p *permissions) ask(ctx context.Context, of *plan.Plan) {
	is, err := p.missing(ctx, of)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	was := p.known
	if err != nil && was != nil { // what was missing is better than nothing
		is.Missing, is.Lines, is.Asked, is.Needed = was.Missing, was.Lines, was.Asked, was.Needed
	}
	p.known = is
	p.mu.Unlock()
	if err == nil && was != nil && is.Missing < was.Missing {
		p.retry()
	}
	before := ""
	if was != nil {
		before = strings.Join(was.Lines, "\n")
	}
	switch after := strings.Join(is.Lines, "\n"); {
	case err != nil:
		p.log.Debug("could not ask which rights are missing", "error", err)
	case after == before:
	case after == "":
		p.log.Info("informd has all rights that its manifests need")
	default:
		p.log.Warn("informd lacks rights that its manifests need; it goes on by itself once "+
			"somebody grants them", "missing", is.Missing, "needed", is.Needed, "grant", after)
	}
}

// retry has rules try again at once what waits for a retry, if an action of theirs was refused.
func (p *permissions) retry() {
	p.mu.Lock()
	refused := p.refused
	p.refused = nil
	p.mu.Unlock()
	for rule := range refused {
		_, _ = p.engine.RetryRule(rule, "") // it may be gone; a paused rule goes on when it is resumed
	}
}

// anyForbidden reports whether a source is forbidden.
func (p *permissions) anyForbidden() bool {
	return slices.ContainsFunc(p.engine.Status().Sources,
		func(s admin.SourceStatus) bool { return s.State == source.Forbidden })
}
