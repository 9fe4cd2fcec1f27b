package expr

import (
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/expr/value"
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
	if err := c.checkGiven(inner, keys[0]); err != nil {
		return operand{}, err
	}
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
			if err := r.Step(); err != nil {
				return nil, err
			}
			switch m := v.(type) {
			case map[string]any:
				v = m[key]
			case nil:
				return nil, nil
			default:
				return nil, noField(v, clip(key))
			}
		}
		return v, nil
	}}, nil
}

// noField returns the error for reading a field of v, which is no map.
func noField(v any, key string) error {
	hint := ""
	if _, isList := v.([]any); isList && plainName.MatchString(key) {
		hint = fmt.Sprintf("; ask each element, with any(LIST, .%s == …), "+
			"or take it of each, with map(LIST, .%s)", key, key)
	}
	return value.Errorf("%s has no field %q%s", value.Some(v), key, hint)
}

var plainName = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// index compiles a[x] for an x that is not a constant string.
func (c *compiler) index(base, key operand) operand {
	c.reach.use(key.shape)
	return operand{shape: c.reach.member(base.shape, object.Each), eval: func(r *run) (any, error) {
		if n, ok := key.value.(int64); ok && n >= 0 && base.search != nil {
			f, err := base.search(r)
			if f == nil || err != nil {
				return nil, err
			}
			return f.nth(r, n)
		}
		v, err := base.eval(r)
		if err != nil {
			return nil, err
		}
		k, err := key.eval(r)
		if err != nil {
			return nil, err
		}
		if err := r.ScanKey(k); err != nil {
			return nil, err
		}
		return value.Fetch(v, k)
	}}
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
	hasFrom, hasTo := n.From != nil, n.To != nil
	slice := func(m *value.Meter, args []any) (any, error) {
		var from, to any = int64(0), int64(math.MaxInt64)
		if hasFrom {
			from = args[1]
		}
		if hasTo {
			to = args[len(args)-1]
		}
		return m.Slice(args[0], from, to)
	}
	evals := evalsOf(parts)
	return operand{
		shape: made(c.reach.elem(base.shape)),
		eval:  func(r *run) (any, error) { return r.call(slice, evals) },
	}, nil
}

// list compiles [a, b]. It makes a list of constants only once.
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
		if err := r.Scan(len(evals)); err != nil {
			return nil, err
		}
		if err := r.AllocList(len(evals)); err != nil {
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
	given := make(map[string]bool, len(n.Pairs))
	for _, node := range n.Pairs {
		pair := node.(*ast.PairNode)
		parts, err := c.compileAll([]ast.Node{pair.Key, pair.Value})
		if err != nil {
			return operand{}, err
		}
		key, entry := parts[0], parts[1]
		if name, ok := key.value.(string); key.constant {
			switch {
			case !ok:
				return operand{}, c.errorf(pair.Key, "a key must be a string, not %s",
					value.Some(key.value))
			case given[name]:
				return operand{}, c.errorf(pair.Key, "the key %q is given twice", clip(name))
			}
			given[name] = true
		}
		c.reach.use(key.shape)
		c.reach.touch(entry.shape)
		elem = c.reach.union(elem, entry.shape)
		keys, values = append(keys, key.eval), append(values, entry.eval)
	}
	return operand{shape: madeMap(elem), eval: func(r *run) (any, error) {
		if err := r.Scan(len(keys)); err != nil {
			return nil, err
		}
		if err := r.AllocMap(len(keys)); err != nil {
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
				return nil, value.Errorf("a key must be a string, not %s", value.Some(k))
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
