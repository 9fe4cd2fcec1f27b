package expr

import (
	"strings"

	"github.com/expr-lang/expr/ast"
)

// binaries are the operators of two operands that need nothing special. Nil operands reach them.
var binaries = map[string]func(r *run, a, b any) (any, error){
	"+":  (*run).add,
	"-":  (*run).subtract,
	"*":  (*run).multiply,
	"/":  (*run).divide,
	"%":  (*run).modulo,
	"**": (*run).power,
	"^":  (*run).power,
	"..": (*run).span,
	"in": func(r *run, a, b any) (any, error) { return boxed(r.in(a, b)) },
	"==": func(r *run, a, b any) (any, error) { return boxed(r.equal(a, b)) },
	"!=": func(r *run, a, b any) (any, error) {
		same, err := r.equal(a, b)
		return !same, err
	},
	"<":          func(r *run, a, b any) (any, error) { return boxed(r.ordered(a, b, func(c int) bool { return c < 0 })) },
	"<=":         func(r *run, a, b any) (any, error) { return boxed(r.ordered(a, b, func(c int) bool { return c <= 0 })) },
	">":          func(r *run, a, b any) (any, error) { return boxed(r.ordered(a, b, func(c int) bool { return c > 0 })) },
	">=":         func(r *run, a, b any) (any, error) { return boxed(r.ordered(a, b, func(c int) bool { return c >= 0 })) },
	"contains":   textOperator("contains", strings.Contains),
	"startsWith": textOperator("startsWith", strings.HasPrefix),
	"endsWith":   textOperator("endsWith", strings.HasSuffix),
	"matches":    (*run).matches,
}

func boxed(v bool, err error) (any, error) { return v, err }

func (c *compiler) unary(n *ast.UnaryNode) (operand, error) {
	x, err := c.compile(n.Node)
	if err != nil {
		return operand{}, err
	}
	var apply func(v any) (any, error)
	switch n.Operator {
	case "!", "not":
		apply = func(v any) (any, error) {
			ok, err := truth(v)
			if err != nil {
				return nil, failf("operator %q needs true or false, not %s", n.Operator, some(v))
			}
			return !ok, nil
		}
	case "-":
		apply = negate
	default: // "+"
		apply = func(v any) (any, error) {
			if !isNumber(v) && v != nil {
				return nil, failf("operator \"+\" needs a number, not %s", some(v))
			}
			return v, nil
		}
	}
	c.reach.use(x.shape)
	return c.fold(n, func(r *run) (any, error) {
		v, err := x.eval(r)
		if err != nil {
			return nil, err
		}
		if err := r.step(); err != nil {
			return nil, err
		}
		return apply(v)
	}, x)
}

func (c *compiler) binary(n *ast.BinaryNode) (operand, error) {
	parts, err := c.compileAll([]ast.Node{n.Left, n.Right})
	if err != nil {
		return operand{}, err
	}
	a, b := parts[0], parts[1]
	switch n.Operator {
	case "and", "&&":
		return c.logic(n, a, b, false)
	case "or", "||":
		return c.logic(n, a, b, true)
	case "??":
		return operand{shape: c.reach.union(a.shape, b.shape), eval: func(r *run) (any, error) {
			if v, err := a.eval(r); v != nil || err != nil {
				return v, err
			}
			return b.eval(r)
		}}, nil
	case "==", "!=":
		// To compare with nil is to ask whether something is there.
		if isNil(a) || isNil(b) {
			c.reach.touch(a.shape)
			c.reach.touch(b.shape)
			return c.nilTest(n, a, b), nil
		}
	case "matches":
		if pattern, ok := b.value.(string); ok {
			re, err := compilePattern(pattern)
			if err != nil {
				return operand{}, c.errorf(n.Right, "%s", err)
			}
			c.reach.use(a.shape)
			return c.fold(n, matchesConstant(a, re), a)
		}
	}
	apply, ok := binaries[n.Operator]
	if !ok {
		return operand{}, c.errorf(n, "unknown operator %q", n.Operator)
	}
	c.reach.use(a.shape)
	c.reach.use(b.shape)
	out, err := c.fold(n, func(r *run) (any, error) {
		x, err := a.eval(r)
		if err != nil {
			return nil, err
		}
		y, err := b.eval(r)
		if err != nil {
			return nil, err
		}
		if err := r.step(); err != nil {
			return nil, err
		}
		return apply(r, x, y)
	}, a, b)
	switch n.Operator {
	case "==":
		out.requires = equals(a, b)
	case "in":
		out.requires = in(a, b)
	}
	return out, err
}

func isNil(o operand) bool { return o.constant && o.value == nil }

