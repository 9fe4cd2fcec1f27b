package expr

import (
	"cmp"
	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/expr/value"
)

func (c *compiler) unary(n *ast.UnaryNode) (operand, error) {
	x, err := c.compile(n.Node)
	if err != nil {
		return operand{}, err
	}
	apply := value.Unary[n.Operator]
	c.reach.use(x.shape)
	return c.fold(n, func(r *run) (any, error) {
		v, err := x.eval(r)
		if err != nil {
			return nil, err
		}
		if err := r.Step(); err != nil {
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
	if err := cmp.Or(
		c.checkEvent(n, a, b), c.checkText(n, a, b), c.checkLabel(n, a, b)); err != nil {
		return operand{}, err
	}
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
		// comparing with nil asks only whether something is there
		if isNil(a) || isNil(b) {
			c.reach.touch(a.shape)
			c.reach.touch(b.shape)
			return c.nilTest(n, a, b), nil
		}
	case "matches":
		if pattern, ok := b.value.(string); ok {
			re, err := value.CompilePattern(pattern)
			if err != nil {
				return operand{}, c.errorf(n.Right, "%s", err)
			}
			c.reach.use(a.shape)
			return c.fold(n, matchesConstant(a, re), a)
		}
	case "in":
		if set := stringSet(b); set != nil {
			c.reach.use(a.shape)
			out, err := c.fold(n, inSet(a, b.value, set), a)
			out.requires = in(a, b)
			out.exact = len(out.requires) > 0
			return out, err
		}
	}
	apply, ok := value.Binary[n.Operator]
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
		if err := r.Step(); err != nil {
			return nil, err
		}
		return apply(&r.Meter, x, y)
	}, a, b)
	switch n.Operator {
	case "==":
		out.requires = equals(a, b)
	case "in":
		out.requires = in(a, b)
	}
	out.exact = len(out.requires) > 0
	return out, err
}

func isNil(o operand) bool { return o.constant && o.value == nil }

// logic compiles and, or. stop is the value of the left side that decides without the right side.
func (c *compiler) logic(n *ast.BinaryNode, a, b operand, stop bool) (operand, error) {
	c.reach.use(a.shape)
	c.reach.use(b.shape)
	a.eval, b.eval = c.watched(n.Left, a), c.watched(n.Right, b)
	operator := n.Operator // a closure that reads n would keep the syntax tree
	side := func(r *run, e eval) (bool, error) {
		v, err := e(r)
		if err != nil {
			return false, err
		}
		ok, err := value.Truth(v)
		if err != nil {
			return false, value.Errorf("operator %q needs true or false, not %s",
				operator, value.Some(v))
		}
		return ok, nil
	}
	out, err := c.fold(n, func(r *run) (any, error) {
		if err := r.Step(); err != nil {
			return nil, err
		}
		if ok, err := side(r, a.eval); err != nil || ok == stop {
			return ok, err
		}
		return side(r, b.eval)
	}, a, b)
	out.exact = a.exact && b.exact
	if stop {
		out.requires = either(a.requires, b.requires)
		// or is exact about one field only: of two, either may be enough
		out.exact = out.exact && len(a.requires) == 1 && len(b.requires) == 1 &&
			len(out.requires) == 1
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
		if err := r.Step(); err != nil {
			return nil, err
		}
		return (v == nil) == want, nil
	}}
}

// fold makes an operand of e, and evaluates it now if all its inputs are constant. An error is then
// a mistake in the text, because it would occur every time.
func (c *compiler) fold(at ast.Node, e eval, inputs ...operand) (operand, error) {
	for _, in := range inputs {
		if !in.constant {
			return operand{eval: e}, nil
		}
	}
	switch v, err := e(&c.folding); {
	case err == value.ErrSteps, err == value.ErrMemory: // report it only if somebody evaluates it
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

// matchesConstant compiles a matches "…".
func matchesConstant(a operand, re *value.Pattern) eval {
	return func(r *run) (any, error) {
		v, err := a.eval(r)
		if err != nil {
			return nil, err
		}
		return r.Match(v, re)
	}
}

// manyStrings is how many strings a constant list has at least if a set finds one faster.
const manyStrings = 8

// stringSet returns the elements of a constant list of many strings, and nil for anything else.
func stringSet(list operand) map[string]bool {
	values, _ := list.value.([]any)
	if len(values) < manyStrings {
		return nil
	}
	set := make(map[string]bool, len(values))
	for _, v := range values {
		s, ok := v.(string)
		if !ok {
			return nil
		}
		set[s] = true
	}
	return set
}

// inSet compiles a in ["…", "…"], for a list with that set of strings.
func inSet(a operand, list any, set map[string]bool) eval {
	in := value.Binary["in"]
	return func(r *run) (any, error) {
		v, err := a.eval(r)
		if err != nil {
			return nil, err
		}
		if err := r.Step(); err != nil {
			return nil, err
		}
		s, ok := v.(string)
		if !ok { // a quantity or a time may equal one of the strings
			return in(&r.Meter, v, list)
		}
		return set[s], r.Scan(len(s))
	}
}
