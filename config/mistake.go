package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxShown bounds the mistakes that a report's text lists.
const maxShown = 100

// Position is a place in a file. Line and Column count from 1, columns in characters. A Position
// without a line is the whole file.
type Position struct {
	File   string
	Line   int
	Column int
}

func (p Position) String() string {
	if p.Line == 0 {
		return shown(p.File)
	}
	return fmt.Sprintf("%s:%d:%d", shown(p.File), p.Line, p.Column)
}

// Mistake is one thing that is wrong with a manifest.
type Mistake struct {
	Position
	Message string
	// EndColumn is behind the word, or the quoted text, at which the mistake begins. It is Column if
	// there is none.
	EndColumn int
	// the line, at most maxSnippet characters around the column, all printable or tabs
	Snippet string
	caret   int // the column in Snippet, in bytes
}

// Error returns "FILE:LINE:COL: message" and, if the line is known, that line with a caret below.
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

// Mistakes is a report. Its text lists the first 100.
type Mistakes []Mistake

// Sort sorts the mistakes by file, line and column, and drops repetitions.
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
