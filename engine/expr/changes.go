package expr

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/expr/value"
	"github.com/informd/informd/engine/object"
)

// neverTrue reports whether a condition is true for no change of the given types, whatever the
// objects are. It reports false unless it knows for certain, and so for a text with a mistake.
//
// It compiles the text once for each type, with event as a constant, and with nil for old unless
// the type is updated. Then it sees what follows from constants.
func neverTrue(text string, o Options, types []string) (never bool) {
	defer func() {
		if cause := recover(); cause != nil { // as in Compile
			OnPanic(cause)
			never = false
		}
	}()
	o.Branch, o.Trace = nil, false
	for _, o.event = range types {
		root, err := newCompiler(o).root(text)
		if err != nil || !root.constant {
			return false
		}
		if ok, err := value.Truth(root.value); ok || err != nil {
			return false
		}
	}
	return len(types) > 0
}

// contradiction returns the path of a field of object that a condition compares with texts of which
// no one suits all of it, or nil.
func contradiction(text string, o Options) []string {
	program, err := Compile(text, o)
	if err != nil {
		return nil
	}
	for _, c := range program.Requires() {
		if len(c.Values) == 0 && len(c.Path) > 0 {
			return c.Path
		}
	}
	return nil
}

// knowsEvent reports whether the compiler compiles for one type of changes.
func (c *compiler) knowsEvent() bool { return c.options.event != "" }

// compileKnown compiles for one type of changes. Where the value of a node follows from the
// constants in it, the operand is constant, even if an evaluation would fail at another operand.
func (c *compiler) compileKnown(node ast.Node) (operand, error) {
	o, err := c.compileNew(node)
	if err != nil || o.constant {
		return o, err
	}
	if v, ok := c.follows(node); ok {
		return constant(v), nil
	}
	return o, nil
}

// known returns the value of a compiled node, if it is constant.
func (c *compiler) known(node ast.Node) (v any, ok bool) {
	o := c.done[unchained(node)]
	return o.value, o.constant
}

func (c *compiler) isKnownNil(node ast.Node) bool {
	v, ok := c.known(node)
	return ok && v == nil
}

// isKnownAs reports whether a compiled node certainly counts as true, or as false.
func (c *compiler) isKnownAs(node ast.Node, want bool) bool {
	v, ok := c.known(node)
	is, err := value.Truth(v)
	return ok && err == nil && is == want
}

func (c *compiler) isFalse(node ast.Node) bool {
	v, ok := c.known(node)
	return ok && v == false
}

// follows returns the value of a node if it follows from the constants in it.
func (c *compiler) follows(node ast.Node) (v any, ok bool) {
	switch n := node.(type) {
	case *ast.IdentifierNode:
		for _, of := range slices.Backward(c.variables) {
			if of.name == n.Value {
				return of.value.value, of.value.constant
			}
		}
	case *ast.MemberNode:
		return nil, c.isKnownNil(beginningOfPath(n))
	case *ast.BinaryNode:
		return c.followsFromBoth(n)
	case *ast.ConditionalNode:
		switch {
		case c.isKnownAs(n.Cond, true):
			return c.known(n.Exp1)
		case c.isKnownAs(n.Cond, false):
			return c.known(n.Exp2)
		case c.isKnownNil(n.Exp1) && c.isKnownNil(n.Exp2):
			return nil, true
		case c.isFalse(n.Exp1) && c.isFalse(n.Exp2):
			return false, true
		}
	case *ast.VariableDeclaratorNode:
		return c.known(n.Expr)
	case *ast.BuiltinNode:
		return c.followsFromCall(n.Name, n.Arguments)
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			return c.followsFromCall(callee.Value, n.Arguments)
		}
	}
	return nil, false
}

// beginningOfPath returns what a.b["c"] begins with.
func beginningOfPath(n *ast.MemberNode) ast.Node {
	for {
		inner, ok := unchained(n.Node).(*ast.MemberNode)
		if !ok {
			return n.Node
		}
		n = inner
	}
}

func (c *compiler) followsFromBoth(n *ast.BinaryNode) (v any, ok bool) {
	hasNil := c.isKnownNil(n.Left) || c.isKnownNil(n.Right)
	switch n.Operator {
	case "and", "&&":
		return false, c.isKnownAs(n.Left, false) || c.isKnownAs(n.Right, false)
	case "or", "||":
		return true, c.isKnownAs(n.Left, true) || c.isKnownAs(n.Right, true)
	case "??":
		if c.isKnownNil(n.Left) {
			return c.known(n.Right)
		}
		return c.known(n.Left)
	case "==", "!=":
		if !hasNil {
			return nil, false
		}
		other, isKnown := c.known(n.Left)
		at := n.Left
		if isKnown && other == nil {
			other, isKnown = c.known(n.Right)
			at = n.Right
		}
		return (other == nil && isKnown) == (n.Operator == "=="), isKnown || c.isThere(at)
	case "<", "<=", ">", ">=", "in", "contains", "startsWith", "endsWith", "matches":
		return false, hasNil
	case "+", "-", "*", "/", "%", "**", "^":
		return nil, hasNil
	}
	return nil, false
}

// isThere reports whether a node is a whole state that the change certainly has. That is never old: an
// updated Secret that waited over a restart comes without it.
func (c *compiler) isThere(node ast.Node) bool {
	name, ok := unchained(node).(*ast.IdentifierNode)
	return ok && name.Value == "object"
}

func (c *compiler) followsFromCall(name string, arguments []ast.Node) (v any, ok bool) {
	if len(arguments) == 0 {
		return nil, false
	}
	if isPredicate(name) && c.isKnownNil(arguments[0]) {
		return predicates[name].ofNil, true
	}
	switch {
	case name == "get":
		return nil, c.isKnownNil(arguments[0])
	case (name == "lookup" || name == "byIndex") && len(arguments) > 1:
		return nil, c.isKnownNil(arguments[1])
	case name == "any" && len(arguments) > 1:
		body, ok := arguments[1].(*ast.PredicateNode)
		return false, ok && c.isKnownAs(body.Node, false)
	}
	return nil, false
}

// checkOld reports the first field of old in a text that is evaluated for no update, so that old is
// always nil. It reports nothing if the text reckons with that: see checker.reckons.
func (c *checker) checkOld() {
	if len(c.as.Events) == 0 || slices.Contains(c.as.Events, "updated") || c.reckons || c.old == nil {
		return
	}
	c.errorf(c.old, "old is always nil here: it is the state before an update, and this is evaluated "+
		"for %s only; add updated to spec.events, or leave old out", listedAll(c.as.Events))
}

// listedAll joins names with commas and and.
func listedAll(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// checkNever reports a condition that no change makes true for which it is evaluated.
func (c *checker) checkNever(tree ast.Node) {
	switch {
	case !c.as.IsCondition || c.hasFalse: // authors switch a condition off with false
	case c.mentioned == nil:
		if path := contradiction(c.text, c.as.Options); path != nil {
			c.errorf(tree, "the condition is never true: object.%s has one value at a time",
				object.PathText(path))
		}
	case !neverTrue(c.text, c.as.Options, c.as.Events):
	case neverTrue(c.text, c.as.Options, eventTypes):
		c.errorf(c.mentioned, "the condition is never true, for no type of event")
	default:
		c.errorf(c.mentioned, "the condition is never true: it is evaluated for %s only; "+
			"change spec.events, or the condition", listedAll(c.as.Events))
	}
}
