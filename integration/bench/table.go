package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func printConditions(binary string, l *load) error {
	version, err := exec.Command(binary, "version").Output()
	if err != nil {
		return fmt.Errorf("%s version: %w", binary, err)
	}
	built, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	ours, _ := debug.ReadBuildInfo()
	client := func(in *debug.BuildInfo) string {
		for _, m := range in.Deps {
			if m.Path == "k8s.io/client-go" {
				return "client-go " + m.Version
			}
		}
		return "client-go unknown"
	}
	busy, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return fmt.Errorf("reading /proc, as Linux has it: %w", err)
	}
	fmt.Printf(`%s
%s (%s, %s)
stock: %s, %s
kube-apiserver %s and etcd, on the same machine
%d cores of %s/%s, load %.14s before
%d ConfigMaps of %d bytes (JSON, with managedFields); %d updates per contestant and round, by %d writers at full speed

`, time.Now().UTC().Format("2006-01-02 15:04 MST"), strings.TrimSpace(string(version)), built.GoVersion, client(built),
		client(ours), runtime.Version(), l.version, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, busy,
		l.objects, l.size, l.updates, l.writers)
	return nil
}

// result is all rounds of one contestant.
type result struct {
	samples []sample
	err     error
}

func (r *result) add(s sample, err error) {
	r.samples = append(r.samples, s)
	r.err = errors.Join(r.err, err)
}

var columns = []struct {
	name   string
	digits int
	of     func(sample) float64
}{
	{"CPU µs/update", 0, func(s sample) float64 { return s.cpu }},
	{"of it the handler", 0, func(s sample) float64 { return s.handler }},
	{"RSS KiB/object", 1, func(s sample) float64 { return s.rss }},
	{"RSS MiB empty", 0, func(s sample) float64 { return s.empty }},
	{"after updates", 0, func(s sample) float64 { return s.afterward }},
	{"synced s", 2, func(s sample) float64 { return s.synced }},
	{"updates/s", 0, func(s sample) float64 { return s.rate }},
}

func printTable(contestants []contestant, results []result) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range columns {
		fmt.Fprintf(w, "\t%s", c.name)
	}
	fmt.Fprintln(w)
	for i, r := range results {
		fmt.Fprint(w, contestants[i].name)
		if r.err != nil {
			fmt.Fprint(w, "\tERROR, see below")
		}
		for _, c := range columns {
			if r.err == nil {
				fmt.Fprintf(w, "\t%s", spread(r.samples, c.digits, c.of))
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // as fmt.Println's errors
	fmt.Println()
}

func printDeliveries(d deliveries, s sizes) {
	if d.err != nil {
		fmt.Println("informd to log, end to end: ERROR, see below")
		return
	}
	fmt.Printf("informd to log, end to end: %s deliveries/s of a backlog of %d\n",
		spread(d.rate, 0, func(f float64) float64 { return f }), s.objects)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ms from sending an update to its line\tp50\tp90\tp99\tmax")
	row := func(name string, all []distribution) {
		fmt.Fprint(w, name)
		for _, of := range []func(distribution) float64{
			func(d distribution) float64 { return d.p50 }, func(d distribution) float64 { return d.p90 },
			func(d distribution) float64 { return d.p99 }, func(d distribution) float64 { return d.max },
		} {
			fmt.Fprintf(w, "\t%s", spread(all, 1, of))
		}
		fmt.Fprintln(w)
	}
	row(fmt.Sprintf("at %d updates/s", s.rate), d.paced)
	row("at full speed", d.fullSpeed)
	_ = w.Flush()
}

// spread is "median (least–most)", or the one value that there is.
func spread[T any](all []T, digits int, of func(T) float64) string {
	var values []float64
	for _, one := range all {
		values = append(values, of(one))
	}
	slices.Sort(values)
	n := len(values)
	switch n {
	case 0:
		return "–"
	case 1:
		return fmt.Sprintf("%.*f", digits, values[0])
	}
	median := (values[(n-1)/2] + values[n/2]) / 2
	if math.IsNaN(median) {
		return "–"
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, median, digits, values[0], digits, values[n-1])
}
