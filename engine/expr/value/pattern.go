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

// CompilePattern compiles a regular expression. It bounds the result, not only the text: a few
// bytes as [\pL]{1000} stand for a thousand instructions.
func CompilePattern(text string) (*Pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		var e *syntax.Error
		if errors.As(err, &e) {
			part := printable.Line(e.Expr, 64)
			return nil, fmt.Errorf("the pattern is wrong: %s: %q", e.Code, part)
		}
		return nil, errors.New("the pattern is wrong")
	}
	size := instructions(tree)
	if size > maxInstructions {
		return nil, errors.New("the pattern is too large once its repetitions are written out")
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, errors.New("the pattern is wrong")
	}
	return &Pattern{re, size}, nil
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
