package expr

import (
	"fmt"

	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/expr/value"
	"github.com/informd/informd/engine/object"
)

// OnPanic is called with each panic that the package recovers from: with a bug. Tests replace it
// before they use the package.
var OnPanic = func(any) {}

// Compile compiles an expression for a scope. The error has the mistakes that Mistakes returns: all
// names that mean nothing, or one mistake of another kind.
func Compile(text string, o Options) (p *Program, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			OnPanic(cause)
			p, err = nil, &Error{0, "the expression cannot be compiled"}
		}
	}()
	c := newCompiler(o)
	root, err := c.root(text)
	if err != nil {
		return nil, err
	}
	if root.constant && (o.Scope == Where || o.Scope == When) {
		if _, err := value.Truth(root.value); err != nil {
			given := value.Some(root.value)
			return nil, &Error{0, fmt.Sprintf("the expression gives %s, not true or false", given)}
		}
	}
	if root.constant && o.IsNumber {
		if _, err := value.Number(root.value); err != nil {
			return nil, &Error{0, err.Error()}
		}
	}
	if means, ok := times[o.Scope]; ok {
		if fault := notTimeOf(text, root); fault != "" {
			return nil, &Error{0, fault + ": " + means}
		}
	}
	var gives []string
	var list elementsOf
	switch o.Scope {
	case Attach:
		if gives, err = c.objectsGiven(root.shape); err != nil {
			return nil, err
		}
	case ForEach:
		c.reach.touch(root.shape)
		list.shape = c.reach.elem(root.shape)
		c.reach.touch(list.shape) // which of them are nil matters
		if search := root.search; search != nil {
			list.found = &Program{
				text: text, slots: c.mostSlots, eval: func(r *run) (any, error) { return search(r) },
			}
		}
	default:
		c.reach.use(root.shape)
	}
	p = c.program(text, root.eval)
	p.requires, p.exact, p.gives, p.elements = root.requires, root.exact, gives, list
	p.options = o
	if o.Branch != nil || o.Trace {
		p.requires, p.exact = nil, false
	}
	return p, nil
}

// times are the scopes whose programs give a time of the object, and which.
var times = map[Scope]string{
	Due: "due is the time from which it is a member, " +
		`such as time(object.spec.renewTime) + duration("2m")`,
	At: "at is the time at which the change happened, " +
		`such as time(object.metadata.creationTimestamp)`,
}

// notTimeOf returns what is wrong with an expression that can be no time of an object, or "".
func notTimeOf(text string, root operand) string {
	if root.constant {
		return "the expression does not depend on the object"
	}
	tree, err := parse(text)
	if err != nil {
		return "" // cannot happen: it was parsed before
	}
	isCondition := false
	switch n := tree.(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "==", "!=", "<", "<=", ">", ">=", "and", "&&", "or", "||", "in", "matches", "contains",
			"startsWith", "endsWith":
			isCondition = true
		}
	case *ast.UnaryNode:
		isCondition = n.Operator == "not" || n.Operator == "!"
	}
	if isCondition {
		return "the expression gives true or false"
	}
	return ""
}

func newCompiler(o Options) *compiler {
	c := &compiler{options: o, done: make(map[ast.Node]operand)}
	if o.Trace {
		c.sites = newSites()
	}
	c.folding = run{Meter: value.Meter{Steps: MaxSteps, Bytes: maxFolded}}
	return c
}

// root parses and compiles a text. A compiler takes several texts and makes one program of them.
func (c *compiler) root(text string) (operand, error) {
	root, err := c.ofText(text)
	if err != nil {
		if other := ofOtherSyntax(text); other != nil {
			c.unknown = nil
			return operand{}, other
		}
	}
	return root, err
}

func (c *compiler) ofText(text string) (operand, error) {
	tree, err := parse(text)
	if err != nil {
		return operand{}, err
	}
	c.text = text
	if c.sites != nil {
		c.sites.body(tree)
	}
	root, err := c.compile(tree)
	if len(c.unknown) > 0 { // whatever else is wrong may follow from them
		return operand{}, c.unknown.err()
	}
	if err == nil && (c.options.Scope == Where || c.options.Scope == When) {
		root.eval = c.watched(tree, root)
	}
	return root, err
}

