package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// Compile compiles text for a purpose. An error is an *Error.
func Compile(text string, o Options) (p *Program, err error) {
	defer func() {
		if recover() != nil {
			p, err = nil, &Error{0, "the expression cannot be compiled"}
		}
	}()
	tree, err := parse(text)
	if err != nil {
		return nil, err
	}
	c := &compiler{text: text, options: o, done: make(map[ast.Node]operand)}
	c.folding = run{env: new(Env), steps: MaxSteps, bytes: maxFolded}
	root, err := c.compile(tree)
	if err != nil {
		return nil, err
	}
	if root.constant && (o.Scope == Where || o.Scope == When) {
		if _, err := truth(root.value); err != nil {
			return nil, &Error{0, fmt.Sprintf("the expression gives %s, not true or false", some(root.value))}
		}
	}
	c.reach.use(root.shape)
	return &Program{
		text: text, eval: root.eval, slots: c.mostSlots, paths: c.reach.set(), readsOld: c.readsOld, readEvent: c.readsEvent,
	}, nil
}

// compiler holds what is known while the syntax tree is walked.
type compiler struct {
	text       string
	options    Options
	reach      reach
	readsOld   bool
	readsEvent bool

	variables []variable
	pointers  []*pointer
	slots     int // in use
	mostSlots int

	// The operands of a < b < c are shared: the parser gives a < b && b < c with one node b. A walk that does not
	// remember takes exponential time where such chains nest.
	done map[ast.Node]operand

	folding run // evaluates constants; its budgets are for the whole text
}

// maxFolded is how many bytes evaluating constants at compile time may allocate, and the largest constant that is kept.
const maxFolded = 256 << 10

// operand is a compiled node.
type operand struct {
	eval     eval
	shape    shape
	constant bool
	value    any // if constant
}

type variable struct {
	name  string
	slot  int
	shape shape
}

// pointer is what # and its kind mean inside a predicate.
type pointer struct {
	element, index, acc int   // slots; acc is -1 outside of reduce
	shape               shape // of the element
	indexed             bool  // #index is mentioned
}

func constant(v any) operand {
	return operand{eval: func(*run) (any, error) { return v, nil }, constant: true, value: v}
}

func (c *compiler) errorf(at ast.Node, format string, args ...any) error {
	for { // a member is located where its property is
		if m, ok := at.(*ast.MemberNode); ok {
			at = m.Node
		} else if chain, ok := at.(*ast.ChainNode); ok {
			at = chain.Node
		} else {
			break
		}
	}
	return &Error{offset(c.text, at.Location().From), fmt.Sprintf(format, args...)}
}

func (c *compiler) slot() int {
	c.slots++
	c.mostSlots = max(c.mostSlots, c.slots)
	return c.slots - 1
}

func (c *compiler) compile(node ast.Node) (operand, error) {
	if o, ok := c.done[node]; ok {
		return o, nil
	}
	o, err := c.compileNew(node)
	if err == nil {
		c.done[node] = o
	}
	return o, err
}

