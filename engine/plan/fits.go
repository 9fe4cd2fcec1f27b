package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/expr"
	types "github.com/informd/informd/engine/schema"
)

// fits checks the expressions of a payload or a template. It also checks whether what they make fits
// where it goes: want, which may be anything.
func (m *fitting) fits(v *config.Value, as expr.Typing, want expr.Typed) {
	if v == nil {
		return
	}
	switch v.Kind {
	case config.ValueExpression:
		m.check(v.Text, as)
	case config.ValueTemplate:
		gives, mistakes := expr.CheckTemplate(v.Text.String(), as)
		m.report(v.Text, mistakes)
		if fault := want.Takes(gives); fault != "" {
			m.add(v.Text.Mistake(0, fault+cmp.Or(
				hintForBreak(v.Text.String(), as, want), hintForConversion(v.Text.String(), gives, want))))
		}
	case config.ValueConstant:
		if fault := want.Takes(constantOf(v.JSON)); fault != "" {
			m.add(v.Text.Mistake(0, fault))
		}
	case config.ValueList:
		m.kind(v, want, types.List)
		for _, item := range v.Items {
			m.fits(item, as, want.Element())
		}
	case config.ValueMapping:
		m.kind(v, want, types.Map)
		for _, member := range v.Members {
			in := expr.Typed{}
			if !want.Lacks(types.Map) {
				in = m.field(member.Name, want)
			}
			m.fits(member.Value, as, in)
		}
	}
}

// hintForBreak returns what follows the message about a text that would fit without the line break at
// its end, or "".
func hintForBreak(text string, as expr.Typing, want expr.Typed) string {
	trimmed := strings.TrimRight(text, "\n")
	gives, _ := expr.CheckTemplate(trimmed, as)
	if trimmed == text || want.Takes(gives) != "" {
		return ""
	}
	return ": a block below | ends with a line break, and so is text; write |-"
}

// hintForConversion returns what follows the message about an expression whose value another function
// makes fit, or "".
func hintForConversion(text string, gives, want expr.Typed) string {
	const long = 80 // of an expression that a message repeats
	expression, ok := expr.Alone(text)
	function := ""
	switch {
	case !ok || len(expression) > long || strings.ContainsAny(expression, "\n;"):
	case want.IsOnly(types.Number) && gives.IsOnly(types.String|types.Number) && gives.Type.Enum() == nil:
		function = "int"
	case want.IsOnly(types.String) && gives.IsOnly(types.List|types.Map):
		function = "toJSON"
	case want.IsOnly(types.String) && want.Type.Enum() == nil &&
		gives.IsOnly(types.String|types.Number|types.Bool):
		function = "string"
	}
	if function == "" {
		return ""
	}
	return fmt.Sprintf(": write ${%s(%s)}", function, expression)
}

// field returns the field of want that a member sets.
func (m *fitting) field(name config.Text, want expr.Typed) expr.Typed {
	if !m.isTest && (dotted.MatchString(name.String()) || strings.Contains(name.String(), "${")) {
		return expr.Typed{} // Compile has reported it
	}
	in, fault := want.Field(name.String())
	if fault != "" {
		m.add(name.Mistake(0, fault))
	}
	return in
}

// kind reports a mapping or a list where want takes none.
func (m *fitting) kind(v *config.Value, want expr.Typed, is types.Kind) {
	if !want.Lacks(is) {
		return
	}
	name, at := "a map", firstText(v)
	if is == types.List {
		name = "a list"
	}
	m.add(at.Mistake(0, fmt.Sprintf("%s is %s, not %s", want, want.Kind(), name)))
}

// firstText returns the first text in a value.
func firstText(v *config.Value) config.Text {
	switch {
	case !v.Text.IsZero():
		return v.Text
	case len(v.Members) > 0:
		return v.Members[0].Name
	case len(v.Items) > 0:
		return firstText(v.Items[0])
	}
	return config.Text{}
}

// constantOf returns what is known of a scalar.
func constantOf(text json.RawMessage) expr.Typed {
	var s string
	if json.Unmarshal(text, &s) == nil && string(text) != "null" {
		return expr.Typed{Type: types.Constant(s)}
	}
	switch string(text) {
	case "null":
		return expr.Typed{}
	case "true", "false":
		return expr.Typed{Type: types.Of(types.Bool)}
	}
	return expr.Typed{Type: types.Of(types.Number)}
}

// operations checks a JSON patch of an object.
func (m *fitting) operations(v *config.Value, as expr.Typing, target expr.Typed) {
	if v.Kind != config.ValueList {
		m.fits(v, as, expr.Typed{})
	}
	for _, operation := range v.Items {
		at := expr.Typed{} // where the value goes
		for _, member := range operation.Members {
			name := member.Name.String()
			if name != "path" && name != "from" || member.Value.Kind != config.ValueTemplate {
				continue
			}
			if place := m.pointer(member.Value.Text, target); name == "path" {
				at = place
			}
		}
		for _, member := range operation.Members {
			want := expr.Typed{}
			if member.Name.String() == "value" {
				want = at
			}
			m.fits(member.Value, as, want)
		}
	}
}

// pointer follows a JSON pointer (RFC 6901). Parts with expressions in them may be any key.
func (m *fitting) pointer(path config.Text, target expr.Typed) expr.Typed {
	text, isRelative := strings.CutPrefix(path.String(), "/")
	if !isRelative {
		return expr.Typed{}
	}
	at, offset := target, len("/")
	for part := range strings.SplitSeq(text, "/") {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch {
		case at.IsOnly(types.List):
			at = at.Element()
		case strings.Contains(part, "${"):
			return expr.Typed{}
		default:
			in, fault := at.Field(key)
			if fault != "" {
				m.add(path.Mistake(offset, fault))
				return expr.Typed{}
			}
			at = in
		}
		offset += len(part) + 1
	}
	return at
}
