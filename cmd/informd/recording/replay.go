package recording

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/cmd/informd/ruletest"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/simulate"
)

type replayFlags struct {
	manifests, against []string
	output             string
	start, until       string
	after              time.Duration
}

// NewReplayCommand returns informd replay.
func NewReplayCommand() *cobra.Command {
	var flags replayFlags
	cmd := &cobra.Command{
		Use:   "replay -f PATH… [flags] FILE",
		Short: "Run rules over a recording, offline, in virtual time",
		Long: `Run rules over what happened in a cluster, and print the events that they make of it. FILE,
or - for standard input, is what informd record wrote, or what kubectl get prints with -o json, with
--watch and --output-watch-events or without. It may be compressed.

The command runs the engine of informd run, without a cluster, in virtual time: a day takes seconds.
It starts no handler, and performs no action: it prints what handlers would get, and which actions
rules would perform. Handlers acknowledge everything.

The clock starts at the time of the first line, or at --start, and keeps the times between lines.
kubectl prints no times: then everything happens at one moment, by default now. --until or --after
let time pass after the last line, for rules that wait for something.

--against compares two configurations on the same recording: the one that OTHER has, and the one
that -f has. A line with - is an event that only OTHER has, + one that only -f has, and ~ one that
both have and that differs.

Exit code 0: done; with --against, there is no difference. 1: there are differences, the recording
cannot be read, or the manifests have mistakes. 2: the command line is wrong.`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return errors.New("name a recording, or - for standard input")
			case 1:
				return nil
			}
			return fmt.Errorf("%q: one recording is enough; manifests are given with -f", args[1])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.output != "text" && flags.output != "json" {
				return fmt.Errorf("-o %q: want text or json", flags.output)
			}
			start, err := moment("--start", flags.start)
			if err != nil {
				return err
			}
			until, err := moment("--until", flags.until)
			switch {
			case err != nil:
				return err
			case flags.after < 0:
				return fmt.Errorf("--after %v: must be longer than 0", flags.after)
			case flags.after > 0 && !until.IsZero():
				return errors.New("--until and --after both say when to end: give one of them")
			case slices.Contains(flags.against, ""):
				return errors.New("--against is empty: name a manifest, or a folder of them")
			}
			r := &replay{replayFlags: &flags, cmd: cmd, start: start, until: until}
			return r.run(args[0])
		},
	}
	cli.ManifestFlag(cmd, &flags.manifests)
	f := cmd.Flags()
	f.StringArrayVar(&flags.against, "against", nil,
		"compare with the manifests in `OTHER`, a file or a folder tree; repeatable")
	f.StringVar(&flags.start, "start", "",
		"when the clock starts, a `TIME` as RFC 3339; default: the first line's, or now")
	f.StringVar(&flags.until, "until", "",
		"let the time pass until this `TIME` after the last line, as RFC 3339")
	f.DurationVar(&flags.after, "after", 0, "let so much time pass after the last line, "+
		"a `DURATION`")
	f.StringVarP(&flags.output, "output", "o", "text", "`text`, or json: a line per event")
	return cmd
}

// moment reads the time that a flag has; "" is the zero time.
func moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%s %q: want a time as RFC 3339, such as 2026-01-02T03:04:05Z",
			flag, text)
	}
	return t, nil
}

// replay is one run of informd replay.
type replay struct {
	*replayFlags
	cmd          *cobra.Command
	start, until time.Time

	events int
	failed error // the first error of printing
}

func (r *replay) run(path string) error {
	p, err := r.load(r.manifests)
	if err != nil {
		return err
	}
	if len(p.Rules) == 0 && r.against == nil {
		return cli.Failed(errors.New("there is no Rule in the manifests: no event can come"))
	}
	if r.against == nil {
		is := r.player(p, r.print, "")
		if err := r.play(path, is); err != nil {
			return cli.Failed(err)
		}
		r.say("%d %s, %d %s, %s of virtual time", is.lines, cli.Plural(is.lines, "line"),
			r.events, cli.Plural(r.events, "event"),
			config.ShortDuration(is.sim.Now().Sub(is.start)))
		return nil
	}
	other, err := r.load(r.against)
	if err != nil {
		return err
	}
	c := newComparison()
	was := r.player(other, func(e simulate.Event) { c.add(e, ofOther) }, "OTHER")
	is := r.player(p, func(e simulate.Event) { c.add(e, ofNew) }, "-f")
	if err := r.play(path, was, is); err != nil {
		return cli.Failed(err)
	}
	if r.output == "json" {
		err = c.json(r.cmd.OutOrStdout())
	} else {
		err = c.text(r.cmd.OutOrStdout(), strings.Join(r.against, ", "),
			strings.Join(r.manifests, ", "))
	}
	if err != nil {
		return cli.Failed(err)
	}
	if c.differs() {
		return &cli.ExitError{Code: cli.ExitFailed} // the output says it
	}
	return nil
}

