package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/engine/explain"
)

// eventsFlags say which events to show, and how.
type eventsFlags struct {
	rule       string
	watch, all bool
	output     string
}

func newEventsCommand() *cobra.Command {
	var events eventsFlags
	cmd := &cobra.Command{
		Use:   "events [--rule NAME] [-w]",
		Short: "Show what rules selected lately, and what became of it",
		Long: `Show what rules selected lately, when it was sent to handlers, and what they answered, with
the time it took. Most of it, a line says what became of one change of one object; nothing of the
object's content is kept. --all also shows the changes of members that rules did not select, and why.

informd remembers the last 1,024 changes and the last 1,024 attempts of each rule since it started,
less with more than 32 rules. It shows the newest 1,000.
` + whichDaemon,
		Args: cli.NoArguments,
	}
	flags := addControlFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&events.rule, "rule", "", "only of the rule `NAME`")
	f.BoolVarP(&events.watch, "watch", "w", false, "go on with what happens, until ctrl-C")
	f.BoolVar(&events.all, "all", false, "also changes that rules did not select")
	outputFlag(cmd, &events.output, "wide", "json")
	completeFlag(cmd, "rule", flags.completer(1, ruleNames))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.ask(func(c *control.Client) error {
			return events.run(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		})
	}
	return cmd
}

// eventsEvery is the time between two questions of events --watch.
const eventsEvery = 500 * time.Millisecond

func (e *eventsFlags) run(ctx context.Context, c *control.Client, out, notes io.Writer) error {
	var lines eventLines
	var started time.Time
	isWaiting := false // no replica leads, and that was said
	for after := uint64(0); ; {
		found, err := c.Events(ctx, e.rule, after)
		if err != nil && ctx.Err() != nil && after > 0 {
			return nil
		}
		if isUnavailable(err) && !started.IsZero() { // another replica may lead soon
			if !isWaiting {
				fmt.Fprintf(notes, "informd: waiting: %s\n", cli.Printable(err.Error()))
			}
			if isWaiting = true; pause(ctx, eventsEvery) {
				continue
			}
			return nil
		}
		if err != nil {
			return err
		}
		isWaiting = false
		if !started.IsZero() && (!found.Started.Equal(started) || found.Last < after) { // it starts at 0
			fmt.Fprintln(notes, "informd: the daemon has restarted, or another replica leads")
			started, after = found.Started, 0
			continue
		}
		if found.Missed && after > 0 {
			fmt.Fprintln(notes, "informd: some events are not shown: too many came at once")
		}
		started, after = found.Started, found.Last
		if err := e.write(out, found.Items, &lines); err != nil {
			return err
		}
		if !e.watch {
			if len(found.Items) == 0 && e.output != "json" {
				fmt.Fprintln(notes, "informd: nothing has happened since the daemon started")
			}
			return nil
		}
		if !pause(ctx, eventsEvery) {
			return nil
		}
	}
}

// pause waits for a while. It returns false if ctx ends.
func pause(ctx context.Context, while time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(while):
		return true
	}
}

