package ruletest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/simulate"
	"github.com/informd/informd/plugins/handler"
)

// result is what a test gave.
type result struct {
	test     *config.Test
	steps    []played // those that were done
	failures []failure
	edits    []edit // the expects that are not what came, as they would be
	log      string // what the daemon would have logged: warnings and errors
	took     time.Duration
}

// played is what came of a step.
type played struct {
	*config.Step
	what  string        // as spec.steps[3]
	at    time.Time     // by the clock, at the end of the step
	until time.Duration // since the start of the test, without what the clock was set by
	came  []came
}

// failure is one thing that is wrong. It may have the verdict of an expect behind it.
type failure struct {
	at      config.Text
	message string
	details []string // lines below the message

	isVerdict   bool           // it is about what came, and the fields below may be set
	want        map[string]any // nil: no event is missing
	nearest     *came          // what came in its place; nil: nothing
	differences []difference
	unexpected  []came // what came that nobody expects
}

// count returns how many events came.
func (r *result) count() (n int) {
	for _, step := range r.steps {
		for _, c := range step.came {
			if !c.isFailure() {
				n++
			}
		}
	}
	return n
}

// run does the steps of a test on a plan that has its rules.
func run(test *config.Test, p *plan.Plan) *result {
	began := time.Now()
	var log bytes.Buffer
	r := &runner{result: &result{test: test}, script: script{}}
	simulation, err := simulate.New(p, simulate.Options{
		Start:  test.Start,
		Answer: r.script.answer,
		Acted:  r.script.acted,
		Failed: r.failed,
		Logger: slog.New(cli.NewTextLog(&log,
			&slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: cli.Untimed})),
	})
	if err != nil {
		r.fail(test.At, "the test does not start: "+err.Error())
		return r.result
	}
	r.simulation = simulation
	if err := simulation.Advance(0); err != nil { // what is applied from now on is new to the rules
		r.fail(test.At, "the test does not start: "+err.Error())
		return r.result
	}
	for i := range test.Steps {
		if !r.step(&test.Steps[i], fmt.Sprintf("spec.steps[%d]", i)) {
			break
		}
	}
	if err := simulation.Close(); err != nil {
		r.fail(test.At, "the simulation does not end: "+err.Error())
	}
	if len(r.failures) == 0 {
		for _, a := range r.script.waiting {
			switch {
			case a.left < a.Times:
			case a.Target != nil:
				r.fail(a.at, "no action took this answer")
			default:
				r.fail(a.at, "no event took this answer")
			}
		}
	}
	r.log, r.took = log.String(), time.Since(began)
	return r.result
}

// runner does the steps of one test.
type runner struct {
	*result
	simulation *simulate.Simulation
	script     script
	clockSet   time.Duration    // by how much the clock was set in all
	events     []simulate.Event // of the step that is being done
	broken     []came           // likewise: the expressions that failed
	waiting    []came           // came since the last expect
}

// failed notes that an expression has failed, once per object until somebody expects something.
func (r *runner) failed(rule string, f engine.ExpressionFailure) {
	c := newFailure(rule, f, r.test.Start.Add(r.clockSet))
	isSame := func(other came) bool { return maps.Equal(other.fields, c.fields) }
	if !slices.ContainsFunc(r.waiting, isSame) && !slices.ContainsFunc(r.broken, isSame) {
		r.broken = append(r.broken, c)
	}
}

func (r *runner) fail(at config.Text, message string) {
	r.failures = append(r.failures, failure{at: at, message: message})
}

// step does one step, and reports whether the test can go on.
func (r *runner) step(step *config.Step, what string) bool {
	err := r.do(step)
	if err == nil && (step.Verb != "" || step.Expect != nil) {
		err = r.simulation.Advance(0)
	}
	now, clockStart := r.simulation.Now(), r.test.Start.Add(r.clockSet)
	done := played{Step: step, what: what, at: now, until: now.Sub(clockStart)}
	done.came = r.broken // before the events of the same moment
	for _, ev := range append(r.events, r.simulation.Events()...) {
		done.came = append(done.came, newCame(ev, clockStart))
	}
	slices.SortStableFunc(done.came, func(a, b came) int { return a.at.Compare(b.at) })
	r.events, r.broken = nil, nil
	r.steps = append(r.steps, done)
	r.waiting = append(r.waiting, done.came...)
	if err != nil {
		r.fail(step.At, fmt.Sprintf("%s: %v", what, err))
		return false
	}
	if step.Expect != nil {
		r.expect(step.Expect, what)
		r.waiting = nil
	}
	return true
}

