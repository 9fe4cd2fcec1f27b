// Command stores measures embedded stores at what informd asks of one: objects of 3 KB that change all the time, written
// behind in synced transactions, read when the daemon starts, and never silently wrong. It was made to choose engine/state's
// store, and is a module of its own so that what was not chosen is no dependency of informd.
//
//	cd integration/stores && go run .
//
// takes some seven minutes and writes its tables into docs/benchmarks.md, where it is said what they mean. Each store and each
// damaged copy is in a process of its own: this program again. It needs Linux, for /proc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// job is what is measured. A child gets it as JSON.
type job struct {
	Store   string
	Packed  bool // compressed with a dictionary
	Dir     string
	Objects int
	Batches int           // after the objects have been written once
	Batch   int           // changes in a batch
	Every   time.Duration // 0: one batch after the other
}

// roles are what else this program is, by its first argument.
var roles = map[string]func(job) (any, error){
	"write": func(j job) (any, error) { return write(j) },
	"read":  func(j job) (any, error) { return read(j) },
	"check": func(j job) (any, error) { return check(j) },
}

func main() {
	if len(os.Args) == 3 {
		if role := roles[os.Args[1]]; role != nil {
			exit("stores: "+os.Args[1], serve(role, os.Args[2]))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit("stores", command(ctx))
}

func exit(name string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func command(ctx context.Context) error {
	s := scale{batch: 2500, every: 500 * time.Millisecond}
	flag.IntVar(&s.objects, "objects", 100_000, "objects; a fifth of them where stores are damaged")
	flag.DurationVar(&s.lasts, "for", 20*time.Second, "how long 5,000 changes per second are made")
	flag.IntVar(&s.seeds, "seeds", 30, "damaged copies of each store")
	document := flag.String("o", "../../docs/benchmarks.md", `the document that the tables are written into; "": none`)
	flag.Parse()
	if flag.NArg() > 0 || s.objects < 1000 || s.lasts < s.every || s.seeds < 1 {
		return errors.New("there are no arguments beside the flags; objects are at least 1000, and it lasts half a second")
	}
	text, err := run(ctx, s)
	if err != nil {
		return err
	}
	fmt.Print(text)
	if *document == "" {
		return nil
	}
	return splice(*document, text)
}
