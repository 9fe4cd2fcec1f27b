package daemon

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/replica"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/plugins/host"
)

// metrics holds what /metrics shows. Engine and handlers keep their own counts, which each scrape
// reads.
type metrics struct {
	registry   *prometheus.Registry
	byRule     bool // there are series of each rule; otherwise the label rule is empty
	deliveries *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	attempts   *prometheus.HistogramVec
	actions    *prometheus.CounterVec
}

func newMetrics(version string, byRule bool) *metrics {
	// 1 ms to 4.5 min, in steps of 4.
	buckets := prometheus.ExponentialBuckets(0.001, 4, 10)
	m := &metrics{
		registry: prometheus.NewRegistry(), byRule: byRule,
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "informd_handler_deliveries_total",
			Help: "Finished attempts to deliver an event, by result: " +
				"done, idle, retry, lost, reject, dead, cancelled.",
		}, []string{"handler", "rule", "result"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "informd_handler_delivery_latency_seconds",
			Help: "Time from the match of a change to the end of its delivery, " +
				"over all attempts.",
			Buckets: buckets,
		}, []string{"handler"}),
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "informd_handler_attempt_seconds",
			Help:    "Time from sending an event to its answer, whatever the answer.",
			Buckets: buckets,
		}, []string{"handler"}),
	}
	m.actions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "informd_actions_total",
		Help: "Changes of the cluster that rules and handlers asked for, by result: " +
			"done, unchanged, created, gone, conflict, denied, rejected, failed.",
	}, []string{"handler", "rule", "verb", "result"})
	m.registry.MustRegister(m.deliveries, m.latency, m.attempts, m.actions, buildInfo(version),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGaugeVec(
		prometheus.GaugeOpts{Name: "informd_build_info", Help: "Always 1."}, []string{"version"})
	g.WithLabelValues(version).Set(1)
	return g
}

// of returns the value of the label rule.
func (m *metrics) of(rule string) string {
	if m.byRule {
		return rule
	}
	return ""
}

// begin makes each series of a plan that can come begin at 0. Prometheus sees no growth in a series
// that begins with its first count.
func (m *metrics) begin(p *plan.Plan) {
	for _, h := range p.Handlers {
		m.latency.WithLabelValues(h.Name)
		m.attempts.WithLabelValues(h.Name)
	}
	for _, r := range p.Rules {
		if r.OnlyMeasures() {
			continue
		}
		handler, rule := cmp.Or(r.Handler, engine.OwnActions), m.of(r.Name)
		m.latency.WithLabelValues(handler)
		m.attempts.WithLabelValues(handler)
		for _, result := range dispatch.Results() {
			// A rule that acts alone has no process that can go away. No other is ever idle.
			never := dispatch.Idle
			if r.Handler == "" {
				never = dispatch.Lost
			}
			if result != never {
				m.deliveries.WithLabelValues(handler, rule, string(result))
			}
		}
		m.beginActions(engine.OwnActions, rule, ownVerbs(r), false)
		if h, ok := p.Handler(r.Handler); ok {
			m.beginActions(h.Name, rule, grantedVerbs(h), true)
		}
	}
}

// beginActions makes the series of a rule's actions begin at 0. isAnswer says that a handler's answer
// asks for them.
func (m *metrics) beginActions(handler, rule string, verbs []string, isAnswer bool) {
	for _, verb := range verbs {
		creates := verb == config.Apply || verb == config.Create
		for _, result := range action.Results() {
			if result == action.Created && !creates || result == action.Gone && verb == config.Create ||
				result == action.Denied && !isAnswer {
				continue
			}
			m.actions.WithLabelValues(handler, rule, verb, string(result))
		}
	}
}

// ownVerbs returns the verbs of a rule's own actions, and that of its prune.
func ownVerbs(r *plan.Rule) (verbs []string) {
	if r.Actions != nil {
		for _, a := range r.Actions.Each {
			verbs = append(verbs, a.Verb)
		}
	}
	if r.Prune != nil {
		verbs = append(verbs, config.Delete)
	}
	return verbs
}

// grantedVerbs returns the verbs of the actions that a handler's answers may ask for.
func grantedVerbs(h config.Handler) (verbs []string) {
	for _, g := range h.Write {
		verbs = append(verbs, g.Verbs...)
	}
	return verbs
}

