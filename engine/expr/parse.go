package expr

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"

	"github.com/informd/informd/engine/expr/value"
)

// Error is a mistake in an expression's text.
type Error struct {
	Offset  int // in bytes from the start of the text
	Message string
}

func (e *Error) Error() string { return e.Message }

// several are the mistakes of one text, of which errors.As finds the first.
type several []*Error

func (s several) Error() string { return s[0].Message }

func (s several) Unwrap() (all []error) {
	for _, e := range s {
		all = append(all, e)
	}
	return all
}

func (s several) err() error {
	if len(s) == 1 {
		return s[0]
	}
	return s
}

// Mistakes returns all mistakes in an error of Compile or CompileTemplate.
func Mistakes(err error) []*Error {
	if all, ok := err.(several); ok {
		return all
	}
	return []*Error{err.(*Error)}
}

// parse parses a text with expr-lang's parser. That recurses without a bound, so parse checks the
// nesting first.
func parse(text string) (ast.Node, error) {
	if len(text) > maxText {
		message := fmt.Sprintf("the expression is longer than %d KiB", maxText>>10)
		return nil, &Error{maxText, message}
	}
	if !utf8.ValidString(text) {
		return nil, &Error{0, "the expression is not valid UTF-8"}
	}
	if strings.TrimSpace(text) == "" {
		return nil, &Error{0, "the expression is empty"}
	}
	tokens, err := lexer.Lex(file.NewSource(text))
	if err != nil {
		return nil, syntaxError(text, err)
	}
	if i := tooDeep(tokens); i >= 0 {
		message := fmt.Sprintf("the expression nests deeper than %d", maxNesting)
		return nil, &Error{value.RuneOffset(text, tokens[i].From), message}
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, syntaxError(text, err)
	}
	return tree.Node, nil
}

// tooDeep returns the first token that nests deeper than maxNesting, or -1. Open brackets nest; so
// do conditions, variables and powers to their right, and operators in front of each other.
func tooDeep(tokens []lexer.Token) int {
	depth, prefix := 0, 0
	var levels []int // what each open bracket added to depth
	add := func() {
		depth++
		levels[len(levels)-1]++
	}
	levels = append(levels, 0)
	for i, token := range tokens {
		switch token.Value {
		case "not", "!", "-", "+":
			if token.Kind == lexer.Operator {
				prefix++
			}
		default:
			prefix = 0
		}
		switch {
		case token.Kind == lexer.Bracket && strings.Contains("([{", token.Value):
			levels = append(levels, 0)
			add()
		case token.Kind == lexer.Bracket && len(levels) > 1:
			depth -= levels[len(levels)-1]
			levels = levels[:len(levels)-1]
		case token.Kind == lexer.Operator:
			switch token.Value {
			case "?", "let", "if", "**", "^":
				add()
			case ",":
				depth -= levels[len(levels)-1]
				levels[len(levels)-1] = 0
				if len(levels) > 1 {
					add() // the bracket itself
				}
			}
		}
		if depth+prefix > maxNesting {
			return i
		}
	}
	return -1
}

var (
	namedToken = regexp.MustCompile(`token [A-Z][a-z]+\(("(?:[^"\\]|\\.)*")\)`)
	endToken   = regexp.MustCompile(`unexpected token EOF`)
	tooBig     = regexp.MustCompile(`.*value out of range`)
)

// syntaxError makes one line of expr-lang's error, with the tokens as the author wrote them.
func syntaxError(text string, err error) *Error {
	var e *file.Error
	if !errors.As(err, &e) {
		return &Error{0, firstLine(err.Error())}
	}
	message := firstLine(e.Message)
	message = namedToken.ReplaceAllString(message, "$1")
	message = endToken.ReplaceAllString(message, "unexpected end of the expression")
	message = tooBig.ReplaceAllString(message, "the number does not fit into 64 bits")
	if strings.Contains(message, "maximum allowed nodes") {
		return &Error{0, fmt.Sprintf("the expression has more than %d parts", conf.DefaultMaxNodes)}
	}
	offset := value.RuneOffset(text, e.From)
	if strings.Contains(message, "unexpected end") {
		offset = len(text)
	}
	if message == "literal not terminated" {
		offset = openString(text)
		message = "the string that begins here has no closing " + text[offset:offset+1]
	}
	offset, message = hintForSyntax(text, offset, message)
	if message == `unexpected "="` {
		message += "; what compares is =="
	}
	return &Error{offset, message}
}

// openString returns where the string begins that the text does not close. The lexer has found one,
// and reports where it gave up.
func openString(text string) int {
	for i := 0; i < len(text); i++ {
		switch rest := text[i:]; {
		case strings.HasPrefix(rest, "//"):
			i += len(firstLine(rest))
		case strings.HasPrefix(rest, "/*"):
			i += max(strings.Index(rest[2:], "*/"), 0) + 3
		case strings.ContainsRune("\"'`", rune(text[i])):
			length := stringLength(rest)
			if length < 0 {
				return i
			}
			i += length - 1
		}
	}
	return 0
}

// stringLength returns the length of the string that text begins with, with its quotes, or -1 if
// nothing closes it. In backquotes, \ is a letter, and a string may have several lines.
func stringLength(text string) int {
	isRaw := text[0] == '`'
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == text[0]:
			return i + 1
		case text[i] == '\n' && !isRaw:
			return -1
		case text[i] == '\\' && !isRaw:
			i++
		}
	}
	return -1
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
