package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// report is the printed result: titled tables, targets and charts.
type report struct {
	conditions string
	tables     []table
	targets    []target
	charts     []chart
	after      string
}

type table struct {
	title string
	rows  [][]string // the first one holds the names of the columns
}

// target is one promise of informd, and the measured value.
type target struct {
	what  string
	least bool    // limit is a lower bound, otherwise an upper bound
	limit float64 // in the same unit as value
	value float64
	from  string // the figures that value comes from
	err   bool   // one of the figures is missing
}

func (t target) met() bool {
	return !t.err && (t.least && t.value >= t.limit || !t.least && t.value <= t.limit)
}

func (t target) row() []string {
	word, verdict := "at most ", "MISSED"
	if t.least {
		word = "at least "
	}
	if t.err {
		return []string{t.what, word + t.number(t.limit), "not measured", verdict, t.from}
	}
	if t.met() {
		verdict = "met"
	}
	return []string{t.what, word + t.number(t.limit), t.number(t.value), verdict, t.from}
}

// number formats f with three significant digits. If the target's limit is a fraction, so is the
// result.
func (t target) number(f float64) string {
	if t.limit < 1 && f > 0 && f < 1 {
		return "1/" + strconv.FormatFloat(1/f, 'g', 3, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

func (r *report) String() string {
	var b bytes.Buffer
	fmt.Fprintln(&b, r.conditions)
	tables := r.tables
	if len(r.targets) > 0 {
		rows := [][]string{{"", "target", "measured", "", "from"}}
		for _, t := range r.targets {
			rows = append(rows, t.row())
		}
		tables = append(slices.Clip(tables), table{"What it must show", rows})
	}
	for _, t := range tables {
		fmt.Fprintf(&b, "\n%s\n\n", t.title)
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, row := range t.rows {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
		_ = w.Flush() // a Buffer takes everything
	}
	fmt.Fprintf(&b, "\n%s\n", r.after)
	return trimLines(b.String())
}

func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// spread returns "median (least–most)", or the value if there is only one.
func spread[T any](all []T, digits int, of func(T) float64) string {
	if len(all) == 0 {
		return "ERROR"
	}
	values := sorted(all, of)
	if n := len(values); n > 1 {
		return fmt.Sprintf("%.*f (%.*f–%.*f)",
			digits, median(all, of), digits, values[0], digits, values[n-1])
	}
	return fmt.Sprintf("%.*f", digits, values[0])
}

// median returns the median, or 0 if there are no values.
func median[T any](all []T, of func(T) float64) float64 {
	values := sorted(all, of)
	n := len(values)
	if n == 0 {
		return 0
	}
	return (values[(n-1)/2] + values[n/2]) / 2
}

func sorted[T any](all []T, of func(T) float64) []float64 {
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	slices.Sort(values)
	return values
}

// The report stands between these marks in a document.
const (
	markBegin = "<!-- benchmark: written by make bench -->\n"
	markEnd   = "<!-- benchmark: end -->\n"
)

// splice replaces the report and the charts in a document.
func splice(path, charts, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(old), markBegin)
	_, after, ends := strings.Cut(rest, markEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the report: the lines %q and %q",
			path, strings.TrimSpace(markBegin), strings.TrimSpace(markEnd))
	}
	text = charts + "```\n" + strings.TrimSpace(text) + "\n```\n\n"
	return os.WriteFile(path, []byte(before+markBegin+"\n"+text+markEnd+after), 0o644)
}