// logic compiles and, or: stop is the value of the left side that makes the right side unnecessary.
func (c *compiler) logic(n *ast.BinaryNode, a, b operand, stop bool) (operand, error) {
	c.reach.use(a.shape)
	c.reach.use(b.shape)
	side := func(r *run, e eval) (bool, error) {
		v, err := e(r)
		if err != nil {
			return false, err
		}
		ok, err := truth(v)
		if err != nil {
			return false, failf("operator %q needs true or false, not %s", n.Operator, some(v))
		}
		return ok, nil
	}
	out, err := c.fold(n, func(r *run) (any, error) {
		if err := r.step(); err != nil {
			return nil, err
		}
		if ok, err := side(r, a.eval); err != nil || ok == stop {
			return ok, err
		}
		return boxed(side(r, b.eval))
	}, a, b)
	if stop {
		out.requires = either(a.requires, b.requires)
	} else {
		out.requires = both(a.requires, b.requires)
	}
	return out, err
}

func (c *compiler) nilTest(n *ast.BinaryNode, a, b operand) operand {
	x := a
	if isNil(a) {
		x = b
	}
	want := n.Operator == "=="
	return operand{eval: func(r *run) (any, error) {
		v, err := x.eval(r)
		if err != nil {
			return nil, err
		}
		if err := r.step(); err != nil {
			return nil, err
		}
		return (v == nil) == want, nil
	}}
}

// fold makes an operand of e, and evaluates it at once if all that it depends on is constant. What then fails would always
// fail, so it is a mistake in the text.
func (c *compiler) fold(at ast.Node, e eval, inputs ...operand) (operand, error) {
	for _, in := range inputs {
		if !in.constant {
			return operand{eval: e}, nil
		}
	}
	switch v, err := e(&c.folding); {
	case err == errSteps, err == errMemory: // tell when, and if, it is evaluated
		return operand{eval: e}, nil
	case err != nil:
		return operand{}, c.errorf(at, "%s", err)
	default:
		switch v.(type) {
		case []any, map[string]any: // not worth keeping
			return operand{eval: e}, nil
		}
		return constant(v), nil
	}
}

// textOperator makes an operator of strings that is false where one is nil.
func textOperator(name string, apply func(s, t string) bool) func(r *run, a, b any) (any, error) {
	return func(r *run, a, b any) (any, error) {
		s, t, ok, err := twoStrings(name, a, b)
		if err != nil || !ok {
			return false, err
		}
		if err := r.scan(len(s) + len(t)); err != nil {
			return nil, err
		}
		return apply(s, t), nil
	}
}

func twoStrings(name string, a, b any) (s, t string, ok bool, err error) {
	s, okS := a.(string)
	t, okT := b.(string)
	if !okS && a != nil || !okT && b != nil {
		return "", "", false, failf("operator %q needs two strings, not %s and %s", name, some(a), some(b))
	}
	return s, t, okS && okT, nil
}

func (r *run) in(needle, list any) (bool, error) {
	switch list := list.(type) {
	case nil:
		return false, nil
	case []any:
		if needle == nil {
			return false, nil
		}
		for _, v := range list {
			if same, err := r.equal(v, needle); same || err != nil {
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
			return ok, nil
		}
		return false, failf("a map has no keys of kind %s", kindOf(needle))
	case string:
		return false, failf(`operator "in" needs a list or a map, not a string; use contains`)
	}
	return false, failf(`operator "in" needs a list or a map, not %s`, some(list))
}

// matchesConstant compiles a matches "…".
func matchesConstant(a operand, re *pattern) eval {
	return func(r *run) (any, error) {
		v, err := a.eval(r)
		if err != nil {
			return nil, err
		}
		return r.match(v, re)
	}
}

func (r *run) matches(a, b any) (any, error) {
	_, text, ok, err := twoStrings("matches", a, b)
	if err != nil || !ok {
		return false, err
	}
	re, err := compilePattern(text)
	if err != nil {
		return nil, failf(`"matches" cannot use its pattern`)
	}
	r.steps -= re.size
	if err := r.alloc(re.size * sizeInstruction); err != nil {
		return nil, err
	}
	return r.match(a, re)
}

func (r *run) match(v any, re *pattern) (any, error) {
	s, ok := v.(string)
	if !ok {
		if v == nil {
			return false, nil
		}
		return nil, failf(`operator "matches" needs two strings, not %s and a string`, some(v))
	}
	// Go's regular expressions take time in proportion to the text times the pattern.
	if err := r.scan(len(s) * re.size); err != nil {
		return nil, err
	}
	return re.re.MatchString(s), nil
}
