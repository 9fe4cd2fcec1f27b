package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxShown bounds how many mistakes the text of a report spells out.
const maxShown = 100

// Position is a place in a file. Line and Column count from 1, columns in characters. A position without a line is
// the file as a whole.
type Position struct {
	File   string
	Line   int
	Column int
}

func (p Position) String() string {
	if p.Line == 0 {
		return printable(p.File)
	}
	return fmt.Sprintf("%s:%d:%d", printable(p.File), p.Line, p.Column)
}

// Mistake is one thing that is wrong with a manifest.
type Mistake struct {
	Position
	Message string
	Snippet string // the offending line, at most maxSnippet characters around the column, all of them printable or tabs
	caret   int    // where in Snippet the column is, in bytes
}

// Error returns "FILE:LINE:COL: message" and, where a line is known, that line with a caret beneath.
func (m Mistake) Error() string {
	var b strings.Builder
	if m.Position != (Position{}) {
		b.WriteString(m.Position.String() + ": ")
	}
	b.WriteString(m.Message)
	if m.Snippet != "" {
		b.WriteString("\n  " + m.Snippet + "\n  " + padding(m.Snippet[:m.caret]) + "^")
	}
	return b.String()
}

// Mistakes is a report. It spells out the first 100 of them.
type Mistakes []Mistake

// Sort puts the mistakes in order of file, line and column, and drops repetitions.
func (m *Mistakes) Sort() {
	slices.SortStableFunc(*m, func(a, b Mistake) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Message, b.Message),
		)
	})
	*m = slices.Compact(*m)
}

// Err returns the mistakes as an error, or nil if there are none.
func (m Mistakes) Err() error {
	if len(m) == 0 {
		return nil
	}
	return m
}

func (m Mistakes) Error() string {
	var lines []string
	for _, mistake := range m[:min(len(m), maxShown)] {
		lines = append(lines, mistake.Error())
	}
	if more := len(m) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	return strings.Join(lines, "\n")
}
