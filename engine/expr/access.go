package expr

import (
	"slices"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/object"
)

// member compiles a.b, a["b"], a[0] and a[x]. Successive constant keys become one closure.
func (c *compiler) member(n *ast.MemberNode) (operand, error) {
	property, err := c.compile(n.Property)
	if err != nil {
		return operand{}, err
	}
	key, ok := property.value.(string)
	if !property.constant || !ok {
		base, err := c.compile(n.Node)
		if err != nil {
			return operand{}, err
		}
		return c.index(base, property), nil
	}
	keys := []string{key}
	inner := n.Node
	for {
		if chain, ok := inner.(*ast.ChainNode); ok {
			inner = chain.Node
			continue
		}
		m, ok := inner.(*ast.MemberNode)
		if !ok {
			break
		}
		name, ok := m.Property.(*ast.StringNode)
		if !ok {
			break
		}
		keys = append(keys, name.Value)
		inner = m.Node
	}
	base, err := c.compile(inner)
	if err != nil {
		return operand{}, err
	}
	slices.Reverse(keys)
	s := base.shape
	for _, key := range keys {
		s = c.reach.member(s, key)
	}
	var field []string
	if base.field != nil {
		field = slices.Concat(base.field, keys)
	}
	return operand{shape: s, field: field, eval: func(r *run) (any, error) {
		v, err := base.eval(r)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if err := r.step(); err != nil {
				return nil, err
			}
			switch m := v.(type) {
			case map[string]any:
				v = m[key]
			case nil:
				return nil, nil
			default:
				return nil, failf("%s has no field %q", some(v), clip(key))
			}
		}
		return v, nil
	}}, nil
}

// index compiles a[x] where x is not a constant string.
func (c *compiler) index(base, key operand) operand {
	c.reach.use(key.shape)
	return operand{shape: c.reach.member(base.shape, object.Each), eval: func(r *run) (any, error) {
		v, err := base.eval(r)
		if err != nil {
			return nil, err
		}
		k, err := key.eval(r)
		if err != nil {
			return nil, err
		}
		if err := r.step(); err != nil {
			return nil, err
		}
		return fetch(v, k)
	}}
}

// fetch is v[key]. What is not there is nil; a negative index counts from the end.
func fetch(v, key any) (any, error) {
	if v == nil || key == nil {
		return nil, nil
	}
	switch v := v.(type) {
	case map[string]any:
		if key, ok := key.(string); ok {
			return v[key], nil
		}
	case []any:
		i, ok := whole(key)
		if !ok {
			break
		}
		if i < 0 {
			i += int64(len(v))
		}
		if i < 0 || i >= int64(len(v)) {
			return nil, nil
		}
		return v[i], nil
	}
	return nil, failf("%s cannot be indexed with %s", some(v), some(key))
}

// slice compiles a[from:to].
func (c *compiler) slice(n *ast.SliceNode) (operand, error) {
	nodes := []ast.Node{n.Node}
	if n.From != nil {
		nodes = append(nodes, n.From)
	}
	if n.To != nil {
		nodes = append(nodes, n.To)
	}
	parts, err := c.compileAll(nodes)
	if err != nil {
		return operand{}, err
	}
	base, bounds := parts[0], parts[1:]
	for _, bound := range bounds {
		c.reach.use(bound.shape)
	}
	c.reach.touch(base.shape)
	hasFrom := n.From != nil
	slice := func(r *run, args []any) (any, error) {
		var from, to any = int64(0), int64(maxInt)
		if hasFrom {
			from = args[1]
		}
		if n.To != nil {
			to = args[len(args)-1]
		}
		return r.slice(args[0], from, to)
	}
	evals := evalsOf(parts)
	return operand{
		shape: made(c.reach.elem(base.shape)),
		eval:  func(r *run) (any, error) { return r.call(slice, evals) },
	}, nil
}

func (r *run) slice(v, from, to any) (any, error) {
	if v == nil || from == nil || to == nil {
		return nil, nil
	}
	i, ok1 := whole(from)
	j, ok2 := whole(to)
	if !ok1 || !ok2 {
		return nil, failf("the bounds of a slice must be numbers")
	}
	switch v := v.(type) {
	case []any:
		i, j := bounds(i, j, len(v))
		return v[i:j:j], nil
	case string:
		if err := r.scan(2 * len(v)); err != nil {
			return nil, err
		}
		i, j := bounds(i, j, utf8.RuneCountInString(v))
		start := offset(v, i)
		return v[start : start+offset(v[start:], j-i)], nil
	}
	return nil, failf("%s cannot be sliced", some(v))
}

// bounds are from and to within 0 ≤ from ≤ to ≤ n; what is negative counts from the end.
func bounds(from, to int64, n int) (int, int) {
	within := func(i int64) int {
		if i < 0 {
			i += int64(n)
		}
		return int(min(max(i, 0), int64(n)))
	}
	j := within(to)
	return min(within(from), j), j
}

// list compiles [a, b]. A list of constants is made once.
func (c *compiler) list(n *ast.ArrayNode) (operand, error) {
	parts, err := c.compileAll(n.Nodes)
	if err != nil {
		return operand{}, err
	}
	var elem shape
	values, allConstant := make([]any, len(parts)), true
	for i, part := range parts {
		c.reach.touch(part.shape)
		elem = c.reach.union(elem, part.shape)
		values[i], allConstant = part.value, allConstant && part.constant
	}
	if allConstant {
		return constant(values), nil
	}
	evals := evalsOf(parts)
	return operand{shape: made(elem), eval: func(r *run) (any, error) {
		if err := r.scan(len(evals)); err != nil {
			return nil, err
		}
		if err := r.allocList(len(evals)); err != nil {
			return nil, err
		}
		out := make([]any, len(evals))
		for i, e := range evals {
			v, err := e(r)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	}}, nil
}

// mapping compiles {a: x, (b): y}.
func (c *compiler) mapping(n *ast.MapNode) (operand, error) {
	var keys, values []eval
	var elem shape
	for _, node := range n.Pairs {
		pair := node.(*ast.PairNode)
		parts, err := c.compileAll([]ast.Node{pair.Key, pair.Value})
		if err != nil {
			return operand{}, err
		}
		key, value := parts[0], parts[1]
		if _, ok := key.value.(string); key.constant && !ok {
			return operand{}, c.errorf(pair.Key, "a key must be a string, not %s", some(key.value))
		}
		c.reach.use(key.shape)
		c.reach.touch(value.shape)
		elem = c.reach.union(elem, value.shape)
		keys, values = append(keys, key.eval), append(values, value.eval)
	}
	return operand{shape: madeMap(elem), eval: func(r *run) (any, error) {
		if err := r.scan(len(keys)); err != nil {
			return nil, err
		}
		if err := r.allocMap(len(keys)); err != nil {
			return nil, err
		}
		out := make(map[string]any, len(keys))
		for i := range keys {
			k, err := keys[i](r)
			if err != nil {
				return nil, err
			}
			key, ok := k.(string)
			if !ok {
				return nil, failf("a key must be a string, not %s", some(k))
			}
			if out[key], err = values[i](r); err != nil {
				return nil, err
			}
		}
		return out, nil
	}}, nil
}

func evalsOf(parts []operand) []eval {
	out := make([]eval, len(parts))
	for i, part := range parts {
		out[i] = part.eval
	}
	return out
}
