// Package trial runs handlers by hand: informd handler try sends one made-up events, and informd
// handler check holds one against the contract. Both need neither a cluster nor a daemon, take a
// manifest or a command, and perform no action.
//
// subject.go says which handler it is, and with what. documents.go, events.go and cachefile.go read
// what the user made up, and say in which line something is wrong.
package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/config"
	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host"
)

// NewTryCommand returns informd handler try.
func NewTryCommand(version string) *cobra.Command {
	var flags tryFlags
	cmd := &cobra.Command{
		Use:   "try [flags] [COMMAND [ARG…]]",
		Short: "Run a handler by hand: made-up events in, its answers out",
		Long: `Run a handler, in any language, without a cluster and without a daemon. The command
starts it as informd run does, sends it events one after the other, and prints each answer with the
actions that it asks for. It performs none. The handler's log goes to standard error. A handler that
takes batches gets the events of different objects together, up to 32.

--event FILE, or - for standard input, has the events, as JSON or YAML: what the log builtin writes,
what informd dead show -o json prints, or objects as kubectl get -o yaml prints them, which become
added events. Changes as informd record or kubectl get --watch --output-watch-events -o json prints
them become added, updated and deleted events. With -f, objects and changes become what the handler's rules make of them, payload and attached
objects included. Without --event, the command makes an event up: with -f of the source of the
handler's first rule, from an object that --cache has of it; otherwise of a ConfigMap. If that rule
has no source, the event is a moment of its schedule.

--cache FILE has what the handler reads: objects as kubectl get -o yaml prints them, or sources by
their names:

  pods:
    indexes: {byNode: object.spec.nodeName}
    objects:
    - {metadata: {namespace: shop, name: web-0}, spec: {nodeName: node-1}}

With -f, the handler is the manifest's: its command, config, env, user, limits, sandbox and access,
or, of a remote handler, its address.
It reads only the sources that access.read names, and an action that access.write does not allow is
rejected. COMMAND takes the place of the manifest's command.

--debug suits a debugger: nothing has a time limit, nobody asks for the handler's health, and its
debug lines are shown.

Exit code 0: all events were done. 1: some were not, or the handler does not run. 2: the command
line, an event, the cache or the config is wrong.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && len(flags.manifests) == 0 {
				return errors.New("name the command of a handler, or its manifest with -f")
			}
			if flags.output != "text" && flags.output != "json" {
				return fmt.Errorf("-o %q: want text or json", flags.output)
			}
			if flags.cache == "-" && flags.event == "-" {
				return errors.New("--cache and --event cannot both read standard input")
			}
			s, err := flags.subject(cmd, args)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("timeout") {
				if flags.timeout <= 0 {
					return fmt.Errorf("--timeout %v: must be longer than 0", flags.timeout)
				}
				s.Timeout = flags.timeout
			}
			events, notes, err := s.events(flags.event, cmd.InOrStdin())
			if err != nil {
				return fmt.Errorf("--event: %w", err)
			}
			for _, note := range notes {
				cmd.PrintErrln(note)
			}
			if err := flags.run(cmd, s, events, version); err != nil {
				return cli.Failed(err)
			}
			return nil
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&flags.event, "event", "", "`FILE` with events, or - for standard input; "+
		"default: one made-up event")
	f.DurationVar(&flags.timeout, "timeout", 30*time.Second,
		"how long the handler may take for an event, a `DURATION`; default: the manifest's")
	f.BoolVar(&flags.debug, "debug", false,
		"no time limits and no health checks, as for a debugger; show debug lines")
	f.StringVarP(&flags.output, "output", "o", "text", "`text`, or json: a line per answer")
	return cmd
}

type tryFlags struct {
	subjectFlags
	timeout time.Duration
	output  string
}

// tried runs a handler for handler try.
type tried interface {
	Run(context.Context) error
	Handle(context.Context, handler.Event) (handler.Answer, error)
	SubmitAll(context.Context, []*handler.Event, func(int, handler.Answer, error))
	Limit() (n int, isProbe bool)
	Status() host.Status
}

// run runs the handler and sends it the events.
func (f *tryFlags) run(cmd *cobra.Command, s subject, events []read, version string) error {
	folders, err := launch.NewFolders([]config.Handler{s.Handler}, version)
	if err != nil {
		return err
	}
	defer folders.Remove()
	ctx, stop := cli.WithSignals(cmd.Context(), folders.Remove)
	defer stop()
	runs, err := f.host(s, folders, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = runs.Run(running) // always nil
	}()
	defer func() {
		end()
		<-ended
	}()

	failed, wantsCache := 0, false
	for first, batch := 0, 0; first < len(events); first += batch {
		if err := awaitRunning(ctx, runs, first > 0); err != nil {
			switch {
			case first == 0 && isNoHandler(err.Error()):
				cmd.PrintErrln(scriptHint)
			case runs.Status().State == host.Refused && s.manifests == nil && f.config == "":
				cmd.PrintErrln(configHint)
			}
			return err
		}
		batch = together(runs, events[first:])
		answers := handle(ctx, runs, events[first:first+batch])
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		time.Sleep(logGrace)
		for i, a := range answers {
			ev := events[first+i]
			if a.err == nil {
				a.err = s.refuses(&ev.Event, a.answer.Actions)
			}
			o := newOutcome(ev, a, batch)
			if o.Result != "done" {
				failed++
			}
			text := o.text(first+i+1, len(events), ev)
			if f.output == "json" {
				text = o.json()
			}
			if err := cli.Show(cmd, "%s", text); err != nil {
				return err
			}
			wantsCache = wantsCache || s.cache == nil && speaksOfCache(o.Reason)
		}
	}
	if wantsCache {
		cmd.PrintErrln("the handler reads the cache, and there was none: name one with --cache")
	}
	if failed > 0 && s.cache != nil && f.cache == "" && len(s.Read) > 0 {
		var names []string
		for _, source := range s.Read {
			names = append(names, source.String())
		}
		cmd.PrintErrf("the handler may read %s, and no object was given: "+
			"name a file of objects with --cache\n", strings.Join(names, ", "))
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d %s not done", failed, len(events), were(len(events)))
	}
	return nil
}

// together returns how many of the first events go to the handler at once: one, or as many as
// informd sends in one message to a handler that takes batches.
func together(h tried, events []read) int {
	if !h.Status().Handler.TakesBatches() {
		return 1
	}
	type object struct {
		rule, namespace, name string
		resource              handler.Resource
	}
	most, _ := h.Limit()
	most = min(most, handlerpb.MaxBatchEvents, len(events))
	seen, size := map[object]bool{}, 0
	for n, ev := range events[:most] {
		o := object{ev.Rule, ev.Namespace, ev.Name, ev.Resource}
		size += wire.Size(&ev.Event)
		if seen[o] || n > 0 && size > handlerpb.MaxBatchBytes {
			return n
		}
		seen[o] = true
	}
	return most
}

// answered is what the handler answered to an event.
type answered struct {
	answer handler.Answer
	err    error
	took   time.Duration
}

// handle sends events to the handler together, and returns its answers in their order.
func handle(ctx context.Context, h tried, events []read) []answered {
	var waiting sync.WaitGroup
	waiting.Add(len(events))
	all, began := make([]*handler.Event, len(events)), time.Now()
	for i := range events {
		all[i] = &events[i].Event
	}
	answers := make([]answered, len(events))
	h.SubmitAll(ctx, all, func(i int, a handler.Answer, err error) {
		answers[i] = answered{a, err, time.Since(began)}
		waiting.Done()
	})
	waiting.Wait()
	return answers
}

func were(n int) string {
	if n == 1 {
		return "event was"
	}
	return "events were"
}

// scriptHint is for who gives a script in the place of a handler.
const scriptHint = "a handler answers over gRPC; a script that reads an event on its standard input " +
	"is run by builtin: exec: write a manifest for it, and name that with -f"

// configHint is for who gives no config to a handler that wants one.
const configHint = "the handler got an empty config: name a file with one by --config, " +
	"or the handler's manifest by -f"

// isNoHandler reports whether a problem is that of a program that knows nothing of handlers.
func isNoHandler(problem string) bool {
	return strings.Contains(problem, "was not ready within") ||
		strings.Contains(problem, "handshake")
}

// logGrace is the time for the lines of an event to arrive before its answer is printed: they come
// on another way.
const logGrace = 20 * time.Millisecond

// host returns what runs the handler. Its log goes to w.
func (f *tryFlags) host(s subject, folders *launch.Folders, w io.Writer) (tried, error) {
	level := slog.LevelInfo
	if f.debug {
		level, s.LogLevel, s.Timeout = slog.LevelDebug, "debug", debugTimeout
	}
	if s.LogLevel == "" {
		s.LogLevel = "info" // OwnLines alone would make it warn
	}
	log := slog.New(host.OwnLines(cli.NewTextLog(w,
		&slog.HandlerOptions{Level: level, ReplaceAttr: cli.Untimed})))
	options := folders.Options(log)
	options.Backoff.Max = time.Second // somebody waits
	if f.debug {
		options = debugged(options)
	}
	if s.Remote != nil {
		spec, err := launch.RemoteSpec(s.Handler)
		if err != nil {
			return nil, err
		}
		return host.NewRemote(spec, options), nil
	}
	spec, err := s.spec()
	if err != nil {
		return nil, err
	}
	if s.cache != nil {
		options.Cache = s.cache
	}
	return host.New(spec, options), nil
}

// maxStarts is how many times a handler that has run, and crashed, is started again before it
// counts as one that does not run.
const maxStarts = 3

// awaitRunning waits until the handler takes events. The error says why it does not run. hasRun
// says that it did before.
func awaitRunning(ctx context.Context, h tried, hasRun bool) error {
	for before := h.Status().Restarts; ; {
		s := h.Status()
		fails := s.State == host.BackingOff && s.Reason != "" &&
			(!hasRun || s.Restarts-before >= maxStarts)
		switch {
		case s.State == host.Running:
			return nil
		case s.State == host.Refused, fails:
			return fmt.Errorf("the handler does not run: %s", printable.Line(s.Reason, 2<<10))
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return errors.New("interrupted")
		}
	}
}

// outcome is what a handler answered to an event.
type outcome struct{ wire.Verdict }

// newOutcome returns the outcome of an event that was sent together with others, or alone: batch is
// 1 then.
func newOutcome(ev read, a answered, batch int) outcome {
	err := a.err
	o := outcome{wire.Verdict{
		Line: ev.at.line, ID: ev.ID, Event: ev.Event.Event,
		Object: wire.ObjectName(ev.Resource, ev.Namespace, ev.Name), Result: "done",
		Actions: a.answer.Actions, Seconds: a.took.Seconds(),
	}}
	if batch > 1 {
		o.Batch = batch
	}
	switch after, asked := handler.RetryDelay(err); {
	case errors.Is(err, handler.ErrReject):
		o.Result = "reject"
		o.Reason = strings.TrimPrefix(err.Error(), handler.ErrReject.Error()+": ")
	case err != nil:
		o.Result, o.Reason = "retry", err.Error()
		if asked {
			o.RetryAfter = after.String()
		}
	}
	return o
}

func (o outcome) json() string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(o) // everything in it can be written
	return b.String()
}

// text returns the outcome of event n of so many, for people.
func (o outcome) text(n, of int, ev read) string {
	var b strings.Builder
	fmt.Fprintf(&b, "event %d of %d: %s %s, rule %s, id %s", n, of,
		cli.Printable(o.Event), cli.Printable(o.Object),
		cli.Printable(ev.Rule), cli.Printable(o.ID))
	if ev.at.file != "" {
		fmt.Fprintf(&b, " (%s:%d)", ev.at.file, ev.at.line)
	}
	b.WriteString("\n")
	show := func(what string, value json.RawMessage) {
		if len(value) > 0 {
			fmt.Fprintf(&b, "  %-8s %s\n", what, shown(value))
		}
	}
	show("payload", ev.Payload)
	show("object", ev.Event.Object)
	show("old", ev.Old)
	for _, name := range slices.Sorted(maps.Keys(ev.Attached)) {
		fmt.Fprintf(&b, "  %-8s %s: %d\n",
			"attached", cli.Printable(name), len(ev.Attached[name]))
	}
	if n := len(ev.Items); n > 1 { // a single one is the event itself
		for _, item := range ev.Items[:min(n, maxItems)] {
			contents := item.Object
			if len(item.Payload) > 0 {
				contents = item.Payload
			}
			line := fmt.Sprintf("%s %s %s", cli.Printable(item.Event),
				cli.Printable(wire.ObjectName(item.Resource, item.Namespace, item.Name)), shown(contents))
			fmt.Fprintf(&b, "  %-8s %s\n", "item", strings.TrimSpace(line))
		}
		if n > maxItems {
			fmt.Fprintf(&b, "  %-8s … and %d more\n", "item", n-maxItems)
		}
	}
	answer := o.Result
	if o.RetryAfter != "" {
		answer += " after " + o.RetryAfter
	}
	if o.Reason != "" {
		answer += ": " + cli.Printable(o.Reason)
	}
	took := time.Duration(o.Seconds * float64(time.Second)).Round(time.Millisecond).String()
	if o.Batch > 0 {
		took += fmt.Sprintf(", in a batch of %d", o.Batch)
	}
	fmt.Fprintf(&b, "  %-8s %s (%s)\n", "answer", answer, took)
	for _, a := range o.Actions {
		fmt.Fprintf(&b, "  %-8s %s %s", "action", a.Verb, wire.ObjectName(a.Resource, a.Namespace, a.Name))
		switch {
		case a.Verb == handler.ActionEvent:
			fmt.Fprintf(&b, " %s: %s", cli.Printable(a.Reason), cli.Printable(a.Message))
		case len(a.Patch) > 0:
			b.WriteString(" " + shown(a.Patch))
		case len(a.Object) > 0:
			b.WriteString(" " + shown(a.Object))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// maxItems bounds the items that an answer for people lists.
const maxItems = 20

// maxShown bounds the bytes of a value in an answer for people.
const maxShown = 500

// shown returns JSON on one line, shortened.
func shown(value json.RawMessage) string {
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return printable.Line(string(value), maxShown)
	}
	return printable.Line(compact.String(), maxShown)
}