// delivered counts an attempt.
func (m *metrics) delivered(d dispatch.Attempt) {
	m.deliveries.WithLabelValues(d.Handler, m.of(d.Rule), string(d.Result)).Inc()
	m.attempts.WithLabelValues(d.Handler).Observe(d.Duration.Seconds())
	if d.Result == dispatch.Done {
		m.latency.WithLabelValues(d.Handler).Observe(d.Latency.Seconds())
	}
}

// acted counts an action.
func (m *metrics) acted(d action.Done) {
	handler := cmp.Or(d.Handler, engine.OwnActions)
	m.actions.WithLabelValues(handler, m.of(d.Rule), d.Verb, string(d.Result)).Inc()
}

// forget drops the counts of rules and handlers that are gone. A delivery of theirs that is still in
// flight starts a new count.
func (m *metrics) forget(rules, handlers []string) {
	for _, name := range rules {
		is := prometheus.Labels{"rule": name}
		m.deliveries.DeletePartialMatch(is)
		m.actions.DeletePartialMatch(is)
	}
	for _, name := range handlers {
		is := prometheus.Labels{"handler": name}
		for _, of := range []interface {
			DeletePartialMatch(prometheus.Labels) int
		}{m.deliveries, m.actions, m.latency, m.attempts} {
			of.DeletePartialMatch(is)
		}
	}
}

// watch adds the counts that the engine and the handlers keep.
func (m *metrics) watch(
	eng *engine.Engine, handlers *handlers, last func() *control.LastReload, server *rest.Config,
) {
	m.registry.MustRegister(
		&engineCollector{eng, handlers, last, server, m.byRule}, manifestCollector{eng})
}

