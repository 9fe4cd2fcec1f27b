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

func main() {
	objects := flag.Int("objects", 5_000, "ConfigMaps in the cluster")
	updates := flag.Int("updates", 10_000, "updates per contestant and round")
	rounds := flag.Int("rounds", 3, "rounds; each measures every contestant once")
	binary := flag.String("informd", "bin/informd", "the informd to measure")
	client := flag.String("client-go", "", "be the contestant of that name, for the cluster of a `KUBECONFIG`")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *client != "" && flag.NArg() == 1:
		err = serveClientGo(ctx, *client, flag.Arg(0))
	case flag.NArg() > 0 || min(*objects, *updates, *rounds) < 1:
		err = errors.New("there are no arguments beside the flags, and sizes are at least 1")
	default:
		err = run(ctx, *binary, *objects, *updates, *rounds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary string, objects, updates, rounds int) (err error) {
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
	load, err := newLoad(ctx, plane.RESTConfig(), objects)
	if err != nil {
		return err
	}
	if err := printConditions(ctx, binary, load, updates); err != nil {
		return err
	}

	at := site{plane.Kubeconfig(), binary, dir}
	contestants := contestants(at)
	results := make([]results, len(contestants))
	var handling deliveries
	for round := range rounds {
		for i := range contestants {
			i = (i + round) % len(contestants) // each is first in turn
			progress(round, rounds, contestants[i].name)
			results[i].add(measure(ctx, contestants[i], load, updates))
		}
		progress(round, rounds, "deliveries")
		handling.add(measureDeliveries(ctx, at, load, updates/2))
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
	printTable(contestants, results)
	printDeliveries(handling, objects)
	fmt.Println("\nload average after, the benchmark's own included:", loadAverage())
	for _, r := range results {
		err = errors.Join(err, r.err)
	}
	return errors.Join(err, handling.err)
}

// progress is for somebody who waits; the results alone are on standard output.
func progress(round, rounds int, what string) {
	fmt.Fprintf(os.Stderr, "bench: round %d of %d: %s\n", round+1, rounds, what)
}
