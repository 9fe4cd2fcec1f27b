package client

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/config"
)

// problem is one thing that is wrong, with what to do about it.
type problem struct {
	what, todo string
	quoted     []string // the last words of a process
	lines      []string // to copy, as they are
}

// problems returns what is wrong: what concerns everything first. It is empty if all is well. Its
// advice names commands for the daemon that flags name.
func problems(s control.Status, flags *controlFlags, now time.Time) (all []problem) {
	add := func(todo, what string, args ...any) {
		all = append(all, problem{what: cli.Printable(fmt.Sprintf(what, args...)), todo: todo})
	}
	if s.Store != nil && !s.Store.Durable {
		add("make room on "+s.Store.Directory+", or mend the disk; informd goes on meanwhile",
			"the state is not durable: %s", s.Store.Trouble)
	}
	if s.Reload != nil && s.Reload.Error != "" {
		add("mend the manifests, and try informd reload; informd goes on with those that it has",
			"the reload at %s failed: %s", s.Reload.At.UTC().Format(time.TimeOnly), s.Reload.Error)
	}
	if r := s.Rights; r != nil && r.Missing > 0 {
		all = append(all, problem{
			what: fmt.Sprintf("informd lacks %d of the %d rights that its manifests need",
				r.Missing, r.Needed),
			todo:  "grant them with these lines; informd then goes on by itself:",
			lines: r.Lines,
		})
	}
	for _, a := range s.Asides {
		asideProblem(a, flags, add)
	}
	isGranted := s.Rights != nil && s.Rights.Unknown == "" && s.Rights.Missing == 0
	for _, source := range s.Sources {
		sourceProblems(source, isGranted, add)
	}
	for _, h := range s.Handlers {
		all = append(all, handlerProblems(h, s.Rules, now)...)
	}
	for _, r := range s.Rules {
		ruleProblems(r, flags, now, add)
	}
	for _, m := range s.Metrics {
		metricProblems(m, now, add)
	}
	return all
}

// asideProblem reports a change that informd does not evaluate.
func asideProblem(
	a control.AsideStatus, flags *controlFlags, add func(todo, what string, args ...any),
) {
	rule := "RULE"
	if len(a.Rules) > 0 {
		rule = a.Rules[0]
	}
	add("please report it, with what informd wrote when it died; rules get the object's next change. "+
		"To try this one: "+flags.command("rule", "retry", rule, a.Object),
		"informd died %d times of a change of %s %s, and has set it aside: resourceVersion %s",
		a.Deaths, a.Resource, a.Object, a.ResourceVersion)
}

func metricProblems(
	m control.MetricStatus, now time.Time, add func(todo, what string, args ...any),
) {
	if m.Dropped > 0 && m.Series == m.Max {
		what := fmt.Sprintf("%d %s not counted", m.Dropped, areChanges(m.Dropped))
		if m.Hidden > 0 {
			what = fmt.Sprintf("%d more are not shown", m.Hidden)
		}
		add("give it fewer labels, or raise its series",
			"metric %s has %d series, as many as it may: %s", m.Name, m.Max, what)
	}
	if e := m.LastError; e != nil && isRecent(e, now) {
		add(advice(e), "metric %s: %s", m.Name, failedExpression(m.Errors, e, now))
	}
}

func areChanges(n uint64) string {
	if n == 1 {
		return "change is"
	}
	return "changes are"
}

// sourceProblems reports what is wrong with a source. isGranted says that informd has all the rights
// that it needs, by the last it heard.
func sourceProblems(
	s control.SourceStatus, isGranted bool, add func(todo, what string, args ...any),
) {
	todo, isWrong := map[string]string{
		"forbidden":  "allow informd to list and watch " + s.Resource,
		"failing":    "informd tries again; look at the API server",
		"unusable":   "mend the source: informd needs to list and watch",
		"not served": "install what serves " + s.Resource + ", or mend the resource of the source",
	}[s.State]
	switch {
	case s.State == "not served" && movedTo(s.Resource) != "":
		todo = "Kubernetes has this as " + movedTo(s.Resource) + " now: mend the resource of the source"
	case s.State == "forbidden" && isGranted:
		todo = "informd has the right by now, and tries again within ten seconds"
	case strings.HasPrefix(s.Reason, "the API server refuses the credentials"):
		todo = "renew informd's credentials; informd then goes on by itself"
	case strings.Contains(s.Reason, "x509: "):
		todo = "informd tries again; look at the kubeconfig's server and certificate-authority, " +
			"and at the API server's certificate"
	case strings.Contains(s.Reason, "HTTP request to an HTTPS server"),
		strings.Contains(s.Reason, "HTTP response to HTTPS client"):
		todo = "informd tries again; mend http:// or https:// in the kubeconfig's server"
	}
	if isWrong {
		add(todo, "source %s is %s%s", s.Name, s.State, after(": ", s.Reason))
	}
	if s.Unreadable > 0 {
		add("the log names them", "source %s left out %d %s that informd could not read",
			s.Name, s.Unreadable, cli.Plural(int(s.Unreadable), "object"))
	}
	misfitProblems("source "+s.Name, s.Misfits, add)
	if s.IndexErrors > 0 {
		add("the log has the error: mend the expression, or the object if a text of it is wrong",
			"source %s has index expressions that failed, %d %s",
			s.Name, s.IndexErrors, cli.Plural(int(s.IndexErrors), "time"))
	}
}