// do does what the verb of a step says.
func (r *runner) do(step *config.Step) error {
	s := r.simulation
	switch step.Verb {
	case config.StepApply:
		return s.Apply(step.Source, step.Body.Literal())
	case config.StepPatch:
		text, ok := s.Get(step.Source, step.Namespace, step.Name)
		if !ok {
			return fmt.Errorf("there is no %s in the source %s", nameOf(step), step.Source)
		}
		return s.Apply(step.Source, patched(text, step.Body.Literal()))
	case config.StepDelete:
		if _, ok := s.Get(step.Source, step.Namespace, step.Name); !ok {
			return fmt.Errorf("there is no %s in the source %s", nameOf(step), step.Source)
		}
		return s.Delete(step.Source, step.Namespace, step.Name)
	case config.StepAfter:
		return r.advance(step.After)
	case config.StepRestart:
		if err := s.Stop(); err != nil {
			return err
		}
		if err := cmp.Or(r.meanwhile(step), s.Advance(step.After)); err != nil {
			return err
		}
		r.clockSet += step.ClockSet // before Run, so that all events of the step come after it
		return s.Run(simulate.Resumption{
			StateLost: step.StateLost, HistoryLost: step.HistoryLost, ClockSet: step.ClockSet,
		})
	case config.StepRelist:
		s.Disconnect()
		if err := r.meanwhile(step); err != nil {
			return err
		}
		return s.Relist(step.HistoryLost)
	case config.StepStall:
		return s.Stall(step.Source)
	case config.StepUnserve:
		return s.Unserve(step.Source, step.Withdrawn)
	case config.StepServe:
		return s.Serve(step.Source)
	case config.StepAnswer:
		r.script.add(step)
	}
	return nil
}

// maxEvents bounds the events of one step: a resync each second makes 31 million in a year.
const maxEvents = 100_000

// advance moves the time on, by one hour at a time to see how many events come.
func (r *runner) advance(d time.Duration) error {
	for d > 0 {
		now := min(d, time.Hour)
		if err := r.simulation.Advance(now); err != nil {
			return err
		}
		d -= now
		r.events = append(r.events, r.simulation.Events()...)
		if len(r.events) > maxEvents {
			return fmt.Errorf("more than %d events came in this step", maxEvents)
		}
	}
	return nil
}

func (r *runner) meanwhile(step *config.Step) error {
	for i := range step.Meanwhile {
		if err := r.do(&step.Meanwhile[i]); err != nil {
			return fmt.Errorf("meanwhile[%d]: %w", i, err)
		}
	}
	return nil
}

func nameOf(step *config.Step) string {
	if step.Namespace == "" {
		return step.Name
	}
	return step.Namespace + "/" + step.Name
}

// patched returns an object after a merge patch (RFC 7396), without the resourceVersion and the
// generation that it had: it gets new ones.
func patched(text, patch []byte) []byte {
	o, _ := decode(text).(map[string]any)
	if metadata, ok := o["metadata"].(map[string]any); ok {
		delete(metadata, "resourceVersion")
		delete(metadata, "generation")
	}
	out, _ := json.Marshal(mergePatch(o, decode(patch))) // decode has made it
	return out
}

func mergePatch(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = make(map[string]any)
	}
	for name, v := range p {
		if v == nil {
			delete(t, name)
		} else {
			t[name] = mergePatch(t[name], v)
		}
	}
	return t
}

// script is what the handlers of a test answer, and what comes of actions.
type script struct{ waiting []*scripted }

// scripted is an answer with events, or actions, left that it answers.
type scripted struct {
	*config.TestAnswer
	at   config.Text
	left int
}

func (s *script) add(step *config.Step) {
	s.waiting = append(s.waiting, &scripted{step.Answer, step.At, step.Answer.Times})
}

// answer answers an event: with the first answer for it that is left, or by acknowledging it.
func (s *script) answer(ev simulate.Event) simulate.Answer {
	a := s.take(func(a *scripted) bool {
		return a.Target == nil && (a.Rule == ev.Rule || a.Handler != "" && a.Handler == ev.Handler)
	})
	switch {
	case a == nil:
		return simulate.Answer{}
	case a.Reject:
		return simulate.Answer{Reject: cmp.Or(a.Reason, "rejected by the test")}
	case a.Retry:
		return simulate.Answer{
			Retry: cmp.Or(a.Reason, "retried by the test"), RetryAfter: a.RetryAfter,
		}
	}
	var answer simulate.Answer
	for _, action := range a.Actions {
		answer.Actions = append(answer.Actions, answered(action, ev.Event))
	}
	return answer
}

