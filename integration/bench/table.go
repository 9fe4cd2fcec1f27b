package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func printConditions(ctx context.Context, binary string, l *load, updates int) error {
	version, err := exec.CommandContext(ctx, binary, "version").Output()
	if err != nil {
		return fmt.Errorf("%s version: %w", binary, err)
	}
	built, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	stock, _ := debug.ReadBuildInfo()
	server, err := l.client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	object, err := l.client.CoreV1().RESTClient().Get().Namespace(fullNamespace).Resource("configmaps").
		Name(object(0).Name).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d cores of %s/%s, shared with the control plane and the writers; load average before: %s\n",
		time.Now().UTC().Format("2006-01-02 15:04 MST"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, loadAverage())
	fmt.Printf("%s (client-go %s, %s); stock client-go %s, %s; kube-apiserver %s\n", strings.TrimSpace(string(version)),
		clientGoIn(built), built.GoVersion, clientGoIn(stock), runtime.Version(), server.GitVersion)
	fmt.Printf("%d ConfigMaps of %d bytes (JSON with managedFields), %d updates by %d writers per contestant and round\n\n",
		l.objects, len(object), updates, writers)
	return nil
}

// loadAverage is that of the last 1, 5 and 15 minutes.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

func clientGoIn(build *debug.BuildInfo) string {
	for _, m := range build.Deps {
		if m.Path == "k8s.io/client-go" {
			return m.Version
		}
	}
	return "unknown"
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

func printTable(contestants []contestant, results []results) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "median (least–most)")
	for _, c := range columns {
		fmt.Fprint(w, "\t", c.name)
	}
	for i, r := range results {
		fmt.Fprint(w, "\n", contestants[i].name)
		if r.err != nil {
			fmt.Fprint(w, "\tERROR: see below")
			continue
		}
		for _, c := range columns {
			fmt.Fprint(w, "\t", spread(r.samples, c.digits, c.of))
		}
	}
	fmt.Fprint(w, "\n\n")
	_ = w.Flush() // fails as fmt.Print does, which nobody looks at either
}

func printDeliveries(d deliveries, objects int) {
	if d.err != nil {
		fmt.Println("informd to log, end to end: ERROR: see below")
		return
	}
	fmt.Printf("informd to log, end to end: %s deliveries/s of a backlog of %d\n",
		spread(d.rate, 0, func(f float64) float64 { return f }), objects)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ms from sending an update to its line\tp50\tp90\tp99\tmost")
	row := func(name string, all []latency) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name,
			spread(all, 1, func(l latency) float64 { return l.p50 }), spread(all, 1, func(l latency) float64 { return l.p90 }),
			spread(all, 1, func(l latency) float64 { return l.p99 }), spread(all, 1, func(l latency) float64 { return l.most }))
	}
	row(fmt.Sprintf("at %d updates/s", pace), d.paced)
	row("at full speed", d.fullSpeed)
	_ = w.Flush()
}

// spread is "median (least–most)", or the one value that there is.
func spread[T any](all []T, digits int, of func(T) float64) string {
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	slices.Sort(values)
	n := len(values)
	median := (values[(n-1)/2] + values[n/2]) / 2
	if n == 1 {
		return fmt.Sprintf("%.*f", digits, median)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, median, digits, values[0], digits, values[n-1])
}
