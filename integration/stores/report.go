package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func conditions(s scale) string {
	version, _ := os.ReadFile("/proc/sys/kernel/osrelease") // only told
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf(`cd integration/stores && go run .: %s
%d cores, Linux %s, %s, %s; load average before: %s
%d objects, then %d changes per second for %v, %d in a transaction
`, time.Now().UTC().Format("2006-01-02 15:04 MST"), runtime.NumCPU(), strings.TrimSpace(string(version)), runtime.GOARCH, runtime.Version(),
		strings.Join(strings.Fields(string(load))[:3], " "),
		s.objects, s.batch*int(time.Second/s.every), s.lasts, s.batch)
}

// table is one variant's. The results are not empty.
func table(results []result, packed bool) string {
	var b strings.Builder
	what := fmt.Sprintf("Values of %d bytes, plain", results[0].Size)
	if packed {
		what = fmt.Sprintf("Values of %d bytes: %d bytes compressed with a dictionary", results[0].Size, results[0].PlainSize)
	}
	fmt.Fprintf(&b, "\n%s\n\n", what)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name string, of func(r result) string) {
		cells := []string{name}
		for _, r := range results {
			cells = append(cells, of(r))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d.Microseconds())/1000) }
	row("", func(r result) string { return r.name + " " + versionOf(r.module) })
	row("CPU µs/change", func(r result) string {
		return fmt.Sprintf("%.1f", float64((r.written.CPU-r.idle).Microseconds())/float64(r.Changes))
	})
	row("bytes written/change", func(r result) string { return fmt.Sprint(r.Bytes / r.Changes) })
	row("commit ms, median", func(r result) string { return ms(quantile(r.Commits, 0.5)) })
	row("p99", func(r result) string { return ms(quantile(r.Commits, 0.99)) })
	row("most", func(r result) string { return ms(quantile(r.Commits, 1)) })
	row("MiB on disk, closed", func(r result) string { return fmt.Sprint(r.onDisk >> 20) })
	row("MiB resident", func(r result) string { return fmt.Sprint(r.RSS >> 10) })
	row("of it not mapped files", func(r result) string { return fmt.Sprint(r.Anonymous >> 10) })
	row("s to write all once", func(r result) string { return fmt.Sprintf("%.2f", r.Fill.Seconds()) })
	row("s to open and read all", func(r result) string { return fmt.Sprintf("%.2f", r.Took.Seconds()) })
	row("CPU s of that", func(r result) string { return fmt.Sprintf("%.2f", r.readBack.CPU.Seconds()) })
	_ = w.Flush() // a Builder takes everything
	return trimLines(b.String())
}

func damageTable(all []damages, s scale) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nBytes flipped in %d copies of each, with %d objects, compressed\n\n", s.seeds, s.objects/5)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tpanics, faults, hangs\tsilently wrong\tsilently older\tan error\tunharmed")
	for _, d := range all {
		fmt.Fprintf(w, "%s, %d\t%d\t%d\t%d\t%d\t%d\n", d.name, d.flips, d.died, d.wrong, d.older, d.noticed, d.unhurt)
	}
	_ = w.Flush() // a Builder takes everything
	return trimLines(b.String())
}

func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// quantile of none is 0.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

func versionOf(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

// The marks between which a document has the tables.
const (
	markBegin = "<!-- stores: written by integration/stores -->\n"
	markEnd   = "<!-- stores: end -->\n"
)

// splice puts the tables into a document.
func splice(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(old), markBegin)
	_, after, ends := strings.Cut(rest, markEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the tables: the lines %q and %q", path, strings.TrimSpace(markBegin), strings.TrimSpace(markEnd))
	}
	return os.WriteFile(path, []byte(before+markBegin+"\n```\n"+strings.TrimSpace(text)+"\n```\n\n"+markEnd+after), 0o644)
}