// take takes the first answer that is left for which fits returns true, or nil.
func (s *script) take(fits func(*scripted) bool) *scripted {
	for _, a := range s.waiting {
		if a.left > 0 && fits(a) {
			a.left--
			return a
		}
	}
	return nil
}

// acted says what comes of a rule's own action: what the first answer for its target says that is
// left. Otherwise the action is performed.
func (s *script) acted(ev simulate.Event, action handler.Action) simulate.Answer {
	a := s.take(func(a *scripted) bool { return a.Rule == ev.Rule && isTarget(a.Target, action) })
	switch {
	case a == nil:
		return simulate.Answer{}
	case a.Reject:
		return simulate.Answer{Reject: a.Reason}
	}
	return simulate.Answer{
		Retry: cmp.Or(a.Reason, "failed by the test"), RetryAfter: a.RetryAfter,
	}
}

// isTarget reports whether an action is about a target, which may be nil, in whatever version.
func isTarget(t *config.TestTarget, a handler.Action) bool {
	return t != nil && a.Verb != handler.ActionEvent &&
		t.Resource.Group == a.Resource.Group && t.Resource.Resource == a.Resource.Resource &&
		t.Subresource == a.Subresource && t.Namespace == a.Namespace && t.Name == a.Name
}

// answered returns an action of an answer to an event. What it leaves out is the event's object.
func answered(a config.Action, ev handler.Event) handler.Action {
	out := handler.Action{
		Verb: a.Verb, Resource: handler.Resource(a.Resource), Subresource: a.Subresource,
		UID: literal(a.UID), ResourceVersion: literal(a.ResourceVersion),
		Reason: literal(a.Reason), Message: literal(a.Message), Warning: a.Warning,
	}
	isOwn := out.Resource == handler.Resource{} || out.Resource == ev.Resource
	if isOwn {
		out.Resource = ev.Resource
	}
	out.Namespace, out.Name = literal(a.Namespace), literal(a.Name)
	if a.Object != nil {
		out.Object = a.Object.Literal()
		var o struct {
			Metadata struct{ Namespace, Name string }
		}
		_ = json.Unmarshal(out.Object, &o) // a wrong object has no name, which the engine reports
		out.Namespace, out.Name = o.Metadata.Namespace, o.Metadata.Name
	}
	if out.Name == "" {
		out.Name = ev.Name
	}
	if out.Namespace == "" && isOwn {
		out.Namespace = ev.Namespace
	}
	if a.Patch != nil {
		out.Patch = a.Patch.Literal()
		if a.JSONPatch {
			out.PatchType = handler.JSONPatch
		}
	}
	return out
}

// literal returns the text of a value; "" for nil.
func literal(v *config.Value) string {
	if v == nil {
		return ""
	}
	s, _ := decode(v.Literal()).(string)
	return s
}

// expect compares what came since the last expect with what one expects.
func (r *runner) expect(e *config.Expect, what string) {
	wants := make([]map[string]any, len(e.Events))
	for i, want := range e.Events {
		wants[i], _ = decode(want.Literal()).(map[string]any)
	}
	lanes := make([]string, len(r.waiting))
	for i, c := range r.waiting {
		lanes[i] = c.lane
	}
	v := match(len(wants), lanes, e.Exact, func(w, g int) int {
		return distance(eventDifferences(wants[w], r.waiting[g].as(wants[w]), e.Exact))
	})
	if v.ok() {
		return
	}
	r.edits = append(r.edits, r.edit(e, wants, v))
	unexplained := slices.Clone(v.unexpected)
	for _, w := range v.missing {
		f := failure{at: e.Events[w].At, want: wants[w], isVerdict: true}
		f.message = fmt.Sprintf("%s.expect[%d] did not come", what, w)
		if g, ok := v.nearest[w]; ok {
			f.nearest = &r.waiting[g]
			f.differences = eventDifferences(wants[w], f.nearest.as(wants[w]), e.Exact)
			unexplained = slices.DeleteFunc(unexplained, func(u int) bool { return u == g })
			f.details = append([]string{"nearest that came: " + f.nearest.String()},
				explain(f.differences)...)
		} else if len(r.waiting) == 0 {
			f.details = []string{"nothing came" + r.since()}
		} else {
			f.details = []string{"nothing came that another one does not expect"}
		}
		r.failures = append(r.failures, f)
	}
	var events, failed []int
	for _, g := range unexplained {
		if r.waiting[g].isFailure() {
			failed = append(failed, g)
		} else {
			events = append(events, g)
		}
	}
	if n := len(events); n > 0 {
		came := "an event came that"
		if n > 1 {
			came = fmt.Sprintf("%d events came that", n)
		}
		r.failures = append(r.failures, r.unexpected(e, came+" "+what, events))
	}
	if n := len(failed); n > 0 {
		came := "an expression failed, which"
		if n > 1 {
			came = fmt.Sprintf("%d expressions failed, which", n)
		}
		f := r.unexpected(e, came+" "+what, failed)
		f.details = append(f.details,
			"if it must fail, expect "+flow(r.waiting[failed[0]].expected(nil)))
		r.failures = append(r.failures, f)
	}
	if v.reordered {
		f := failure{at: e.At, isVerdict: true}
		f.message = "all of " + what + ".expect came, but in another order:"
		for _, c := range r.waiting {
			f.details = append(f.details, c.String())
		}
		r.failures = append(r.failures, f)
	}
}

