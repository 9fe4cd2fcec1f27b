package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/informd/informd/cmd/informd/cli"
)

// outputFlag adds the flag -o. Its default is a table.
func outputFlag(cmd *cobra.Command, value *string, choices ...string) {
	cmd.Flags().VarP(&choice{value, choices}, "output", "o",
		"output as `"+strings.Join(choices, "|")+"`; default: a table for people")
	complete := cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag was just defined
	}
}

// choice is a flag whose value must be one of its choices.
type choice struct {
	value   *string
	choices []string
}

func (c *choice) String() string { return *c.value }

func (c *choice) Type() string { return "string" }

func (c *choice) Set(value string) error {
	if !slices.Contains(c.choices, value) {
		if len(c.choices) == 1 {
			return fmt.Errorf("want %s", c.choices[0])
		}
		return fmt.Errorf("want %s", cli.OneOf(c.choices))
	}
	*c.value = value
	return nil
}

// table writes rows in columns, and a dash for an empty cell. It cuts the longest cells until the
// rows fit.
type table struct {
	w    io.Writer
	most int // columns of the terminal; 0 for any number
	// whole is how many columns, from the left, are never cut: what they hold is copied.
	whole int
	rows  [][]string
}

// newTable returns a table of any width.
func newTable(w io.Writer, header ...string) *table { return newTableWithin(w, 0, header...) }

// newTableWithin returns a table that takes at most most columns of the terminal, as far as its
// columns are wider than narrowest. 0 means any number.
func newTableWithin(w io.Writer, most int, header ...string) *table {
	t := &table{w: w, most: most}
	t.row(header...)
	return t
}

func (t *table) row(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		if row[i] = cli.Printable(cell); row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

const (
	columnGap = 3
	narrowest = 12 // characters below which no column is cut
)

// widths returns how many characters each column may take.
func (t *table) widths() (widths []int) {
	total := -columnGap
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
				total += columnGap
			}
			if more := utf8.RuneCountInString(cell) - widths[i]; more > 0 {
				widths[i] += more
				total += more
			}
		}
	}
	for ; t.most > 0 && total > t.most; total-- {
		cut := widths[min(t.whole, len(widths)-1):]
		longest := slices.Index(cut, slices.Max(cut))
		if cut[longest] <= narrowest {
			break
		}
		cut[longest]--
	}
	return widths
}

func (t *table) flush() error {
	out := bufio.NewWriter(t.w)
	widths := t.widths()
	for _, row := range t.rows {
		for i, cell := range row {
			cell = shortened(cell, widths[i])
			_, _ = out.WriteString(cell) // Flush returns the error
			if i < len(row)-1 {
				pad := widths[i] - utf8.RuneCountInString(cell) + columnGap
				_, _ = out.WriteString(strings.Repeat(" ", pad))
			}
		}
		_ = out.WriteByte('\n')
	}
	return out.Flush()
}

// shortened cuts text to most characters, the last of them an ellipsis.
func shortened(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// age returns the time from then to now, in kubectl's form; "" for the zero time.
func age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(then))
}

// size returns a number of bytes for people to read.
func size(bytes int64) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	n, units := float64(bytes)/1024, []string{"KiB", "MiB", "GiB"}
	for n >= 1024 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %s", n, units[0])
}

// writeDocument writes v for -o json or -o yaml.
func writeDocument(w io.Writer, output string, v any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "    ")
	err := encoder.Encode(v)
	text := b.Bytes()
	if err == nil && output == "yaml" {
		var out yamlWriter
		err = out.item(text, 0)
		text = out.out
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// listWriter writes objects one by one into a kind: List.
type listWriter struct {
	w     *bufio.Writer
	text  bytes.Buffer // of the object being written, in JSON
	items yamlWriter   // the same in YAML
	yaml  bool
	count int
}

// listHead is how a List in JSON begins, up to its items.
const listHead = "{\n    \"apiVersion\": \"v1\",\n    \"kind\": \"List\",\n    \"items\": "

func newListWriter(w io.Writer, output string) *listWriter {
	return &listWriter{w: bufio.NewWriter(w), yaml: output == "yaml"}
}

func (l *listWriter) add(object []byte) error {
	l.count++
	if l.yaml {
		return l.addYAML(object)
	}
	before := ",\n        "
	if l.count == 1 {
		before = listHead + "[\n        "
	}
	l.text.Reset()
	if err := json.Indent(&l.text, object, "        ", "    "); err != nil {
		return err
	}
	_, _ = l.w.WriteString(before) // the last write returns the error
	_, err := l.w.Write(bytes.TrimSpace(l.text.Bytes()))
	return err
}

func (l *listWriter) addYAML(object []byte) error {
	if l.count == 1 {
		_, _ = l.w.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	}
	l.items.out = append(l.items.out[:0], "- "...)
	if err := l.items.item(object, 2); err != nil {
		return err
	}
	_, err := l.w.Write(l.items.out)
	return err
}

// end writes what closes the list, and flushes.
func (l *listWriter) end() error {
	switch {
	case l.yaml && l.count == 0:
		_, _ = l.w.WriteString("apiVersion: v1\nkind: List\nitems: []\n")
	case l.yaml:
	case l.count == 0:
		_, _ = l.w.WriteString(listHead + "[]\n}\n")
	default:
		_, _ = l.w.WriteString("\n    ]\n}\n")
	}
	return l.w.Flush()
}