func (c *compiler) compileNew(node ast.Node) (operand, error) {
	switch n := node.(type) {
	case *ast.NilNode:
		return constant(nil), nil
	case *ast.BoolNode:
		return constant(n.Value), nil
	case *ast.IntegerNode:
		return constant(int64(n.Value)), nil
	case *ast.FloatNode:
		return constant(n.Value), nil
	case *ast.StringNode:
		return constant(n.Value), nil
	case *ast.IdentifierNode:
		return c.identifier(n)
	case *ast.PointerNode:
		return c.pointer(n)
	case *ast.ChainNode: // every access is as a?.b
		return c.compile(n.Node)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.SliceNode:
		return c.slice(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.VariableDeclaratorNode:
		return c.let(n)
	case *ast.SequenceNode:
		return c.sequence(n)
	case *ast.ArrayNode:
		return c.list(n)
	case *ast.MapNode:
		return c.mapping(n)
	case *ast.CallNode:
		return c.call(n)
	case *ast.BuiltinNode:
		return c.function(n, n.Name, n.Arguments)
	case *ast.BytesNode:
		return operand{}, c.errorf(n, "bytes are not supported; leave out the b")
	case *ast.PredicateNode:
		return operand{}, c.errorf(n, "unexpected predicate")
	}
	return operand{}, &Error{0, "the expression cannot be compiled"}
}

func (c *compiler) compileAll(nodes []ast.Node) ([]operand, error) {
	out := make([]operand, len(nodes))
	for i, node := range nodes {
		var err error
		if out[i], err = c.compile(node); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *compiler) identifier(n *ast.IdentifierNode) (operand, error) {
	for _, v := range slices.Backward(c.variables) {
		if v.name == n.Value {
			return c.load(v.slot, v.shape), nil
		}
	}
	switch n.Value {
	case "object":
		return operand{eval: func(r *run) (any, error) { return r.env.Object, nil }, shape: place()}, nil
	case "old":
		c.readsOld = true
		return operand{eval: func(r *run) (any, error) { return r.env.Old, nil }, shape: place()}, c.onlyOfChanges(n, "old")
	case "event":
		c.readsEvent = true
		return operand{eval: func(r *run) (any, error) { return r.env.Event, nil }}, c.onlyOfChanges(n, "event")
	}
	if isFunction(n.Value) {
		return operand{}, c.errorf(n, "%s is a function; call it as %s(…)", n.Value, n.Value)
	}
	return operand{}, c.errorf(n, "unknown name %q%s", clip(n.Value), suggest(n.Value, c.names()))
}

// onlyOfChanges is the error of mentioning what where and indexes must not depend on.
func (c *compiler) onlyOfChanges(at ast.Node, name string) error {
	switch c.options.Scope {
	case Where:
		return c.errorf(at, "where cannot use %s: it must come out the same whenever it is asked, so it reads object alone; use %s in when", name, name)
	case Index:
		return c.errorf(at, "an index cannot use %s: it is kept per object, so it reads object alone", name)
	}
	return nil
}

// names are all that an identifier can be.
func (c *compiler) names() []string {
	names := []string{"object", "true", "false", "nil"}
	if c.options.Scope == When || c.options.Scope == Payload {
		names = append(names, "old", "event")
	}
	for _, v := range c.variables {
		names = append(names, v.name)
	}
	return names
}

func (c *compiler) load(slot int, s shape) operand {
	return operand{eval: func(r *run) (any, error) { return r.slots[slot], nil }, shape: s}
}

func (c *compiler) pointer(n *ast.PointerNode) (operand, error) {
	if len(c.pointers) == 0 {
		return operand{}, c.errorf(n, "# means nothing outside of a predicate")
	}
	p := c.pointers[len(c.pointers)-1]
	switch {
	case n.Name == "":
		return c.load(p.element, p.shape), nil
	case n.Name == "index":
		p.indexed = true
		return c.load(p.index, shape{}), nil
	case n.Name == "acc" && p.acc >= 0:
		return c.load(p.acc, shape{}), nil
	case n.Name == "acc":
		return operand{}, c.errorf(n, "#acc means nothing outside of reduce")
	}
	return operand{}, c.errorf(n, "unknown pointer #%s%s", clip(n.Name), suggest(n.Name, []string{"index", "acc"}))
}

func (c *compiler) let(n *ast.VariableDeclaratorNode) (operand, error) {
	if c.reserved(n.Name) {
		return operand{}, c.errorf(n, "%s already has a meaning; choose another name", clip(n.Name))
	}
	value, err := c.compile(n.Value)
	if err != nil {
		return operand{}, err
	}
	c.reach.touch(value.shape)
	slot := c.slot()
	c.variables = append(c.variables, variable{n.Name, slot, value.shape})
	body, err := c.compile(n.Expr)
	c.variables = c.variables[:len(c.variables)-1]
	c.slots--
	if err != nil {
		return operand{}, err
	}
	return operand{shape: body.shape, eval: func(r *run) (any, error) {
		v, err := value.eval(r)
		if err != nil {
			return nil, err
		}
		r.slots[slot] = v
		return body.eval(r)
	}}, nil
}

func (c *compiler) reserved(name string) bool {
	switch name {
	case "object", "old", "event", "true", "false", "nil":
		return true
	}
	return slices.ContainsFunc(c.variables, func(v variable) bool { return v.name == name })
}

func (c *compiler) sequence(n *ast.SequenceNode) (operand, error) {
	parts, err := c.compileAll(n.Nodes)
	if err != nil {
		return operand{}, err
	}
	last := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		c.reach.touch(part.shape)
	}
	return operand{shape: last.shape, eval: func(r *run) (v any, err error) {
		for _, part := range parts {
			if v, err = part.eval(r); err != nil {
				return nil, err
			}
		}
		return v, nil
	}}, nil
}

func (c *compiler) conditional(n *ast.ConditionalNode) (operand, error) {
	parts, err := c.compileAll([]ast.Node{n.Cond, n.Exp1, n.Exp2})
	if err != nil {
		return operand{}, err
	}
	condition, yes, no := parts[0], parts[1], parts[2]
	c.reach.use(condition.shape)
	return operand{shape: c.reach.union(yes.shape, no.shape), eval: func(r *run) (any, error) {
		if err := r.step(); err != nil {
			return nil, err
		}
		v, err := condition.eval(r)
		if err != nil {
			return nil, err
		}
		ok, err := truth(v)
		if err != nil {
			return nil, failf("a condition must be true or false, not %s", some(v))
		}
		if ok {
			return yes.eval(r)
		}
		return no.eval(r)
	}}, nil
}

func clip(name string) string {
	if len(name) > 64 {
		return strings.ToValidUTF8(name[:64], "") + "…"
	}
	return name
}