// engineCollector reads the engine's status at each scrape.
type engineCollector struct {
	engine   *engine.Engine
	handlers *handlers
	last     func() *control.LastReload
	server   *rest.Config // of the API server
	byRule   bool
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	reloadSuccessful = desc("informd_config_last_reload_successful",
		"1 if the last reload of the manifests succeeded, 0 if it changed nothing.")
	reloadSuccess = desc("informd_config_last_reload_success_timestamp_seconds",
		"When the manifests were last reloaded.")

	sourceObjects = desc("informd_source_objects", "Objects in the cache.", "source")
	sourceDeltas  = desc("informd_source_deltas_total",
		"Changes handed to rules, by kind.", "source", "event")
	sourceState = desc("informd_source_state",
		"1 for the state of the source, 0 for all others.", "source", "state")
	sourcePending = desc("informd_source_pending",
		"Changes received from the server and not handed to rules yet.", "source")
	sourceHeard = desc("informd_source_last_heard_seconds",
		"Seconds since the API server was last heard: what the source knows is that old.", "source")
	sourceSkipped = desc("informd_source_unreadable_total",
		"Objects that could not be read and were left out.", "source")
	indexErrors = desc("informd_source_index_errors_total",
		"Evaluations of an index expression that failed.", "source")

	ruleMatches = desc("informd_rule_matches_total",
		"Changes that the rule selected, without those that it made itself.", "rule")
	ruleErrors = desc("informd_rule_evaluation_errors_total",
		"Changes for which an expression of the rule failed.", "rule")
	ruleOwn = desc("informd_rule_own_changes_total",
		"Changes that the rule made itself and that it ignored.", "rule")
	ruleDepth = desc("informd_rule_queue_depth",
		"Deliveries that wait for their turn or for a retry.", "rule")
	ruleDelayed = desc("informd_rule_queue_delayed",
		"Objects whose delivery waits for a retry.", "rule")
	ruleBytes = desc("informd_rule_queue_bytes",
		"Size of the deliveries that wait; an object that several share counts for each.", "rule")
	ruleAge = desc("informd_rule_queue_oldest_seconds",
		"Age of the oldest delivery that is not acknowledged.", "rule")
	ruleShortened = desc("informd_rule_queue_shortened_total",
		"Changes merged because a rule with delivery: every was at its bound.", "rule")
	ruleAway = desc("informd_rule_queue_away",
		"Deliveries that wait and are on disk only.", "rule")
	rulePending = desc("informd_rule_pending",
		"Objects that wait to become members by for or due.", "rule")
	ruleNextDue = desc("informd_rule_next_due_timestamp_seconds",
		"When the first of the pending objects becomes a member.", "rule")
	ruleGathered = desc("informd_rule_gathered",
		"Changes that wait for the event of their group.", "rule")
	ruleNextEvent = desc("informd_rule_next_event_timestamp_seconds",
		"When the first event of a group comes.", "rule")
	ruleWindows = desc("informd_rule_windows",
		"Open windows of the rule's count, with changes that count.", "rule")
	ruleNextRound = desc("informd_rule_next_round_timestamp_seconds",
		"When the rule is told of all members again, by its schedule or its resync.", "rule")
	ruleActed = desc("informd_rule_acted_total",
		"Events for which the rule performed actions of its own.", "rule")
	ruleIdle = desc("informd_rule_idle_total",
		"Events for which the rule had no action of its own to perform.", "rule")
	ruleTargets = desc("informd_targets",
		"Targets of the rule's own actions, by what came of them.", "rule", "state")
	rulePaused = desc("informd_rule_paused", "1 while an operator has paused the rule.", "rule")
	ruleSlowed = desc("informd_rule_slowed",
		"1 while informd holds back the rule's events, because what it writes does not last.", "rule")
	ruleLetters = desc("informd_rule_dead_letters",
		"Events of the rule that were set aside. The rule may be gone.", "rule")
	ruleDropped = desc("informd_rule_queue_dropped_total",
		"Changes dropped because too many objects of one name waited.", "rule")

	handlerInFlight = desc("informd_handler_in_flight",
		"Events that the handler is working on.", "handler")
	handlerSlow = desc("informd_handler_slow",
		"Events that take much longer than the handler's others.", "handler")
	handlerRestarts = desc("informd_handler_restarts_total",
		"Starts of the handler's process after the first.", "handler")
	handlerReady = desc("informd_handler_ready", "1 if the handler takes events.", "handler")
	handlerState = desc("informd_handler_state",
		"1 for the state of the handler, 0 for all others.", "handler", "state")
	handlerEndpoint = desc("informd_handler_endpoints",
		"Endpoints of a remote handler in that state.", "handler", "state")
	handlerFailures = desc("informd_handler_failures",
		"Recent failures of the handler's process. The count decreases while the process runs.",
		"handler")
	handlerReads = desc("informd_handler_cache_reads_total",
		"Calls in which the handler read the cache.", "handler")
	handlerRefused = desc("informd_handler_cache_reads_refused_total",
		"Calls in which the handler wanted to read the cache and got an error.", "handler")
	handlerStray = desc("informd_handler_stray_answers_total",
		"Answers that came after the time limit (late), or to events that were not with the handler "+
			"(unknown).", "handler", "kind")
	handlerCertificate = desc("informd_handler_certificate_expiration_timestamp_seconds",
		"When the certificate expires that informd shows a remote handler (client), "+
			"or the first of those that its endpoints have shown (server).", "handler", "certificate")
	serverCertificate = desc("informd_api_client_certificate_expiration_timestamp_seconds",
		"When the certificate expires that informd shows the API server.")
	deadLetters = desc("informd_dead_letters",
		"Events that were set aside because they could not be delivered.")
	deadDropped = desc("informd_dead_letters_dropped_total",
		"Dead letters dropped because there were too many.")

	changesAside = desc("informd_changes_set_aside",
		"Changes that are not evaluated, because informd died of them again and again.")

	replicaLeads    = desc("informd_replica_leads", "1 if this replica leads, 0 if it does not.")
	replicaCaughtUp = desc("informd_replica_caught_up",
		"1 if this replica has what the leader has, as of a few seconds ago.")
	replicaApplied = desc("informd_replica_applied_entry",
		"Number of the newest entry of the common log that this replica has applied.")
	replicaLag = desc("informd_replica_lag_entries",
		"Entries that the leader had some seconds ago and that this replica has not applied.")

	stateBytes     = desc("informd_state_bytes", "Size of the state directory.")
	stateUnwritten = desc("informd_state_unwritten_records",
		"Records of the state that are not on disk yet.")
	stateAside = desc("informd_state_set_aside_timestamp_seconds",
		"When a state was last set aside that informd could not use.")
	stateDurable = desc("informd_state_durable",
		"1 if informd can write the state, 0 while it cannot.")
)

