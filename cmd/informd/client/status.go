package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
)

func newStatusCommand() *cobra.Command {
	var output string
	var watches bool
	cmd := &cobra.Command{
		Use:   "status [-o wide|json] [--watch]",
		Short: "Show the state of the running daemon",
		Long: `Show the state of the running daemon: what is wrong and what to do about it, its
sources, rules and handlers, and what it keeps on disk. There is no section WRONG if all is well.

For a source, LAG counts the changes that informd has received from the API server and not evaluated
yet.

For a rule, WAITING counts its deliveries that wait. OLDEST is the age of its oldest delivery that is
not acknowledged. DEAD counts its dead letters, ERRORS how often one of its expressions failed.

If informd has replicas, the one that leads answers, whichever of them you ask. If none does, the
command shows what the one that you ask knows of them, as informd cluster status does, and ends with
exit code 1.

The tables fit the terminal. -o wide cuts nothing, and adds columns. -o json has everything.
--watch shows the state again every two seconds, until ctrl-C.
` + whichDaemon,
		Args: cli.NoArguments,
	}
	flags := addControlFlags(cmd)
	outputFlag(cmd, &output, "wide", "json")
	cmd.Flags().BoolVarP(&watches, "watch", "w", false, "show it again every two seconds")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		out := cmd.OutOrStdout()
		ctx, stop := cli.WithSignals(cmd.Context(), nil)
		defer stop()
		return flags.ask(func(c *control.Client) error {
			draw := func(w io.Writer) error {
				status, err := c.Status(ctx)
				if err != nil {
					return withoutLeader(ctx, c, w, output, err)
				}
				if output == "json" {
					return writeDocument(w, output, status)
				}
				return writeStatus(w, status, flags, newShape(out, output), time.Now())
			}
			if watches {
				return watch(ctx, out, func(w io.Writer) error {
					err := draw(w)
					if errors.As(err, new(*noLeaderError)) { // another one may lead soon
						return nil
					}
					return err
				})
			}
			return draw(out)
		})
	}
	return cmd
}

// noLeaderError says that no replica that leads has answered, and that what is known of the replicas
// was shown instead.
type noLeaderError struct{ why error }

// Error implements error.
func (e *noLeaderError) Error() string { return e.why.Error() }

// withoutLeader shows what a replica knows of all, if that is why there is no status, and returns a
// *noLeaderError then. Otherwise it returns why.
func withoutLeader(
	ctx context.Context, c *control.Client, w io.Writer, output string, why error,
) error {
	if !isUnavailable(why) {
		return why
	}
	replicas, err := c.Cluster(ctx)
	if err != nil { // this informd has no replicas, or does not answer
		return why
	}
	message := cli.Printable(why.Error())
	if output == "json" {
		err = writeDocument(w, output, struct {
			NoLeader string          `json:"noLeader"`
			Cluster  control.Cluster `json:"cluster"`
		}{message, replicas})
	} else if err = none(w, "no leader has answered; this is what a replica knows alone"); err == nil {
		err = writeCluster(w, replicas)
	}
	if err != nil {
		return err
	}
	return &noLeaderError{errors.New(message)}
}

// isUnavailable reports whether the daemon cannot answer now, as when no replica leads.
func isUnavailable(err error) bool {
	said, ok := errors.AsType[*control.Error](err)
	return ok && said.Code == http.StatusServiceUnavailable
}

// shape says how wide output for people may be, and how much it shows.
type shape struct {
	most int // columns; 0 for any number
	wide bool
}

// newShape returns the shape of output for out, which -o asks for.
func newShape(out io.Writer, output string) shape {
	if output == "wide" {
		return shape{wide: true}
	}
	return shape{most: width(out)}
}