// load reads manifests. It prints their mistakes.
func (r *replay) load(paths []string) (*plan.Plan, error) {
	_, p, err := manifests.Load(paths)
	if mistakes, ok := errors.AsType[config.Mistakes](err); ok {
		fmt.Fprintln(r.cmd.ErrOrStderr(), mistakes.Error())
		n := len(mistakes)
		err = fmt.Errorf("%d %s", n, cli.Plural(n, "mistake"))
	}
	if err != nil {
		return nil, cli.Failed(err)
	}
	return p, nil
}

// player returns a player of a plan. What informd run would log goes to standard error, with the
// name of the configuration if there are two.
func (r *replay) player(p *plan.Plan, came func(simulate.Event), name string) *player {
	log := slog.New(cli.NewTextLog(r.cmd.ErrOrStderr(),
		&slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: cli.Untimed}))
	if name != "" {
		log = log.With("manifests", name)
	}
	return &player{plan: p, log: log, start: r.start, came: came}
}

// say prints a line to standard error.
func (r *replay) say(format string, args ...any) {
	r.cmd.PrintErrln(cli.Printable(fmt.Sprintf(format, args...)))
}

// play plays a recording to all players, step by step, so that it is read once.
func (r *replay) play(path string, players ...*player) error {
	name, in := path, r.cmd.InOrStdin()
	if path == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	from, err := newReader(name, in)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		d, err := from.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		l, err := d.read()
		if err != nil {
			return err
		}
		if l.Type == typeRecording {
			if n > 0 {
				return d.mistake("another recording begins here: replay each one by itself")
			}
			var all []string
			for _, p := range players {
				all = append(all, missing(p.plan, l.Selections)...)
			}
			slices.Sort(all)
			for _, text := range slices.Compact(all) {
				r.say("%s", text)
			}
		}
		for _, p := range players {
			if err := p.play(l); err != nil {
				return d.mistake("%w", err)
			}
			if r.failed != nil {
				return r.failed
			}
		}
	}
	for _, p := range players {
		if err := p.end(r.until, r.after); err != nil {
			return err
		}
	}
	r.report(from, players)
	return r.failed
}

// report says what was odd about a recording.
func (r *replay) report(from *reader, players []*player) {
	if from.isCut {
		r.say("%s:%d: the recording ends within this line: it was left out", from.name, from.cutAt)
	}
	p := players[len(players)-1] // the lines are the same for all
	if p.lines == 0 {
		r.say("%s is empty", from.name)
	}
	if p.late > 0 {
		r.say("%d %s earlier than the one before: they count as at the same time",
			p.late, was(p.late, "line"))
	}
	unknown := maps.Clone(p.unknown)
	for _, other := range players { // what one configuration takes is not unknown
		maps.DeleteFunc(unknown, func(resource string, _ int) bool {
			return other.unknown[resource] == 0
		})
	}
	var all []string
	for _, resource := range slices.SortedFunc(maps.Keys(unknown), func(a, b string) int {
		return cmp.Or(cmp.Compare(unknown[b], unknown[a]), cmp.Compare(a, b))
	}) {
		all = append(all, fmt.Sprintf("%s (%d)", resource, unknown[resource]))
	}
	if len(all) > 0 {
		r.say("no source takes what the recording has of %s", strings.Join(all, ", "))
	}
	if !r.until.IsZero() && p.sim.Now().After(r.until) {
		r.say("the recording ends after --until, at %s", p.sim.Now().Format(timeForm))
	}
}

func was(n int, noun string) string {
	if n == 1 {
		return noun + " is"
	}
	return noun + "s are"
}

// timeForm is how replays show times.
const timeForm = "2006-01-02T15:04:05.000Z07:00"

// jsonEvent is an event as -o json prints it.
type jsonEvent struct {
	At      string          `json:"at"`
	ID      string          `json:"id"`
	Handler string          `json:"handler,omitempty"` // who got it; a rule's own actions have none
	Event   json.RawMessage `json:"event"`             // in the form in which tests write events
}

func newJSONEvent(e simulate.Event) jsonEvent {
	fields, _ := json.Marshal(ruletest.Show(e).Fields()) // JSON made them
	return jsonEvent{e.At.UTC().Format(timeForm), e.Event.ID, recipient(e), fields}
}

// print prints an event.
func (r *replay) print(e simulate.Event) {
	r.events++
	if r.failed != nil {
		return
	}
	var b bytes.Buffer
	if r.output == "json" {
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(newJSONEvent(e)) // everything in it can be written
	} else {
		shown := ruletest.Show(e)
		fmt.Fprintf(&b, "%s %s\n", e.At.UTC().Format(timeForm), shown.Line())
		for _, line := range shown.Details() {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	if _, err := r.cmd.OutOrStdout().Write(b.Bytes()); err != nil {
		r.failed = err
	}
}