// program makes the Program that evaluates e. The caller has used the shapes that e reads.
func (c *compiler) program(text string, e eval) *Program {
	p := &Program{
		text: text, eval: e, slots: c.mostSlots, paths: c.reach.of(own).set(),
		reads: c.reads,
	}
	for source, from := range c.reach.sources {
		if source != own {
			if p.lookups == nil {
				p.lookups = make(map[string]*object.Paths)
			}
			p.lookups[source] = from.set()
		}
	}
	return p
}

// compiler holds what is known during the walk over the syntax tree. It has this many fields because
// one walk finds the closures, the paths that they read and the slots that they need.
type compiler struct {
	text    string
	options Options
	reach   reach
	reads   mentions

	variables []variable
	pointers  []*pointer
	slots     int // in use now
	mostSlots int

	// done remembers compiled nodes. The parser turns a < b < c into a < b && b < c with one node
	// b, so without done the walk of nested chains takes exponential time.
	done map[ast.Node]operand

	sites *sites // of Options.Trace, or nil

	unknown several // names in the text that mean nothing

	folding run // evaluates constants; the whole text shares its budgets
}

// maxFolded bounds the bytes that constants may allocate at compile time, and so the largest
// constant that a program keeps.
const maxFolded = 256 << 10

// operand is a compiled node.
type operand struct {
	eval     eval
	shape    shape
	constant bool
	value    any // if it is constant
	// search finds the values that eval collects, one by one, for callers that may stop early. It is
	// nil if the operand is no search.
	search search

	field    []string    // the keys under which the value always lies in object; nil if it does not
	requires []Condition // what holds of object if the value is true
	exact    bool        // the value is true or fails if requires holds, and else false or fails
}

func constant(v any) operand {
	return operand{eval: func(*run) (any, error) { return v, nil }, constant: true, value: v}
}

func (c *compiler) errorf(at ast.Node, format string, args ...any) error {
	for { // the position of a member is that of its property
		if m, ok := at.(*ast.MemberNode); ok {
			at = m.Node
		} else if chain, ok := at.(*ast.ChainNode); ok {
			at = chain.Node
		} else {
			break
		}
	}
	return &Error{value.RuneOffset(c.text, at.Location().From), fmt.Sprintf(format, args...)}
}

// maxUnknown is how many unknown names of one text are reported.
const maxUnknown = 10

// unknownName reports a name that means nothing, and goes on, so that the others are found too.
func (c *compiler) unknownName(at ast.Node, format string, args ...any) (operand, error) {
	err := c.errorf(at, format, args...)
	if len(c.unknown) == maxUnknown {
		return operand{}, err
	}
	c.unknown = append(c.unknown, err.(*Error))
	return operand{eval: func(*run) (any, error) { return nil, nil }}, nil
}

func (c *compiler) slot() int {
	c.slots++
	c.mostSlots = max(c.mostSlots, c.slots)
	return c.slots - 1
}

func (c *compiler) compile(node ast.Node) (operand, error) {
	if c.sites != nil {
		defer c.sites.mentions(node)
	}
	if o, ok := c.done[node]; ok {
		return o, nil
	}
	compile := c.compileNew
	switch {
	case c.sites != nil:
		compile = c.compileTraced
	case c.knowsEvent():
		compile = c.compileKnown
	}
	o, err := compile(node)
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
		if template := inQuotes.FindString(n.Value); template != "" && c.options.Scope != Payload {
			return operand{}, c.errorf(n, "this is the text itself; for what the expression gives, "+
				"leave out the quotes and ${ }: %s", clip(template[len("${"):len(template)-1]))
		}
		return constant(n.Value), nil
	case *ast.IdentifierNode:
		return c.identifier(n)
	case *ast.PointerNode:
		return c.pointer(n)
	case *ast.ChainNode: // every access acts like a?.b
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
	condition.eval = c.watched(n.Cond, condition)
	c.reach.use(condition.shape)
	return operand{shape: c.reach.union(yes.shape, no.shape), eval: func(r *run) (any, error) {
		if err := r.Step(); err != nil {
			return nil, err
		}
		v, err := condition.eval(r)
		if err != nil {
			return nil, err
		}
		ok, err := value.Truth(v)
		if err != nil {
			return nil, value.Errorf("a condition must be true or false, not %s", value.Some(v))
		}
		if ok {
			return yes.eval(r)
		}
		return no.eval(r)
	}}, nil
}