func writeStatus(
	w io.Writer, s control.Status, flags *controlFlags, as shape, now time.Time) error {
	out := bufio.NewWriter(w)
	by := ""
	if s.Replica != "" {
		by = ", replica " + cli.Printable(s.Replica) + ", which leads"
	}
	fmt.Fprintf(out, "informd %s, process %d, for %s%s\n",
		cli.Printable(s.Version), s.PID, age(now, s.Started), by)
	if s.Stopping {
		fmt.Fprintln(out, "informd is stopping: it begins no delivery, and waits for those in flight")
	}
	if err := writeProblems(out, problems(s, flags, now), as); err != nil {
		return err
	}
	sections := []struct {
		title string
		write func(io.Writer) error
	}{
		{"SOURCES", func(w io.Writer) error { return writeSources(w, s.Sources, as, now) }},
		{"RULES", func(w io.Writer) error { return writeRules(w, s.Rules, flags, as, now) }},
		{"HANDLERS", func(w io.Writer) error { return writeHandlers(w, s.Handlers, as, now) }},
		{"METRICS", func(w io.Writer) error { return writeMetrics(w, s.Metrics, as) }},
		{"STATE", func(w io.Writer) error { return writeStore(w, s.Store, now) }},
	}
	for _, section := range sections {
		if section.title == "METRICS" && len(s.Metrics) == 0 {
			continue // most manifests have none
		}
		fmt.Fprintf(out, "\n%s\n", section.title)
		if err := section.write(out); err != nil {
			return err
		}
	}
	return out.Flush()
}