func (e *eventsFlags) write(out io.Writer, items []control.Event, lines *eventLines) error {
	if !e.all {
		items = slices.DeleteFunc(items, func(e control.Event) bool { return isDeclined(e.What) })
	}
	for i := range items {
		lines.widen(items[i].Rule, items[i].Object)
	}
	for i := range items {
		item := &items[i]
		if e.output == "json" {
			text, err := json.Marshal(item)
			if err == nil {
				_, err = fmt.Fprintf(out, "%s\n", text)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := lines.write(out, item, e.output == "wide"); err != nil {
			return err
		}
	}
	return nil
}

// isDeclined reports whether a change of a member was not selected.
func isDeclined(what string) bool {
	switch what {
	case "events", "when", "rounds", "failed", "waits":
		return true
	}
	return false
}

// eventLines writes lines whose columns grow with what they hold, because nobody knows what follows.
type eventLines struct {
	widths [4]int
	begun  bool
}

func (l *eventLines) write(out io.Writer, e *control.Event, wide bool) error {
	if !l.begun {
		l.begun = true
		if err := l.line(out, "TIME", "RULE", "OBJECT", "EVENT", "WHAT HAPPENED"); err != nil {
			return err
		}
	}
	what := happened(e.Handler, e.Outcome) + eventTargets(e.Targets, wide, time.Now())
	if wide {
		what += " (" + e.ID + ")"
	}
	return l.line(out, e.Time.Format("15:04:05.000"), e.Rule, e.Object, e.Event, what)
}

// widen makes room for a rule and an object.
func (l *eventLines) widen(rule, object string) {
	l.widths[0], l.widths[3] = len("15:04:05.000"), len("updated")
	l.widths[1] = max(l.widths[1], len("RULE"), utf8.RuneCountInString(cli.Printable(rule)))
	l.widths[2] = max(l.widths[2], len("OBJECT"), utf8.RuneCountInString(cli.Printable(object)))
}

func (l *eventLines) line(out io.Writer, cells ...string) error {
	var b strings.Builder
	for i, cell := range cells {
		cell = cli.Printable(cell)
		b.WriteString(cell)
		if i < len(l.widths) {
			pad := l.widths[i] - utf8.RuneCountInString(cell) + columnGap
			b.WriteString(strings.Repeat(" ", max(pad, columnGap)))
		}
	}
	_, err := fmt.Fprintln(out, b.String())
	return err
}

// ended says how an attempt has ended well.
var ended = map[string]string{
	"done": "acknowledged", "acted": "actions performed", "pruned": "no action but prune, ended",
	"unchanged": "nothing had to change, ended",
	"gone":      "actions changed nothing, as an object is gone: ended",
}

// happened says what became of a change or of an attempt at its delivery to a handler.
func happened(handler string, o explain.Outcome) string {
	took := shortDuration(o.DurationSeconds)
	second := ""
	if o.Attempt > 1 {
		second = fmt.Sprintf(", attempt %d", o.Attempt)
	}
	actsAlone := handler == control.OwnActions
	switch o.What {
	case "selected":
		return "selected"
	case "gathered":
		return "selected for the event of its group, which is about the newest object in it"
	case "undecided":
		return "waits, and is evaluated at its delivery"
	case "events":
		return "not selected: the rule's events leave out " + o.Event
	case "when":
		return "not selected: when is false"
	case "count":
		return "counts, and is not the one that goes on"
	case "rounds":
		return "not selected: the rule sees the moments of its schedule only"
	case "own":
		return "not delivered: the rule made this change itself"
	case "failed":
		return "not selected: an expression fails"
	case "waits":
		return "waits to become a member"
	case "void":
		return "cancelled out with the change before, which still waited"
	case "sent":
		return "sent to " + handler + second
	case "acts":
		return "performs its actions" + second
	case "done", "acted", "unchanged", "gone", "pruned":
		return fmt.Sprintf("%s after %s, %s since it was selected",
			ended[o.What], took, shortDuration(o.LatencySeconds))
	case "idle":
		return "no action: each if is false, or its forEach empty"
	case "tried":
		return "dry run: only logged"
	case "unmade":
		return "could not be made after " + took + second + ": a dead letter"
	case "outdated":
		return "given up: the object has changed since"
	case "retry":
		return "failed after " + took + second + ", comes again"
	case "lost":
		return "handler lost after " + took + second + ", comes again"
	case "reject":
		if actsAlone {
			return "its actions failed for good after " + took + second + ": a dead letter"
		}
		return "rejected after " + took + second + ": a dead letter"
	case "dead":
		return "failed for the last time after " + took + second + ": a dead letter"
	case "cancelled":
		return "cancelled after " + took + second + ", comes again"
	}
	return o.What
}

// shortDuration returns a duration for people to read.
func shortDuration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
