package value

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/informd/informd/internal/printable"
)

// Pattern is a compiled regular expression.
type Pattern struct {
	re   *regexp.Regexp
	size int // about how many instructions
}

const (
	maxPattern      = 1024 // bytes
	maxInstructions = 5000
	sizeInstruction = 100 // bytes per instruction during compilation
)

// patternError says what is wrong with a pattern.
type patternError struct {
	fault string // the same for every pattern that is wrong like that
	part  string // what is wrong of the pattern, in quotes; "" for all of it
}

func (e *patternError) Error() string {
	if e.part == "" {
		return "the pattern " + e.fault
	}
	return "the pattern " + e.fault + ": " + e.part
}

// CompilePattern compiles a regular expression. It bounds the result, not only the text: a few
// bytes as [\pL]{1000} stand for a thousand instructions.
func CompilePattern(text string) (*Pattern, error) {
	re, err := compilePattern(text)
	if err != nil {
		return nil, err
	}
	return re, nil
}

func compilePattern(text string) (*Pattern, *patternError) {
	if len(text) > maxPattern {
		return nil, &patternError{fault: fmt.Sprintf("is longer than %d bytes", maxPattern)}
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, wrongPattern(err)
	}
	size := instructions(tree)
	if size > maxInstructions {
		return nil, &patternError{fault: "is too large once its repetitions are written out"}
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, wrongPattern(err)
	}
	return &Pattern{re, size}, nil
}

func wrongPattern(err error) *patternError {
	e, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return &patternError{fault: "is wrong"}
	}
	return &patternError{"is wrong: " + e.Code.String(), fmt.Sprintf("%q", printable.Line(e.Expr, 64))}
}

func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/16
	if re.Op == syntax.OpLiteral {
		n += len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, 1<<30)
}