// Describe implements prometheus.Collector.
func (c *engineCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		sourceObjects, sourceDeltas, sourceState, sourcePending, sourceHeard, sourceSkipped, indexErrors,
		ruleMatches, ruleErrors, ruleOwn, ruleActed, ruleIdle, ruleTargets, ruleDepth, ruleDelayed,
		ruleBytes, ruleAge, ruleShortened, ruleAway, ruleDropped, rulePaused, ruleSlowed, ruleLetters,
		rulePending, ruleNextDue, ruleGathered, ruleNextEvent, ruleWindows, ruleNextRound,
		handlerInFlight, handlerSlow, handlerRestarts, handlerReady, handlerState, handlerEndpoint,
		handlerFailures, handlerReads, handlerRefused, handlerStray,
		handlerCertificate, serverCertificate,
		deadLetters, deadDropped, changesAside,
		reloadSuccessful, reloadSuccess,
		stateBytes, stateUnwritten, stateDurable, stateAside,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *engineCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	status := c.engine.Status()
	for _, s := range status.Sources {
		gauge(sourceObjects, float64(s.Objects), s.Name)
		gauge(sourcePending, float64(s.Pending), s.Name)
		if !s.LastHeard.IsZero() {
			gauge(sourceHeard, time.Since(s.LastHeard).Seconds(), s.Name)
		}
		counter(sourceSkipped, s.Unreadable, s.Name)
		counter(indexErrors, s.IndexErrors, s.Name)
		for _, event := range delta.Types() {
			counter(sourceDeltas, s.Deltas[event], s.Name, event.String())
		}
		for _, state := range source.States() {
			gauge(sourceState, boolean(s.State == state), s.Name, state.String())
		}
	}
	if c.byRule {
		c.collectRules(status, gauge, counter)
	}
	for at, n := range countTargets(status, c.byRule) {
		gauge(ruleTargets, float64(n), at.rule, at.state)
	}
	for _, h := range status.Handlers {
		gauge(handlerInFlight, float64(h.InFlight), h.Name)
	}
	for _, h := range c.handlers.hosts() {
		s := h.Status()
		gauge(handlerSlow, float64(s.Slow.Events), h.name)
		counter(handlerRestarts, uint64(s.Restarts), h.name)
		gauge(handlerReady, boolean(s.State == host.Running), h.name)
		gauge(handlerFailures, float64(s.Failures), h.name)
		counter(handlerReads, s.Reads.Calls, h.name)
		counter(handlerRefused, s.Reads.Refused, h.name)
		counter(handlerStray, s.Counts.Late, h.name, "late")
		counter(handlerStray, s.Counts.Unknown, h.name, "unknown")
		for _, state := range host.States() {
			gauge(handlerState, boolean(s.State == state), h.name, string(state))
			if _, remote := h.hosted.(*host.Remote); remote {
				gauge(handlerEndpoint, float64(s.EndpointsIn(state)), h.name, string(state))
			}
		}
		if remote, ok := h.hosted.(*host.Remote); ok {
			if ends, ok := certificateEnds(nil, remote.CertificateFile()); ok {
				gauge(handlerCertificate, float64(ends.Unix()), h.name, "client")
			}
			if ends := s.CertificateEnds(); !ends.IsZero() {
				gauge(handlerCertificate, float64(ends.Unix()), h.name, "server")
			}
		}
	}
	if ends, ok := certificateEnds(c.server.CertData, c.server.CertFile); ok {
		gauge(serverCertificate, float64(ends.Unix()))
	}
	if !status.IsLoading {
		gauge(deadLetters, float64(status.DeadLetters.Letters))
	}
	counter(deadDropped, status.DeadLetters.Dropped)
	if status.State != nil && !status.IsLoading {
		gauge(changesAside, float64(len(status.Asides)))
	}
	if last := c.last(); last != nil {
		gauge(reloadSuccessful, boolean(last.Error == ""))
		if !last.Success.IsZero() {
			gauge(reloadSuccess, float64(last.Success.UnixMilli())/1000)
		}
	}
	if s := status.State; s != nil && !(status.IsLoading && s.Trouble == "") {
		gauge(stateBytes, float64(s.SizeBytes))
		gauge(stateUnwritten, float64(s.Unwritten))
		gauge(stateDurable, boolean(s.Trouble == ""))
		if at := s.LastSetAside; !at.IsZero() {
			gauge(stateAside, float64(at.UnixMilli())/1000)
		}
	}
}

