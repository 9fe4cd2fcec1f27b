// Command bench measures what informd costs, compared with client-go's own dynamic informer and
// with a process per event. All get the same load from a stub API server. It also checks the
// figures against what informd promises. `make bench` builds what it needs and runs it.
// docs/benchmarks.md describes the measurements and shows the results.
//
// The load and each contestant run in processes of their own: bin/informd, or this program in the
// role that its first argument names. If a contestant has not seen exactly what was sent, the
// report shows an error in place of its figures, and the exit code is 1.
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
	"time"
)

// roles maps the name of a role, the first argument, to what the program then does.
var roles = map[string]func(ctx context.Context, args []string) error{
	"load":      serveLoad,
	"stock":     serveStock,
	"engine":    serveEngine,
	"echo":      serveEcho,
	"handler":   serveHandler,
	"hangs":     serveHangs,
	"remote":    serveRemote,
	"neighbour": serveNeighbour,
	"apply":     serveApply,
	"claims":    serveClaims,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name, err := "bench", error(nil)
	if role := roleOf(os.Args); role != nil {
		name += ": " + os.Args[1]
		err = role(ctx, os.Args[2:])
	} else {
		err = command(ctx)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func roleOf(args []string) func(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return nil
	}
	return roles[args[1]]
}

const help = `usage: bench [flags]

Measures informd, client-go's dynamicinformer and a process per event under one load, alternating,
and prints a table, and what informd must show beside what it does. Takes half an hour; with -full,
with curves over the number of objects, rules and handlers and the rate of changes, more than one.
Needs Linux, bin/informd (make build) and bin/controlplane (make controlplane). Results go to
standard output and into a document, progress to standard error.

`

func command(ctx context.Context) error {
	s := scale{rest: time.Second}
	flag.IntVar(&s.objects, "objects", 20_000,
		"objects in the cluster; curves go up to 50 times as many")
	flag.IntVar(&s.updates, "updates", 15_000, "updates for the stock informers, per round; "+
		"others get more or fewer, to take as long")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds; figures are medians")
	flag.BoolVar(&s.full, "full", false, "the curves as well")
	binary := flag.String("informd", "bin/informd", "the informd to measure")
	flag.StringVar(&s.only, "only", "",
		"only sections with a measurement whose name contains this; write no document")
	flag.StringVar(&s.old, "old", "", "an older informd: compare its CPU, memory, deliveries and "+
		"acknowledgements, and write no document")
	document := flag.String("o", "docs/benchmarks.md",
		"the document that the results are written into; \"\": none")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), help)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 || s.objects < 40 || s.updates < 40 || s.rounds < 1 {
		return errors.New("there are no arguments beside the flags, " +
			"objects and updates are at least 40, and rounds 1")
	}
	dir, err := os.MkdirTemp("", "informd-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	informd, err := fresh(filepath.Join(dir, "informd"), *binary)
	if err != nil {
		return fmt.Errorf("no informd to measure: %w: run \"make build\"", err)
	}
	if s.old != "" {
		if s.old, err = fresh(filepath.Join(dir, "older"), s.old); err != nil {
			return fmt.Errorf("no older informd to compare with: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, err := run(ctx, self, informd, asTyped(os.Args[1:]), s)
	if r == nil {
		return err
	}
	fmt.Print(r)
	if *document == "" || s.old != "" || s.only != "" {
		return err
	}
	images, written := writeCharts(*document, r.charts)
	if written == nil {
		written = splice(*document, images, r.String())
	}
	return errors.Join(err, written)
}

// fresh copies a binary to a path and returns the path. How much of a binary becomes resident
// depends on how its file came into the page cache. So those that are compared come into it alike.
func fresh(path, binary string) (string, error) {
	data, err := os.ReadFile(binary)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, data, 0o700)
}

// asTyped returns the command line, quoted as one would type it.
func asTyped(args []string) string {
	line := "go run ./integration/bench"
	for _, arg := range args {
		if arg == "" {
			arg = `""`
		}
		line += " " + arg
	}
	return line
}
