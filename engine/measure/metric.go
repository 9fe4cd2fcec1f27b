package measure

import (
	"fmt"
	"strings"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/internal/printable"
)

// Metric is a compiled metric. It is immutable and safe for concurrent use.
type Metric struct {
	Name, Help string
	IsCounter  bool
	Value      *expr.Program // nil: 1
	Labels     []Label       // sorted by name
	Max        int           // series
}

// Label is a label of all series of a metric.
type Label struct {
	Name  string
	Value *expr.Program
}

// Sample is what one object contributes to a gauge, or one change adds to a counter. The zero Sample
// is nothing.
type Sample struct {
	Is     bool // it is something
	Labels string
	Value  float64
	// Err says which expression failed. It holds no contents of objects.
	Err error
}

// MaxLabel bounds the value of a label, in bytes. A longer one is cut, and ends with cut.
const (
	MaxLabel = 256
	cut      = "…"
)

// separator stands between the values of labels. They are valid UTF-8, which does not have it.
const separator = "\xff"

// Sample evaluates the metric. If an expression fails, or the value is nil, the Sample is nothing.
func (m *Metric) Sample(env *expr.Env) (s Sample) {
	s.Value = 1
	if m.Value != nil {
		value, ok, err := m.Value.Number(env)
		switch {
		case err != nil:
			return Sample{Err: fmt.Errorf("value: %w", err)}
		case !ok:
			return Sample{}
		case m.IsCounter && value < 0:
			return Sample{Err: errNegative}
		}
		s.Value = value
	}
	values := make([]string, 0, 8)
	for i := range m.Labels {
		value, err := m.Labels[i].Value.Label(env)
		if err != nil {
			return Sample{Err: fmt.Errorf("label %s: %w", m.Labels[i].Name, err)}
		}
		values = append(values, clean(value))
	}
	s.Is, s.Labels = true, strings.Join(values, separator)
	return s
}

var errNegative = fmt.Errorf("value: the expression gives a negative number, and a counter only goes up")

// clean makes text the value of a label. The page of metrics escapes line breaks only, so what else a
// terminal would act on is escaped here.
func clean(text string) string {
	isLong := len(text) > MaxLabel
	text = printable.Escape(printable.Cut(text, MaxLabel))
	if isLong || len(text) > MaxLabel {
		text = printable.Cut(text, MaxLabel-len(cut)) + cut
	}
	return text
}

// split returns the values of n labels.
func split(labels string, n int) []string {
	if n == 0 {
		return nil
	}
	return strings.Split(labels, separator)
}

// Paths returns what the metric reads of objects.
func (m *Metric) Paths() *object.Paths {
	p := new(object.Paths)
	for _, program := range m.Programs() {
		p.Union(program.Paths())
	}
	return p
}

// Programs returns the expressions of the metric.
func (m *Metric) Programs() (all []*expr.Program) {
	if m.Value != nil {
		all = append(all, m.Value)
	}
	for i := range m.Labels {
		all = append(all, m.Labels[i].Value)
	}
	return all
}