// targetsIn names the targets of a rule, or of all rules, that are in one state.
type targetsIn struct{ rule, state string }

// countTargets counts the targets of rules' own actions, by rule or for all rules together. The
// counts of a state that is not loaded yet are missing.
func countTargets(status admin.Status, byRule bool) map[targetsIn]int {
	counts := make(map[targetsIn]int)
	if status.IsLoading {
		return counts
	}
	for _, r := range status.Rules {
		if r.Targets == nil {
			continue
		}
		for state, n := range r.Targets.States {
			at := targetsIn{state: state}
			if byRule {
				at.rule = r.Name
			}
			counts[at] += n
		}
	}
	return counts
}

// collectRules shows the figures of each rule.
func (c *engineCollector) collectRules(
	status admin.Status, gauge func(*prometheus.Desc, float64, ...string),
	counter func(*prometheus.Desc, uint64, ...string),
) {
	letters := status.DeadLetters.ByRule
	for _, r := range status.Rules {
		gauge(ruleSlowed, boolean(r.Slowed), r.Name)
		counter(ruleMatches, r.Matches, r.Name)
		counter(ruleErrors, r.Errors, r.Name)
		counter(ruleOwn, r.Own, r.Name)
		counter(ruleActed, r.Acted, r.Name)
		counter(ruleIdle, r.Idle, r.Name)
		counter(ruleShortened, r.Queue.Shortened, r.Name)
		counter(ruleDropped, r.Queue.Dropped, r.Name)
		if status.IsLoading { // what follows is in the saved state
			continue
		}
		gauge(rulePaused, boolean(r.Paused), r.Name)
		gauge(ruleLetters, float64(letters[r.Name]), r.Name)
		delete(letters, r.Name)
		gauge(ruleDepth, float64(r.Queue.Waiting), r.Name)
		gauge(ruleDelayed, float64(r.Queue.Delayed), r.Name)
		gauge(ruleBytes, float64(r.Queue.Bytes), r.Name)
		gauge(ruleAge, r.Queue.OldestAge.Seconds(), r.Name)
		gauge(ruleAway, float64(r.Queue.Away), r.Name)
		gauge(rulePending, float64(r.Pending), r.Name)
		if r.Pending > 0 {
			gauge(ruleNextDue, float64(r.NextDue.UnixMilli())/1000, r.Name)
		}
		gauge(ruleGathered, float64(r.Gathered), r.Name)
		if r.Gathered > 0 {
			gauge(ruleNextEvent, float64(r.NextEvent.UnixMilli())/1000, r.Name)
		}
		gauge(ruleWindows, float64(r.Windows), r.Name)
		if !r.NextRound.IsZero() {
			gauge(ruleNextRound, float64(r.NextRound.UnixMilli())/1000, r.Name)
		}
	}
	for rule, n := range letters { // of rules that are gone
		gauge(ruleLetters, float64(n), rule)
	}
}

// certificateEnds returns when the first certificate of a PEM text expires, or of a file without a
// text. ok is false if there is none, or it cannot be read.
func certificateEnds(text []byte, file string) (at time.Time, ok bool) {
	if len(text) == 0 && file != "" {
		text, _ = os.ReadFile(file) // handlers and clients report what is wrong with it
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			break
		}
		return certificate.NotAfter, true
	}
	return time.Time{}, false
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// replicaCollector shows what a replica knows of itself.
type replicaCollector func() replica.Info

// Describe implements prometheus.Collector.
func (replicaCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{replicaLeads, replicaCaughtUp, replicaApplied, replicaLag} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (own replicaCollector) Collect(out chan<- prometheus.Metric) {
	is := own()
	gauge := func(of *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value)
	}
	gauge(replicaLeads, boolean(is.Role == replica.Leads))
	gauge(replicaCaughtUp, boolean(is.IsCaughtUp))
	gauge(replicaApplied, float64(is.Applied))
	if is.Newest > 0 { // it has reached a leader lately
		gauge(replicaLag, float64(max(is.Newest, is.Applied)-is.Applied))
	}
}
