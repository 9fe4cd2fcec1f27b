package client

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
)

func newStatusCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status [-o json]",
		Short: "Show the state of the running daemon",
		Long: `Show the state of the running daemon: its sources, rules and handlers, and what it
keeps on disk.

For a source, LAG counts the changes that informd has received from the API server and not evaluated
yet.

For a rule, WAITING counts its deliveries that wait, AWAY those of them that are on disk only.
OLDEST is the age of its oldest delivery that is not acknowledged. DEAD counts its dead letters,
ERRORS how often one of its expressions failed. While a delivery waits for a retry, the last failure
stands below the table.
` + whichDaemon,
		Args: cli.NoArguments,
	}
	flags := addControlFlags(cmd)
	outputFlag(cmd, &output, "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.ask(func(c *control.Client) error {
			status, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				return writeDocument(cmd.OutOrStdout(), output, status)
			}
			return writeStatus(cmd.OutOrStdout(), status, time.Now())
		})
	}
	return cmd
}

func writeStatus(w io.Writer, s control.Status, now time.Time) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "informd %s, process %d, for %s\n",
		cli.Printable(s.Version), s.PID, age(now, s.Started))
	sections := []struct {
		title string
		write func(io.Writer) error
	}{
		{"SOURCES", func(w io.Writer) error { return writeSources(w, s.Sources) }},
		{"RULES", func(w io.Writer) error { return writeRules(w, s.Rules) }},
		{"HANDLERS", func(w io.Writer) error { return writeHandlers(w, s.Handlers, now) }},
		{"STATE", func(w io.Writer) error { return writeStore(w, s.Store, now) }},
	}
	for _, section := range sections {
		fmt.Fprintf(out, "\n%s\n", section.title)
		if err := section.write(out); err != nil {
			return err
		}
	}
	return out.Flush()
}

func writeSources(w io.Writer, sources []control.SourceStatus) error {
	if len(sources) == 0 {
		return none(w, "no sources: informd watches nothing")
	}
	t := newTable(w, "NAME", "RESOURCE", "OBJECTS", "RESOURCEVERSION", "LAG", "STATE")
	for _, s := range sources {
		t.row(s.Name, s.Resource, strconv.Itoa(s.Objects), s.ResourceVersion,
			strconv.Itoa(s.Lag), s.State+cli.Because(s.Reason))
	}
	return t.flush()
}

func writeRules(w io.Writer, rules []control.RuleStatus) error {
	if len(rules) == 0 {
		return none(w, "no rules: informd delivers nothing")
	}
	t := newTable(w, "NAME", "HANDLER",
		"MATCHES", "WAITING", "AWAY", "OLDEST", "DEAD", "ERRORS", "STATE")
	for _, r := range rules {
		state := "active"
		if r.Paused {
			state = "paused"
		}
		oldest := ""
		if r.OldestSeconds > 0 {
			oldestAge := time.Duration(r.OldestSeconds * float64(time.Second))
			oldest = oldestAge.Round(time.Second).String()
		}
		t.row(r.Name, r.Handler, strconv.FormatUint(r.Matches, 10),
			strconv.Itoa(r.Waiting), strconv.Itoa(r.Away), oldest, strconv.Itoa(r.Dead),
			strconv.FormatUint(r.Errors, 10), state+cli.Because(r.Reason))
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, r := range rules {
		if r.Failure == "" {
			continue
		}
		_, err := fmt.Fprintf(w, "%s: %s\n", cli.Printable(r.Name), cli.Visible(r.Failure))
		if err != nil {
			return err
		}
	}
	return nil
}

func writeHandlers(w io.Writer, handlers []control.HandlerStatus, now time.Time) error {
	if len(handlers) == 0 {
		return none(w, "no handlers: no rule names one")
	}
	t := newTable(w, "NAME", "PROCESS", "RESTARTS", "IN FLIGHT", "FOR", "STATE")
	for _, h := range handlers {
		pid := ""
		if h.PID > 0 {
			pid = strconv.Itoa(h.PID)
		}
		t.row(h.Name, pid, strconv.Itoa(h.Restarts), strconv.Itoa(h.InFlight),
			age(now, h.Since), handlerState(h, now))
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, h := range handlers {
		for _, line := range handlerDetails(h, now) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// failingFrom is how many recent failures make a handler that runs again a failing one.
const failingFrom = 2

// handlerState returns a handler's state with its reason. A handler that fails again and again may
// run for the moment, but that is not what its operator needs to know.
func handlerState(h control.HandlerStatus, now time.Time) string {
	if h.State != control.Running || h.Failures < failingFrom || h.LastFailure == "" {
		return h.State + cli.Because(h.Reason)
	}
	return "failing" + cli.Because(fmt.Sprintf("started again %d times, the last failure was %s ago: %s",
		h.Restarts, age(now, h.FailedAt), h.LastFailure))
}

// handlerDetails returns what does not fit in the table: a reload under way, the last log lines and
// next start of a handler in trouble, the endpoints of a remote one, and what enforces its
// confinement.
func handlerDetails(h control.HandlerStatus, now time.Time) (lines []string) {
	name := cli.Printable(h.Name)
	if !h.Reloading.IsZero() {
		line := fmt.Sprintf("%s: being reloaded, for %s", name, age(now, h.Reloading))
		lines = append(lines, line)
	}
	words := h.LastLog
	switch {
	case !h.Next.IsZero() && len(words) > 0:
		lines = append(lines,
			name+": tried again "+until(now, h.Next)+"; its last lines on standard error:")
	case !h.Next.IsZero():
		lines = append(lines, name+": tried again "+until(now, h.Next))
	// a new process is starting, or runs and may fail as well
	case (h.State != control.Running || h.Failures >= failingFrom) && h.Failures > 0 &&
		len(words) > 0:
		lines = append(lines,
			name+": last lines on standard error of the last process that failed:")
	default:
		words = nil
	}
	for _, said := range words {
		lines = append(lines, cli.Visible("    "+said))
	}
	lines = append(lines, slowDetails(h, now)...)
	for _, e := range h.Endpoints {
		line := fmt.Sprintf("%s at %s: %s%s, %d in flight", name, e.Address, e.State,
			cli.Printable(cli.Because(e.Reason)), e.InFlight)
		if !e.Next.IsZero() {
			line += ", tried again " + until(now, e.Next)
		}
		lines = append(lines, line)
	}
	if h.Confined != "" {
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
	if h.Full {
		lines = append(lines,
			name+": FULL: it has as many events as it may, and others wait until it answers one")
	}
	for _, w := range h.Longest {
		lines = append(lines, fmt.Sprintf("    %s for rule %s, for %s",
			cli.Printable(w.Object), cli.Printable(w.Rule), age(now, w.Since)))
	}
	return lines
}

func until(now, then time.Time) string {
	if pause := then.Sub(now).Round(time.Second); pause > 0 {
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
	t := newTable(w, "durable", durable)
	t.row("directory", s.Directory)
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
