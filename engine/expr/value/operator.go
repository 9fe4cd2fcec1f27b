package value

import "strings"

// Unary are the operators of one operand. They take nil.
var Unary = map[string]func(v any) (any, error){
	"!":   not("!"),
	"not": not("not"),
	"-":   negate,
	"+": func(v any) (any, error) {
		if !isNumber(v) && v != nil {
			return nil, Errorf("operator \"+\" needs a number, not %s", Some(v))
		}
		return v, nil
	},
}

func not(operator string) func(v any) (any, error) {
	return func(v any) (any, error) {
		ok, err := Truth(v)
		if err != nil {
			return nil, Errorf("operator %q needs true or false, not %s", operator, Some(v))
		}
		return !ok, nil
	}
}

// Binary are the operators of two operands that evaluate both. They take nil.
var Binary = map[string]func(m *Meter, a, b any) (any, error){
	"+":  (*Meter).Add,
	"-":  (*Meter).subtract,
	"*":  (*Meter).multiply,
	"/":  (*Meter).divide,
	"%":  (*Meter).modulo,
	"**": (*Meter).power,
	"^":  (*Meter).power,
	"..": (*Meter).span,
	"in": func(m *Meter, a, b any) (any, error) { return m.in(a, b) },
	"==": func(m *Meter, a, b any) (any, error) { return m.equal(a, b) },
	"!=": func(m *Meter, a, b any) (any, error) {
		same, err := m.equal(a, b)
		return !same, err
	},
	"<": func(m *Meter, a, b any) (any, error) {
		return m.ordered(a, b, func(c int) bool { return c < 0 })
	},
	"<=": func(m *Meter, a, b any) (any, error) {
		return m.ordered(a, b, func(c int) bool { return c <= 0 })
	},
	">": func(m *Meter, a, b any) (any, error) {
		return m.ordered(a, b, func(c int) bool { return c > 0 })
	},
	">=": func(m *Meter, a, b any) (any, error) {
		return m.ordered(a, b, func(c int) bool { return c >= 0 })
	},
	"contains":   textOperator("contains", strings.Contains),
	"startsWith": textOperator("startsWith", strings.HasPrefix),
	"endsWith":   textOperator("endsWith", strings.HasSuffix),
	"matches":    (*Meter).matches,
}

// textOperator makes an operator on strings. It is false if one of them is nil.
func textOperator(name string, apply func(s, t string) bool) func(m *Meter, a, b any) (any, error) {
	return func(m *Meter, a, b any) (any, error) {
		s, t, ok, err := twoStrings(name, a, b)
		if err != nil || !ok {
			return false, err
		}
		if err := m.Scan(len(s) + len(t)); err != nil {
			return nil, err
		}
		return apply(s, t), nil
	}
}

func twoStrings(name string, a, b any) (s, t string, ok bool, err error) {
	s, okS := a.(string)
	t, okT := b.(string)
	if !okS && a != nil || !okT && b != nil {
		return "", "", false, Errorf("operator %q needs two strings, not %s and %s",
			name, Some(a), Some(b))
	}
	return s, t, okS && okT, nil
}

func (m *Meter) in(needle, list any) (bool, error) {
	switch list := list.(type) {
	case nil:
		return false, nil
	case []any:
		if needle == nil {
			return false, nil
		}
		if err := m.Scan(SizeValue * len(list)); err != nil {
			return false, err
		}
		for _, v := range list {
			if same, err := m.equal(v, needle); same || err != nil {
				return same, err
			}
		}
		return false, nil
	case map[string]any:
		switch needle := needle.(type) {
		case nil:
			return false, nil
		case string:
			_, ok := list[needle]
			return ok, m.Scan(len(needle))
		}
		return false, Errorf("a map has no keys of kind %s", kindOf(needle))
	case string:
		return false, Errorf(`operator "in" needs a list or a map, not a string; use contains`)
	}
	return false, Errorf(`operator "in" needs a list or a map, not %s`, Some(list))
}

const errPattern Error = `"matches" cannot use its pattern`

func (m *Meter) matches(a, b any) (any, error) {
	_, text, ok, err := twoStrings("matches", a, b)
	if err != nil || !ok {
		return false, err
	}
	re, wrong := compilePattern(text)
	if wrong != nil { // its part may come from an object
		return nil, errPattern + Error(", which "+wrong.fault)
	}
	m.Steps -= re.size
	if err := m.Alloc(re.size * sizeInstruction); err != nil {
		return nil, err
	}
	return m.Match(a, re)
}

// Match reports whether v, a string or nil, matches a pattern. Nil does not.
func (m *Meter) Match(v any, re *Pattern) (any, error) {
	s, ok := v.(string)
	if !ok {
		if v == nil {
			return false, nil
		}
		return nil, Errorf(`operator "matches" needs two strings, not %s and a string`, Some(v))
	}
	// Go's regular expressions take time in proportion to text times pattern
	if err := m.Scan(len(s) * re.size); err != nil {
		return nil, err
	}
	return re.re.MatchString(s), nil
}
