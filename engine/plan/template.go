package plan

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/internal/othersyntax"
)

// payload compiles a payload. It returns nil if there is none.
func (b *builder) payload(v *config.Value, o expr.Options) *rule.Template {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil { // cannot happen: everything in a Config can be written
		return b.value(v, o, true)
	}
	from := compiledFrom(string(text), o)
	if b.payloads[from] != nil {
		return b.payloads[from]
	}
	known := len(b.mistakes)
	template := b.value(v, o, true)
	if len(b.mistakes) == known { // the next one to write it has the mistakes, too
		b.payloads[from] = template
	}
	return template
}

// template compiles a template of an action. It returns nil if there is none.
func (b *builder) template(v *config.Value, o expr.Options) *rule.Template {
	return b.value(v, o, false)
}

// value compiles a payload or a template. keepNil makes nil null; otherwise nil is left out.
func (b *builder) value(v *config.Value, o expr.Options, keepNil bool) *rule.Template {
	if v == nil {
		return nil
	}
	switch v.Kind {
	case config.ValueConstant:
		return &rule.Template{JSON: v.JSON}
	case config.ValueMapping:
		out := &rule.Template{Members: make([]rule.Member, 0, len(v.Members))}
		for _, m := range v.Members {
			member := rule.Member{Name: b.memberName(m.Name), Value: b.value(m.Value, o, keepNil)}
			out.Members = append(out.Members, member)
		}
		return out
	case config.ValueList:
		out := &rule.Template{Items: make([]*rule.Template, 0, len(v.Items))}
		for _, item := range v.Items {
			out.Items = append(out.Items, b.value(item, o, keepNil))
		}
		return out
	case config.ValueExpression:
		known := len(b.mistakes)
		program := b.compile(v.Text, o)
		for i := range b.mistakes[known:] {
			b.mistakes[known+i].Message += hintForText(b.mistakes[known+i].Message, v.Text.String())
		}
		return &rule.Template{Program: program, KeepNil: keepNil}
	}
	program, literal, err := expr.CompileTemplate(v.Text.String(), o)
	switch {
	case err != nil:
		b.mistaken(v.Text, err)
	case b.hasOtherSyntax(v.Text):
	case keepNil:
		b.checkNotExpression(v.Text, o)
	case program == nil && forgotten.MatchString(literal):
		if _, err := expr.Compile(literal, o); err == nil {
			b.mistake(v.Text, "this is the text itself; "+
				"for what the expression gives write \"${%s}\"", literal)
		}
	}
	if program != nil {
		return &rule.Template{Program: program, KeepNil: keepNil}
	}
	return rule.Constant(literal)
}

// hintForText returns what follows the message about a payload if the payload is probably a text
// that needs quotes, or "".
func hintForText(message, payload string) string {
	first, _, _ := strings.Cut(payload, " ")
	isProse := pathInProse.MatchString(payload) && !slices.Contains([]string{"let", "if", "not"}, first)
	if isProse && !strings.Contains(message, "; ") {
		text := paths.ReplaceAllString(payload, "${1}$${$2}")
		return fmt.Sprintf("; a text with values in it is written %q", text)
	}
	if strings.Contains(message, "; ") || strings.HasPrefix(message, "# ") || !prose.MatchString(payload) {
		return ""
	}
	return fmt.Sprintf("; for the text itself write '%q'", payload)
}

var (
	// pathInProse matches words with the path of a field among them.
	pathInProse = regexp.MustCompile(
		`^[A-Za-z][a-z'-]*([,:;]? [\w'-]+)*[,:;]? (object|old|item)(\.\w+)+[.!?]?([,:;]? [\w.'-]+)*[.!?]?$`)
	paths = regexp.MustCompile(`( )((?:object|old|item)(?:\.\w+)+)`)
)

// prose matches words, one or several.
var prose = regexp.MustCompile(`^[A-Za-z][\w'-]*([,.:;!?]? [\w'-]+)*[.!?]?$`)

// hasOtherSyntax reports an expression that is written as other tools do, and is certainly meant for
// informd. It leaves alone what an object may well hold, such as a template of Argo or Tekton.
func (b *builder) hasOtherSyntax(text config.Text) bool {
	for other := range othersyntax.All(text.String()) {
		if other.IsOurs {
			b.mistakes = append(b.mistakes, text.Mistake(other.Offset, other.Advice))
			return true
		}
	}
	return false
}

// forgotten matches texts that look like an expression whose ${ and } the author forgot.
var forgotten = regexp.MustCompile(
	`^((object|old|item)\.(metadata|spec|status|data|stringData|type|kind)\b|(lookup|byIndex)\(")`)

// checkNotExpression reports a payload's template that is also a valid expression. That happens
// where ${ stands inside a string's quotes, and nobody can tell which of the two the author meant.
func (b *builder) checkNotExpression(text config.Text, o expr.Options) {
	if _, err := expr.Compile(text.String(), o); err == nil {
		b.mistake(text, "${ stands within quotes, so this is an expression as well as a template: "+
			"for the characters ${ write $${ and leave out the quotes; "+
			"for quotes around a value write ${\"'\" + object.kind + \"'\"}")
	}
}

// memberName returns the name of a member. It reports expressions in it.
func (b *builder) memberName(name config.Text) string {
	program, literal, err := expr.CompileTemplate(name.String(), expr.Options{Scope: expr.Payload})
	if program != nil || err != nil {
		b.mistake(name, `a key cannot have expressions in it; `+
			`to make the keys too, write the mapping as one expression: `+
			`"${fromPairs([[key, value]])}" or "${ {a: 1} }"`)
		return ""
	}
	return literal
}

// mistake reports a mistake at the beginning of text.
func (b *builder) mistake(text config.Text, format string, args ...any) {
	b.mistakes = append(b.mistakes, text.Mistake(0, fmt.Sprintf(format, args...)))
}