// movedTo is config.MovedTo for a resource as the status has it.
func movedTo(resource string) string {
	parts := strings.Split(resource, "/")
	if len(parts) != 3 { // of the core group, where none has moved
		return ""
	}
	return config.MovedTo(schema.GroupVersionResource{
		Group: parts[0], Version: parts[1], Resource: parts[2],
	})
}

// misfitProblems reports what a manifest asks for in vain: the first of it.
func misfitProblems(of string, misfits []string, add func(todo, what string, args ...any)) {
	if len(misfits) == 0 {
		return
	}
	more := ""
	if n := len(misfits) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more: status -o json has them)", n)
	}
	add(`mend it; for a field that the schema lacks write get(x, "field")`,
		"%s asks for what cannot be: %s%s", of, misfits[0], more)
}

// failingFrom is how many recent failures make a handler that runs again a failing one.
const failingFrom = 2

// handlerState returns a handler's state. A handler that fails again and again may run for the
// moment, but that is not what its operator needs to know.
func handlerState(h control.HandlerStatus) string {
	if h.State == control.Running && h.Failures >= failingFrom && h.LastFailure != "" {
		return "failing"
	}
	return h.State
}

func handlerProblems(
	h control.HandlerStatus, rules []control.RuleStatus, now time.Time,
) (all []problem) {
	name, state := cli.Printable(h.Name), handlerState(h)
	p := problem{what: fmt.Sprintf("handler %s is %s", name, state)}
	isWrong := true
	switch state {
	case "backing off", "refused":
		p.what += after(": ", cli.Printable(h.Reason))
		if !h.Next.IsZero() {
			p.todo = "informd tries it again " + until(now, h.Next)
		}
	case "wedged":
		p.what += after(": ", cli.Printable(h.Reason))
		p.todo = "informd ends it and starts it again"
	case "failing":
		p.what += cli.Printable(fmt.Sprintf(
			": started again %d times, the last failure was %s ago: %s",
			h.Restarts, age(now, h.FailedAt), h.LastFailure))
	default: // it may be starting after a failure, or a reload failed
		isWrong = h.Failures > 0 && h.State != control.Running || h.Reason != "" && h.PID > 0
		p.what += after(": ", cli.Printable(h.Reason))
	}
	if isWrong {
		if h.Failures > 0 && len(h.LastLog) > 0 {
			if p.todo != "" {
				p.todo += "; "
			}
			p.todo += "its last lines on standard error:"
			p.quoted = h.LastLog
		}
		all = append(all, p)
	}
	if h.Problem != "" && h.State == control.Running { // a wedged one may be well by now
		all = append(all, healthProblem(h, rules, now))
	}
	if h.Full && h.InFlight > 0 { // without a process none is in flight, and why is said above
		all = append(all, problem{
			what: "handler " + name + " is FULL: it has as many events as it may, and others wait " +
				"until it answers one",
			todo: "mend what it waits for, or raise its concurrency",
		})
	}
	for _, e := range h.Endpoints {
		if e.State == control.Running {
			continue
		}
		p := problem{what: fmt.Sprintf("handler %s at %s is %s%s",
			name, e.Address, e.State, after(": ", cli.Printable(e.Reason)))}
		if !e.Next.IsZero() {
			p.todo = "informd tries it again " + until(now, e.Next)
		}
		all = append(all, p)
	}
	return all
}

// healthProblem is what a handler reports about itself while it runs.
func healthProblem(h control.HandlerStatus, rules []control.RuleStatus, now time.Time) problem {
	since := ""
	if !h.ProblemAt.IsZero() {
		since = fmt.Sprintf(" (first %s ago)", age(now, h.ProblemAt))
	}
	p := problem{
		what: cli.Printable(fmt.Sprintf("handler %s reports a problem%s: %s", h.Name, since, h.Problem)),
		todo: "mend that",
	}
	var of []string
	for _, r := range rules {
		if r.Handler == h.Name {
			of = append(of, r.Name)
		}
	}
	switch n := len(of); {
	case n > 3:
		p.todo += fmt.Sprintf("; %s and %d other rules use it", of[0], n-1)
	case n > 1:
		p.todo += "; the rules " + strings.Join(of, ", ") + " use it"
	case n == 1:
		p.todo += "; rule " + of[0] + " uses it"
	}
	p.todo = cli.Printable(p.todo)
	return p
}

