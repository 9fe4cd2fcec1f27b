package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/internal/slack"
	"github.com/informd/informd/plugins/handler"
)

// serveEngine runs informd's engine on manifest files, with handlers that only count, in the same
// process. Its arguments are the server's URL and the files.
func serveEngine(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("arguments %q", args)
	}
	compiled, err := compile(args[1:])
	if err != nil {
		return err
	}
	cfg := &rest.Config{Host: args[0], QPS: -1}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, client)
	if err != nil {
		return err
	}
	var handled counting
	warnings := &slog.HandlerOptions{Level: slog.LevelWarn}
	eng, err := engine.New(compiled, engine.Cluster{Config: cfg, HTTP: client, Discovery: disco},
		map[string]engine.Handler{"none": &handled},
		engine.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, warnings))})
	if err != nil {
		return err
	}
	var views []*source.Source
	for _, s := range compiled.Sources {
		view, _ := eng.Source(s.Name)
		views = append(views, view)
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	running := false
	go slack.Release(ctx) // as the daemon does
	err = answerQuestions(os.Stdin, os.Stdout, func(q question) (a answer, err error) {
		switch q.Ask {
		case askReady:
		case askBegin:
			running = true
			go func() { done <- eng.Run(ctx) }()
		case askSeen:
			a.Seen = seen{
				Objects: tally{Sum: unsummed}, Updates: tally{Sum: unsummed},
				Handled: handled.tally(),
			}
			for _, view := range views { // not by Status, which asks each of a thousand rules
				for _, informer := range view.Informers() {
					deltas := informer.Stats().Deltas
					a.Seen.Objects.N += int(deltas[delta.Synced])
					a.Seen.Updates.N += int(deltas[delta.Updated])
				}
			}
		case askCache:
			var cached counter
			for _, view := range views {
				for _, o := range view.List("", labels.Everything()) {
					cached.add(o.ResourceVersion())
				}
			}
			a.Cache = cached.tally()
		case askHeap:
			a.Heap = heap()
		default:
			err = errors.New("not of an engine")
		}
		return a, err
	})
	stop()
	if running {
		err = errors.Join(err, <-done)
	}
	return err
}

func compile(paths []string) (*plan.Plan, error) {
	var files []config.File
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, config.File{Path: path, Data: text})
	}
	parsed, mistakes := config.Parse(files)
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	compiled, mistakes := plan.Compile(parsed)
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return compiled, nil
}

// counting is a handler in the same process. Like the handler processes that bin/informd hosts, it
// is a dispatch.Submitter.
type counting struct{ counter }

func (c *counting) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	c.add(ev.ResourceVersion)
	return handler.Answer{}, nil
}

func (c *counting) Submit(
	_ context.Context, ev *handler.Event, answered func(handler.Answer, error)) {
	c.add(ev.ResourceVersion)
	answered(handler.Answer{}, nil)
}

func (*counting) Ready(ctx context.Context) error { return ctx.Err() }

// Limit is the default of a handler manifest.
func (*counting) Limit() (int, bool) { return 8, false }

func (*counting) Grown() <-chan struct{} { return nil }

var _ dispatch.Submitter = (*counting)(nil)