// maxUnexpected bounds the events that the text of a failure lists.
const maxUnexpected = 10

// unexpected returns the failure that events came, or expressions failed, which an expect does not
// have. came says how many, and at which step.
func (r *runner) unexpected(e *config.Expect, came string, which []int) failure {
	f := failure{at: e.At, isVerdict: true, message: came + ".expect does not have:"}
	for i, g := range which {
		c := r.waiting[g]
		f.unexpected = append(f.unexpected, c)
		switch {
		case i < maxUnexpected:
			f.details = append(f.details, c.String())
			for _, line := range c.details() {
				f.details = append(f.details, "  "+line)
			}
		case i == maxUnexpected:
			f.details = append(f.details,
				fmt.Sprintf("… and %d more: -v lists all", len(which)-maxUnexpected))
		}
	}
	return f
}

// edit returns what a test would say if it expected what came. An event that came in the place of
// an expected one has the fields of that, too.
func (r *runner) edit(e *config.Expect, wants []map[string]any, v verdict) edit {
	shapes := make(map[int]map[string]any) // by what came
	for w, g := range v.nearest {
		shapes[g] = wants[w]
	}
	out := edit{Extent: e.Extent}
	for g, c := range r.waiting {
		if w, fits := v.assigned[g]; fits { // it stays as the author wrote it
			out.events = append(out.events, cmp.Or(e.Events[w].Source, flow(wants[w])))
			continue
		}
		out.events = append(out.events, flow(c.expected(shapes[g])))
	}
	return out
}

// since says since when nothing came.
func (r *runner) since() string {
	for i := len(r.steps) - 2; i >= 0; i-- { // the last step is the one that expects
		if r.steps[i].Expect != nil {
			return " since " + r.steps[i].what
		}
	}
	return ""
}

// distance weighs differences: an event of another object is less like the one that is expected
// than one whose payload differs.
func distance(differences []difference) (n int) {
	for _, d := range differences {
		switch d.Path {
		case "rule", "namespace", "name":
			n += 100
		case "event":
			n += 10
		default:
			n++
		}
	}
	return n
}

// maxExplained bounds the differences that a report lists.
const maxExplained = 20

// explain describes differences, one line each.
func explain(differences []difference) (lines []string) {
	for i, d := range differences {
		if i == maxExplained {
			return append(lines, fmt.Sprintf("  … and %d more differences", len(differences)-i))
		}
		note := ""
		if d.Note != "" {
			note = " (" + d.Note + ")"
		}
		lines = append(lines, fmt.Sprintf("  %s: want %s, got %s%s",
			d.Path, shown(d.Want), shown(d.Got), note))
	}
	return lines
}

// compile returns the plan of the rules that a test names; whole if it names none. What the test
// reaches is noted in covered, which may be nil.
func compile(
	test *config.Test, cfg *config.Config, whole *plan.Plan, covered *coverage,
) (*plan.Plan, error) {
	if test.Rules == nil && covered == nil {
		return whole, nil
	}
	only := *cfg
	only.Rules = slices.DeleteFunc(slices.Clone(cfg.Rules), func(r config.Rule) bool {
		return test.Rules != nil && !slices.ContainsFunc(test.Rules, func(name config.Text) bool {
			return name.String() == r.Name
		})
	})
	var p *plan.Plan
	var mistakes config.Mistakes
	if covered == nil {
		p, mistakes = plan.Compile(&only)
	} else {
		p, mistakes = plan.CompileWatched(&only, covered.watch)
	}
	if len(mistakes) > 0 {
		return nil, errors.New(strings.TrimSpace(mistakes.Error()))
	}
	return p, nil
}