func writeSources(
	w io.Writer, sources []control.SourceStatus, as shape, now time.Time,
) error {
	if len(sources) == 0 {
		return none(w, "no sources: informd watches nothing")
	}
	header := []string{"NAME", "RESOURCE", "OBJECTS", "LAG", "STATE"}
	if as.wide {
		header = append(header, "SINCE", "RESOURCEVERSION", "UNREADABLE", "HEARD")
	}
	t := newTableWithin(w, as.most, header...)
	for _, s := range sources {
		cells := []string{s.Name, s.Resource, strconv.Itoa(s.Objects), strconv.Itoa(s.Lag), s.State}
		if as.wide {
			var heard time.Time
			if s.LastHeard != nil {
				heard = *s.LastHeard
			}
			cells = append(cells, age(now, s.Since), s.ResourceVersion, strconv.FormatUint(s.Unreadable, 10),
				age(now, heard))
		}
		t.row(cells...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, s := range sources {
		if s.State == "listing" && s.Reason != "" {
			if err := note(w, s.Name, s.Reason, as); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeRules writes the rules as a table, and below it why rules are blocked or wait, which targets of
// their actions do, what becomes a member in time, and errors of long ago.
func writeRules(
	w io.Writer, rules []control.RuleStatus, flags *controlFlags, as shape, now time.Time,
) error {
	if len(rules) == 0 {
		return none(w, "no rules: informd delivers nothing")
	}
	header := []string{"NAME", "HANDLER", "MATCHES", "WAITING", "OLDEST", "DEAD", "ERRORS", "STATE"}
	if as.wide {
		header = append(header, "ACTED", "IDLE", "OWNS", "AWAY", "SHORTENED", "DROPPED")
	}
	t := newTableWithin(w, as.most, header...)
	for _, r := range rules {
		oldest := ""
		if r.OldestSeconds > 0 {
			oldest = duration.HumanDuration(time.Duration(r.OldestSeconds * float64(time.Second)))
		}
		cells := []string{r.Name, r.Handler, strconv.FormatUint(r.Matches, 10),
			strconv.Itoa(r.Waiting), oldest, strconv.Itoa(r.Dead),
			strconv.FormatUint(r.Errors, 10), r.State}
		if as.wide {
			owns := ""
			if r.Targets != nil {
				owns = strconv.Itoa(r.Targets.Owned)
			}
			cells = append(cells, strconv.FormatUint(r.Acted, 10), strconv.FormatUint(r.Idle, 10), owns,
				strconv.Itoa(r.Away), strconv.FormatUint(r.Shortened, 10),
				strconv.FormatUint(r.Dropped, 10))
		}
		t.row(cells...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, r := range rules {
		if r.Reason != "" && r.State != control.RuleActive {
			if err := note(w, r.Name, r.Reason, as); err != nil {
				return err
			}
		}
		if err := writeTargets(w, r, flags, as, now); err != nil {
			return err
		}
		if r.Idle > 0 && r.Acted == 0 {
			if err := note(w, r.Name, idle(r), as); err != nil {
				return err
			}
		}
		if r.Pending > 0 {
			if err := note(w, r.Name, pending(r, now), as); err != nil {
				return err
			}
		}
		if r.Gathered > 0 {
			if err := note(w, r.Name, gathered(r, now), as); err != nil {
				return err
			}
		}
		if r.Windows > 0 {
			if err := note(w, r.Name, counted(r), as); err != nil {
				return err
			}
		}
		if text := nextRound(r, now); text != "" && (as.wide || r.Scheduled || r.Source == "") {
			if err := note(w, r.Name, text, as); err != nil {
				return err
			}
		}
		if r.Healed > 0 {
			if err := note(w, r.Name, healed(r), as); err != nil {
				return err
			}
		}
		if r.LastError != nil && !isRecent(r.LastError, now) {
			if err := note(w, r.Name, expressionError(r, now), as); err != nil {
				return err
			}
		}
	}
	return nil
}

// idle says that a rule has performed no action yet, although it selected changes.
func idle(r control.RuleStatus) string {
	return fmt.Sprintf("no action yet: for %d %s, each if was false, or its forEach empty",
		r.Idle, cli.Plural(int(r.Idle), "event"))
}

// pending returns how many objects wait to become members of a rule, and until when.
func pending(r control.RuleStatus, now time.Time) string {
	if r.Pending == 1 {
		return "1 object waits to become a member, " + until(now, r.NextDue)
	}
	return fmt.Sprintf("%d objects wait to become members, the first %s", r.Pending, until(now, r.NextDue))
}

// gathered returns how many changes wait for the event of their group, and until when.
func gathered(r control.RuleStatus, now time.Time) string {
	if r.Gathered == 1 {
		return "1 change waits for the event of its group, " + until(now, r.NextEvent)
	}
	return fmt.Sprintf("%d changes wait for the event of their group, the first %s",
		r.Gathered, until(now, r.NextEvent))
}

// nextRound returns when a rule sees all its members again, by its schedule or its resync, or "" if it
// does not, or waits.
func nextRound(r control.RuleStatus, now time.Time) string {
	switch {
	case r.NextRound.IsZero(), r.State == control.RuleWaiting:
		return ""
	case r.Source == "":
		return "its schedule's next moment is " + until(now, r.NextRound)
	case r.Scheduled:
		return "its schedule's next moment, for all members, is " + until(now, r.NextRound)
	}
	return "its next resync, of all members, is " + until(now, r.NextRound)
}

// counted returns how many windows of a rule's count are open.
func counted(r control.RuleStatus) string {
	if r.Windows == 1 {
		return "it counts changes in 1 window"
	}
	return fmt.Sprintf("it counts changes in %d windows", r.Windows)
}

// healed returns how many dead letters a later event makes up for.
func healed(r control.RuleStatus) string {
	if r.Healed == 1 {
		return "after 1 dead letter, a later event of the object was delivered"
	}
	return fmt.Sprintf("after %d dead letters, a later event of the object was delivered", r.Healed)
}

// note writes a line about what has the name.
func note(w io.Writer, name, text string, as shape) error {
	_, err := fmt.Fprintln(w, wrap(cli.Printable(name+": "+text), "    ", as.most))
	return err
}

func writeHandlers(
	w io.Writer, handlers []control.HandlerStatus, as shape, now time.Time,
) error {
	if len(handlers) == 0 {
		return none(w, "no handlers: no rule names one")
	}
	header := []string{"NAME", "PROCESS", "RESTARTS", "IN FLIGHT", "FOR", "STATE"}
	if as.wide {
		header = append(header, "PROGRAM")
	}
	t := newTableWithin(w, as.most, header...)
	for _, h := range handlers {
		pid := ""
		if h.PID > 0 {
			pid = strconv.Itoa(h.PID)
		}
		cells := []string{h.Name, pid, strconv.Itoa(h.Restarts), strconv.Itoa(h.InFlight),
			age(now, h.Since), handlerState(h)}
		if as.wide {
			cells = append(cells, h.Program)
		}
		t.row(cells...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, h := range handlers {
		for _, line := range handlerDetails(h, as, now) {
			if _, err := fmt.Fprintln(w, wrap(line, "    ", as.most)); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeMetrics(w io.Writer, metrics []control.MetricStatus, as shape) error {
	t := newTableWithin(w, as.most, "NAME", "OF", "SERIES", "MAX", "ERRORS", "STATE")
	for _, m := range metrics {
		of, state := "source "+m.Source, "shown"
		if m.Rule != "" {
			of = "rule " + m.Rule
		}
		if m.Counts {
			state = "counting"
		}
		t.row(m.Name, of, strconv.Itoa(m.Series), strconv.Itoa(m.Max),
			strconv.FormatUint(m.Errors, 10), state)
	}
	return t.flush()
}

// handlerDetails returns what does not fit in the table: a reload under way, slow events, the
// endpoints of a remote handler, and if wide what enforces its confinement.
func handlerDetails(h control.HandlerStatus, as shape, now time.Time) (lines []string) {
	name := cli.Printable(h.Name)
	if !h.Reloading.IsZero() {
		line := fmt.Sprintf("%s: being reloaded, for %s", name, age(now, h.Reloading))
		lines = append(lines, line)
	}
	lines = append(lines, slowDetails(h, now)...)
	for _, e := range h.Endpoints {
		lines = append(lines, fmt.Sprintf("%s at %s: %s, %d in flight",
			name, e.Address, e.State, e.InFlight))
	}
	if h.Confined != "" && as.wide {
		lines = append(lines, fmt.Sprintf("%s: confined to %s", name, cli.Printable(h.Confined)))
	}
	return lines
}

// slowDetails returns with which events a handler is slow, if any.
func slowDetails(h control.HandlerStatus, now time.Time) (lines []string) {
	name := cli.Printable(h.Name)
	if h.Slow > 0 {
		lines = append(lines, fmt.Sprintf("%s: %d slow %s, for which no other waits",
			name, h.Slow, cli.Plural(h.Slow, "event")))
	}
	if h.Full && h.InFlight > 0 {
		lines = append(lines, name+": FULL")
	}
	for _, w := range h.Longest {
		lines = append(lines, fmt.Sprintf("    %s for rule %s, for %s",
			cli.Printable(w.Object), cli.Printable(w.Rule), age(now, w.Since)))
	}
	return lines
}

func until(now, then time.Time) string {
	switch pause := then.Sub(now).Round(time.Second); {
	case pause >= 24*time.Hour:
		return "in " + duration.HumanDuration(pause)
	case pause > 0:
		return "in " + pause.String()
	}
	return "now"
}

func writeStore(w io.Writer, s *control.StateStatus, now time.Time) error {
	if s == nil {
		return none(w,
			"none is kept: a restart delivers the existing objects again and loses what waits")
	}
	durable := "yes"
	if !s.Durable {
		durable = "NO" + cli.Because(s.Trouble)
	}
	if s.Loading && s.Durable {
		durable = "not loaded yet: the API server has not identified the cluster, " +
			"and what the state holds is not counted above"
	}
	t := newTable(w, "durable", durable)
	t.row("directory", s.Directory)
	if s.Loading {
		return t.flush()
	}
	t.row("size", size(s.SizeBytes))
	unwritten := fmt.Sprintf("%d %s", s.Unwritten, cli.Plural(s.Unwritten, "record"))
	if s.Unwritten > 0 {
		unwritten += fmt.Sprintf(", about %s", size(s.UnwrittenBytes))
	}
	t.row("unwritten", unwritten)
	if !s.LastWrite.IsZero() {
		t.row("last write", age(now, s.LastWrite)+" ago")
	}
	for _, path := range s.SetAside {
		t.row("set aside", path)
	}
	return t.flush()
}

// none prints words in the place of a table.
func none(w io.Writer, words string) error {
	_, err := fmt.Fprintln(w, words)
	return err
}
