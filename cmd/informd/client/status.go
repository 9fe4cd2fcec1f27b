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
		Short: "Show how the running daemon stands",
		Long: `Show how the running daemon stands: its sources, rules, handlers, and what it keeps on disk.

A source's lag is how many changes were taken from the server and not evaluated yet. Of a rule, "away" is what of its
waiting deliveries is on disk alone, "oldest" the age of the oldest that is not acknowledged, "dead" its dead letters,
"errors" how often one of its expressions failed. Below them is what failed last, of rules of which something waits to be tried
again.
` + whichDaemon,
		Args:                  cli.NoArguments,
		DisableFlagsInUseLine: true,
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
	fmt.Fprintf(out, "informd %s, process %d, for %s\n", cli.Printable(s.Version), s.PID, age(now, s.Started))
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

func writeSources(w io.Writer, sources []control.Source) error {
	if len(sources) == 0 {
		return none(w, "no source: nothing is watched")
	}
	t := newTable(w, "NAME", "RESOURCE", "OBJECTS", "RESOURCEVERSION", "LAG", "STATE")
	for _, s := range sources {
		t.row(s.Name, s.Resource, strconv.Itoa(s.Objects), s.ResourceVersion, strconv.Itoa(s.Lag), s.State+cli.Because(s.Reason))
	}
	return t.flush()
}

func writeRules(w io.Writer, rules []control.Rule) error {
	if len(rules) == 0 {
		return none(w, "no rule: nothing is delivered")
	}
	t := newTable(w, "NAME", "HANDLER", "MATCHES", "WAITING", "AWAY", "OLDEST", "DEAD", "ERRORS", "STATE")
	for _, r := range rules {
		state := "active"
		if r.Paused {
			state = "paused"
		}
		oldest := ""
		if r.OldestSeconds > 0 {
			oldest = (time.Duration(r.OldestSeconds * float64(time.Second))).Round(time.Second).String()
		}
		t.row(r.Name, r.Handler, strconv.FormatUint(r.Matches, 10), strconv.Itoa(r.Waiting), strconv.Itoa(r.Away), oldest,
			strconv.Itoa(r.Dead), strconv.FormatUint(r.Errors, 10), state+cli.Because(r.Reason))
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, r := range rules {
		if r.Failure == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", cli.Printable(r.Name), cli.Visible(r.Failure)); err != nil {
			return err
		}
	}
	return nil
}

func writeHandlers(w io.Writer, handlers []control.Handler, now time.Time) error {
	if len(handlers) == 0 {
		return none(w, "no handler: no rule names one")
	}
	t := newTable(w, "NAME", "PROCESS", "RESTARTS", "IN FLIGHT", "FOR", "STATE")
	for _, h := range handlers {
		pid := ""
		if h.PID > 0 {
			pid = strconv.Itoa(h.PID)
		}
		t.row(h.Name, pid, strconv.Itoa(h.Restarts), strconv.Itoa(h.InFlight), age(now, h.Since), h.State+cli.Because(h.Reason))
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

// handlerDetails are what is too long for a table: that a handler is being reloaded; of one in trouble what it said last and
// when it is tried again; what one is confined to.
func handlerDetails(h control.Handler, now time.Time) (lines []string) {
	name := cli.Printable(h.Name)
	if !h.Reloading.IsZero() {
		lines = append(lines, fmt.Sprintf("%s: being reloaded, for %s", name, age(now, h.Reloading)))
	}
	words := h.LastLog
	switch {
	case !h.Next.IsZero() && len(words) > 0:
		lines = append(lines, name+": tried again "+until(now, h.Next)+"; its last lines on standard error:")
	case !h.Next.IsZero():
		lines = append(lines, name+": tried again "+until(now, h.Next))
	case h.State != control.Running && h.Failures > 0 && len(words) > 0: // another process is there by now
		lines = append(lines, name+": last lines on standard error of the last process that failed:")
	default:
		words = nil
	}
	for _, said := range words {
		lines = append(lines, cli.Visible("    "+said))
	}
	for _, e := range h.Endpoints {
		line := fmt.Sprintf("%s at %s: %s%s, %d in flight", cli.Printable(h.Name), e.Address, e.State, cli.Printable(cli.Because(e.Reason)), e.InFlight)
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

func until(now, then time.Time) string {
	if pause := then.Sub(now).Round(time.Second); pause > 0 {
		return "in " + pause.String()
	}
	return "now"
}

func writeStore(w io.Writer, s *control.Store, now time.Time) error {
	if s == nil {
		return none(w, "none is kept: after a restart what is there comes again, and what waits is gone")
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

// none says in words that there is nothing to show.
func none(w io.Writer, words string) error {
	_, err := fmt.Fprintln(w, words)
	return err
}
