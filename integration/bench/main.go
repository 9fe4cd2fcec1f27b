// Command bench prints what informd costs beside client-go's own dynamic informer, both on one real control plane under
// one load. `make bench` builds what it needs and runs it; docs/benchmarks.md says what each figure means.
//
// A contestant that has not seen every update gets an error in the place of its figures, and the exit code is 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/informd/informd/integration/cluster"
)

// sizes is what the command line says about the load.
type sizes struct {
	objects, bytes, updates, rounds, writers, rate int
}

func main() {
	var s sizes
	flag.IntVar(&s.objects, "objects", 5_000, "ConfigMaps in the cluster")
	flag.IntVar(&s.bytes, "bytes", 1_300, "size of each, as JSON with managedFields")
	flag.IntVar(&s.updates, "updates", 10_000, "updates per contestant and round")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds; each measures every contestant once")
	flag.IntVar(&s.writers, "writers", 8, "updates sent at once")
	flag.IntVar(&s.rate, "rate", 200, "updates per second of the latency figures that are not at full speed")
	binary := flag.String("informd", "bin/informd", "the informd to measure")
	client := flag.Bool("client-go", false, "be the client-go contestant: KUBECONFIG NAMESPACE")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *client && flag.NArg() == 2:
		err = serveClientGo(ctx, flag.Arg(0), flag.Arg(1))
	case *client || flag.NArg() > 0:
		err = fmt.Errorf("unexpected arguments: %q", flag.Args())
	case min(s.objects, s.bytes, s.updates, s.rounds, s.writers, s.rate) < 1:
		err = errors.New("sizes are at least 1")
	default:
		err = run(ctx, s, *binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s sizes, binary string) (err error) {
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("no informd to measure: %w: run \"make build\"", err)
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	plane, err := cluster.Start(ctx, filepath.Join(dir, "plane"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	load, err := newLoad(ctx, plane.RESTConfig(), s)
	if err != nil {
		return err
	}
	if err := printConditions(binary, load); err != nil {
		return err
	}

	at := site{plane.Kubeconfig(), binary, dir}
	contestants := contestants(at)
	results := make([]result, len(contestants))
	var handling deliveries
	for round := range s.rounds {
		for i := range contestants { // each is first in turn
			i = (i + round) % len(contestants)
			say("round %d of %d: %s", round+1, s.rounds, contestants[i].name)
			results[i].add(measure(ctx, contestants[i], load))
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
		}
		say("round %d of %d: deliveries", round+1, s.rounds)
		handling.add(measureDeliveries(ctx, at, load))
	}
	printTable(contestants, results)
	printDeliveries(handling, s)
	for _, r := range results {
		err = errors.Join(err, r.err)
	}
	return errors.Join(err, handling.err)
}

// say tells somebody who waits what is going on; the results alone are on standard output.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