// recently is how long a failed expression counts as something that is wrong now.
const recently = 10 * time.Minute

// isRecent reports whether a failed expression is something that is wrong now.
func isRecent(e *control.ExpressionError, now time.Time) bool {
	return !e.Over && now.Sub(e.At) < recently
}

func ruleProblems(
	r control.RuleStatus, flags *controlFlags, now time.Time,
	add func(todo, what string, args ...any),
) {
	waitsInVain := strings.HasPrefix(r.Reason, "waits for what it looks into: ") &&
		strings.Contains(r.Reason, " is ")
	if r.Reason != "" && (r.State == control.RuleActive || waitsInVain) {
		todo := ""
		switch {
		case waitsInVain:
			todo = "mend that source, or look into it no more: a rule that may change the cluster " +
				"acts only on what informd can read; its changes wait"
		case strings.HasPrefix(r.Reason, "finds nothing in what it looks into: "):
			todo = "mend that source, or look into it no more: the rule goes on as if it had no objects"
		case strings.Contains(r.Reason, " through the cluster on "):
			todo = "have one of them leave alone what the other wants, by its where, when or if; " +
				"informd slows them until then, and drops nothing"
		}
		add(todo, "rule %s %s", r.Name, r.Reason)
	}
	if r.Paused && r.Waiting > 0 {
		add(flags.command("rule", "resume", r.Name), "rule %s is paused: %d %s", r.Name, r.Waiting,
			waiting(r.Waiting))
	}
	if r.Failure != "" {
		retry := flags.command("rule", "retry", r.Name)
		todo := "try now what waits: " + retry
		if mend := toMend(r.Failure); mend != "" {
			todo = mend + "; informd then goes on by itself, or at once: " + retry
		}
		add(todo, "rule %s: %s", r.Name, r.Failure)
	}
	misfitProblems("rule "+r.Name, r.Misfits, add)
	if e := r.LastError; e != nil && isRecent(e, now) {
		add(advice(e), "rule %s: %s", r.Name, expressionError(r, now))
	}
	if n := r.Dead - r.Healed; n > 0 {
		add(flags.command("dead", "list", "--rule", r.Name), "rule %s has %d dead %s",
			r.Name, n, cli.Plural(n, "letter"))
	}
	if r.Dropped > 0 {
		add("the handler is too slow for the changes", "rule %s lost %d %s", r.Name, r.Dropped,
			cli.Plural(int(r.Dropped), "change"))
	}
}

func waiting(n int) string {
	if n == 1 {
		return "delivery waits"
	}
	return "deliveries wait"
}

// advice says what to do about a failure.
func advice(e *control.ExpressionError) string {
	switch e.Fault {
	case "object":
		who := e.Object
		if who == "" {
			who = "the object"
		}
		return "mend the text of " + who + " that cannot be read, or have the expression expect it"
	case "past":
		return "have the expression expect a text that cannot be read: the object has it no more"
	case "bound":
		return "let it count by fewer values, or within a shorter time"
	case "informd":
		return "this is a defect of informd: please report it, with the log"
	}
	return "mend the expression"
}

// expressionError describes the last failure of a rule's expressions.
func expressionError(r control.RuleStatus, now time.Time) string {
	return failedExpression(r.Errors, r.LastError, now)
}

func failedExpression(times uint64, e *control.ExpressionError, now time.Time) string {
	what := "an expression failed"
	if e.Fault == "bound" || e.Fault == "informd" {
		what = "failed"
	}
	text := fmt.Sprintf("%s %d %s, last %s ago",
		what, times, cli.Plural(int(times), "time"), age(now, e.At))
	text += after(" on ", e.Object) + ": " + e.Reason
	if e.Over {
		text += "; the object is gone since, or was mended"
	}
	return text
}

// after returns text behind prefix; "" without text.
func after(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// maxProblems is how many problems are written, unless the output is wide. A mistake that many
// rules share must not push everything else away.
const maxProblems = 20

// writeProblems writes what is wrong, and nothing if all is well.
func writeProblems(w io.Writer, all []problem, as shape) error {
	if len(all) == 0 {
		return nil
	}
	more, most := 0, as.most
	if !as.wide && len(all) > maxProblems {
		all, more = all[:maxProblems], len(all)-maxProblems
	}
	out := bufio.NewWriter(w)
	fmt.Fprint(out, "\nWRONG\n")
	for _, p := range all {
		fmt.Fprintln(out, wrap(p.what, "    ", most))
		if p.todo != "" {
			fmt.Fprintln(out, wrap("    -> "+cli.Printable(p.todo), "       ", most))
		}
		for _, said := range p.quoted {
			fmt.Fprintln(out, cli.Visible("       | "+said))
		}
		for _, line := range p.lines {
			fmt.Fprintln(out, cli.Visible("       "+line))
		}
	}
	if more > 0 {
		fmt.Fprintf(out, "… and %d more: -o wide shows them\n", more)
	}
	return out.Flush()
}
