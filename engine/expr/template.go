package expr

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/informd/informd/engine/expr/value"
	"github.com/informd/informd/internal/othersyntax"
)

// maxParts bounds the expressions in one template.
const maxParts = 256

// CompileTemplate compiles a text with expressions in it, each as ${…}. $${ stands for the
// characters ${. If the whole text is one expression, the program gives its value, whatever it is.
// Otherwise the program gives a string: the text with the value of each expression in place. Such a
// value must not be nil, a list or a map. If the text has no expressions, the program is nil, and
// literal is the string that the text stands for.
//
// The text may have any length. Each of its expressions has the bounds of an expression. An error
// is as that of Compile.
func CompileTemplate(text string, o Options) (p *Program, literal string, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			OnPanic(cause)
			p, literal, err = nil, "", &Error{0, "the expression cannot be compiled"}
		}
	}()
	parts, err := splitTemplate(text)
	if err != nil {
		return nil, "", err
	}
	switch {
	case len(parts) == 0:
		return nil, "", nil
	case len(parts) == 1 && !parts[0].isExpr:
		return nil, parts[0].text, nil
	}
	c := newCompiler(o)
	var roots []operand
	var mistakes several
	for _, part := range parts {
		if !part.isExpr {
			roots = append(roots, constant(part.text))
			continue
		}
		root, err := c.root(part.text)
		if err != nil && strings.HasPrefix(part.text, "{") { // perhaps ${{ … }}
			begins := part.offset - len("${")
			if found, ok := othersyntax.Find(text[begins:]); ok && found.Offset == 0 {
				err = &Error{-len("${"), found.Advice}
			}
		}
		if err != nil {
			mistakes = append(mistakes, moved(err, part.offset)...)
			c.unknown = nil
			continue
		}
		c.reach.use(root.shape)
		roots = append(roots, root)
	}
	if len(mistakes) > 0 {
		return nil, "", mistakes[:min(len(mistakes), maxUnknown)].err()
	}
	if len(roots) == 1 {
		return c.program(text, roots[0].eval), "", nil
	}
	return c.program(text, concatenation(parts, roots, o.Inline)), "", nil
}

// moved returns the mistakes of an error, with more added to their offsets.
func moved(err error, by int) (all several) {
	for _, e := range Mistakes(err) {
		all = append(all, &Error{e.Offset + by, e.Message})
	}
	return all
}

// concatenation joins the parts of a template. inline, which may be nil, is that of Options.
func concatenation(
	parts []part, roots []operand, inline func(expression, text string) string,
) eval {
	return func(r *run) (any, error) {
		var b strings.Builder
		for i, root := range roots {
			v, err := root.eval(r)
			if err != nil {
				return nil, err
			}
			if err := r.Step(); err != nil {
				return nil, err
			}
			s, err := r.inline(v)
			if err != nil {
				expression := clip(strings.TrimSpace(parts[i].text))
				if len(parts) == 2 && strings.TrimSpace(parts[1-i].text) == "" {
					return nil, value.Errorf("${%s} is %s, and there is white space beside it, "+
						"which makes it a longer string: "+
						"in YAML |- ends without a line break, and | with one",
						expression, value.Some(v))
				}
				return nil, value.Errorf("${%s} is %s within a longer string: %s",
					expression, value.Some(v), err)
			}
			if inline != nil && parts[i].isExpr {
				s = inline(parts[i].text, s)
			}
			if err := r.Alloc(2 * len(s)); err != nil { // twice, because the builder doubles
				return nil, err
			}
			b.WriteString(s)
		}
		return b.String(), nil
	}
}

// inline returns a value as part of a longer string. Numbers are decimal.
func (r *run) inline(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", value.Errorf(`say what stands there instead, as with ?? "none"`)
	case []any:
		return "", value.Errorf(`use join or toJSON`)
	case map[string]any:
		return "", value.Errorf(`use toJSON`)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return r.Text("string", v)
}

// part is a piece of a template: characters, or an expression.
type part struct {
	text   string
	offset int // of the text in the template
	isExpr bool
}

// splitTemplate splits a template into its parts. Parts of characters are not empty, and never
// adjacent.
func splitTemplate(text string) (parts []part, err error) {
	var literal strings.Builder
	start, expressions := 0, 0
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, part{text: literal.String(), offset: start})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); {
		next := strings.IndexByte(text[i:], '$')
		if next < 0 {
			next = len(text) - i
		}
		if literal.Len() == 0 {
			start = i
		}
		literal.WriteString(text[i : i+next])
		i += next
		switch {
		case strings.HasPrefix(text[i:], "$${"):
			literal.WriteString("${")
			i += len("$${")
		case strings.HasPrefix(text[i:], "${"):
			flush()
			if expressions++; expressions > maxParts {
				message := fmt.Sprintf("more than %d expressions in one string", maxParts)
				return nil, &Error{i, message}
			}
			from := i + len("${")
			length := expressionLength(text[from:])
			if length < 0 {
				return nil, &Error{i, "${ is not closed: write } behind the expression, " +
					"or $${ for the characters ${"}
			}
			parts = append(parts, part{text: text[from : from+length], offset: from, isExpr: true})
			i = from + length + 1
		case i < len(text):
			literal.WriteByte('$')
			i++
		}
	}
	flush()
	return parts, nil
}

// Alone returns the expression of a text that is one expression as a whole, as ${…}.
func Alone(text string) (expression string, ok bool) {
	parts, err := splitTemplate(text)
	if err != nil || len(parts) != 1 || !parts[0].isExpr {
		return "", false
	}
	return strings.TrimSpace(parts[0].text), true
}

// expressionLength returns the length of the expression at the start of text, which ends before the
// } that closes nothing in it. It returns -1 if there is none. It knows brackets, strings and
// comments as expr-lang's lexer does.
func expressionLength(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth == 0 && text[i] == '}' {
				return i
			}
			depth--
		case '"', '\'', '`':
			length := quotedLength(text[i:])
			if length < 0 {
				return -1
			}
			i += length - 1
		case '/':
			end := ""
			switch {
			case strings.HasPrefix(text[i:], "//"):
				end = "\n"
			case strings.HasPrefix(text[i:], "/*"):
				end = "*/"
			default:
				continue
			}
			length := strings.Index(text[i+2:], end)
			if length < 0 {
				return -1
			}
			i += 2 + length + len(end) - 1
		}
	}
	return -1
}

// quotedLength returns the length of the string at the start of text, with its quotes, or -1 if it
// does not end.
func quotedLength(text string) int {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote != '`':
			i++
		case text[i] == quote && quote == '`' && strings.HasPrefix(text[i+1:], "`"):
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return -1
}
