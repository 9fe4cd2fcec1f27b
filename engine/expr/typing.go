package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/expr/value"
	"github.com/informd/informd/engine/schema"
)

// Typing says what the names in a text stand for. What it does not say may be anything.
type Typing struct {
	Object  Typed            // object and old
	Sources map[string]Typed // the objects that lookup finds, by source
	Item    Typed
	Given   map[string]Typed // other names
	// IsCondition says that the text must give true or false.
	IsCondition bool
	// Events are the types of changes for which the text is evaluated; nil: any. Options are what
	// Compile takes for it, without what watches evaluations.
	Events  []string
	Options Options
}

// Check returns what a text gives, and its mistakes of type: fields that objects cannot have,
// comparisons that are never true, operators that always fail. With Typing.Events, it also reports
// conditions that no change makes true, and fields of old that are never there. It reports nothing
// that it does not know for certain. get(x, "k") may ask for any field. Of a text with many
// mistakes, it returns some.
//
// Check does not compile the text, and says nothing about what Compile reports.
func Check(text string, as Typing) (gives Typed, mistakes []*Error) {
	defer func() {
		if cause := recover(); cause != nil { // as in Compile
			OnPanic(cause)
			gives, mistakes = Typed{}, nil
		}
	}()
	tree, err := parse(text)
	if err != nil {
		return Typed{}, nil
	}
	c := &checker{text: text, as: as, done: make(map[ast.Node]Typed)}
	gives = c.check(tree)
	if as.IsCondition {
		c.condition(tree, gives)
	}
	if len(c.mistakes) == 0 {
		c.checkOld()
	}
	if len(c.mistakes) == 0 {
		c.checkNever(tree)
	}
	return gives, c.mistakes
}

// CheckTemplate is Check for a text that CompileTemplate takes. Of a text without expressions it
// returns the string that it stands for.
func CheckTemplate(text string, as Typing) (gives Typed, mistakes []*Error) {
	parts, err := splitTemplate(text)
	if err != nil {
		return Typed{}, nil
	}
	literal := ""
	for _, part := range parts {
		if !part.isExpr {
			literal += part.text
			continue
		}
		of, more := Check(part.text, as)
		for _, m := range more {
			mistakes = append(mistakes, &Error{m.Offset + part.offset, m.Message})
		}
		if len(parts) == 1 {
			return of, mistakes
		}
		if of.IsOnly(schema.List | schema.Map) {
			use := "join or toJSON"
			if of.IsOnly(schema.Map) {
				use = "toJSON"
			}
			mistakes = append(mistakes, &Error{part.offset, fmt.Sprintf("%s is %s within a longer string: "+
				"use %s", of, of.Kind(), use)})
		}
	}
	if len(parts) <= 1 {
		return Typed{Type: schema.Constant(literal)}, mistakes
	}
	return ofKind(schema.String), mistakes
}

func ofKind(kinds schema.Kind) Typed { return Typed{Type: schema.Of(kinds)} }

// maxTypeMistakes is how many mistakes of one text Check looks for: naming a field that was probably
// meant takes time.
const maxTypeMistakes = 20

// checker walks over a syntax tree and finds out what each node gives.
type checker struct {
	text      string
	as        Typing
	variables []typedName
	elements  []Typed // what # means, innermost last
	mistakes  []*Error
	// done remembers nodes, because the parser may share them: see compiler.done.
	done map[ast.Node]Typed
	// negated is the operand of the last not.
	negated ast.Node

	mentioned ast.Node // the first event or old of the text
	old       ast.Node // the first old of which the text asks for a field
	// reckons says that the text knows that old may be nil: it mentions event, or old as a whole.
	reckons  bool
	hasFalse bool // the text has the constant false, with which authors switch conditions off
	// excused is how many parts there are around the node that reckon with nil.
	excused int
}

type typedName struct {
	name string
	is   Typed
}

func (c *checker) errorf(at ast.Node, format string, args ...any) {
	offset := value.RuneOffset(c.text, beginning(at).Location().From)
	c.mistakes = append(c.mistakes, &Error{offset, fmt.Sprintf(format, args...)})
}

func (c *checker) check(node ast.Node) Typed {
	if t, ok := c.done[node]; ok || len(c.mistakes) >= maxTypeMistakes {
		return t
	}
	t := c.checkNew(node)
	c.done[node] = t
	return t
}

func (c *checker) checkNew(node ast.Node) Typed {
	switch n := node.(type) {
	case *ast.BoolNode:
		c.hasFalse = c.hasFalse || !n.Value
		return ofKind(schema.Bool)
	case *ast.IntegerNode, *ast.FloatNode:
		return ofKind(schema.Number)
	case *ast.StringNode:
		return Typed{Type: schema.Constant(n.Value)}
	case *ast.IdentifierNode:
		return c.name(n)
	case *ast.PointerNode:
		if n.Name == "" && len(c.elements) > 0 {
			return c.elements[len(c.elements)-1]
		}
	case *ast.ChainNode:
		return c.check(n.Node)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.SliceNode:
		of := c.check(n.Node)
		for _, bound := range []ast.Node{n.From, n.To} {
			if bound != nil {
				c.check(bound)
			}
		}
		return of
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		c.condition(n.Cond, c.check(n.Cond))
		return c.union(n.Exp1, n.Exp2)
	case *ast.VariableDeclaratorNode:
		c.variables = append(c.variables, typedName{n.Name, c.check(n.Value)})
		body := c.check(n.Expr)
		c.variables = c.variables[:len(c.variables)-1]
		return body
	case *ast.SequenceNode:
		var last Typed
		for _, part := range n.Nodes {
			last = c.check(part)
		}
		return last
	case *ast.ArrayNode:
		return c.list(n)
	case *ast.MapNode:
		return c.mapping(n)
	case *ast.CallNode:
		return c.call(n)
	case *ast.BuiltinNode:
		return c.function(n.Name, n.Arguments)
	}
	return Typed{}
}

func (c *checker) name(n *ast.IdentifierNode) Typed {
	for _, v := range slices.Backward(c.variables) {
		if v.name == n.Value {
			return v.is
		}
	}
	switch n.Value {
	case "object":
		return c.as.Object
	case "old":
		c.mention(n)
		c.reckons = true
		return c.as.Object
	case "item":
		return c.as.Item
	case "event":
		c.mention(n)
		c.reckons = true
		return ofKind(schema.String)
	}
	return c.as.Given[n.Value]
}

func (c *checker) mention(at ast.Node) {
	if c.mentioned == nil {
		c.mentioned = at
	}
}

// ofOld returns what old is, of which n asks for a field.
func (c *checker) ofOld(n *ast.MemberNode, old *ast.IdentifierNode) Typed {
	c.mention(old)
	if c.old == nil && c.excused == 0 && !n.Optional {
		c.old = old
	}
	return c.as.Object
}

// union returns what one of two nodes gives. nil is of any type.
func (c *checker) union(a, b ast.Node) Typed {
	x, y := c.check(a), c.check(b)
	switch {
	case isNilNode(a):
		return y
	case isNilNode(b):
		return x
	}
	out := oneOfTwo(x, y)
	out.branches = []Typed{x, y}
	return out
}

func isNilNode(n ast.Node) bool {
	_, ok := unchained(n).(*ast.NilNode)
	return ok
}

func (c *checker) member(n *ast.MemberNode) Typed {
	var of Typed
	if name, ok := unchained(n.Node).(*ast.IdentifierNode); ok && name.Value == "old" {
		of = c.ofOld(n, name)
	} else {
		of = c.check(n.Node)
	}
	if name, ok := n.Property.(*ast.StringNode); ok {
		field, fault := of.Field(name.Value)
		if fault == "" && name.Value == managedFields && len(of.path) == 1 && of.path[0] == "metadata" {
			fault = "informd leaves metadata.managedFields out of objects, so it is always nil"
		}
		if fault != "" {
			c.errorf(n.Property, "%s", fault)
		}
		return field
	}
	c.check(n.Property)
	switch of.Type.Kinds() {
	case schema.List:
		return of.Element()
	case schema.Map:
		return Typed{Type: of.Type.Value()}
	}
	return Typed{}
}

func (c *checker) list(n *ast.ArrayNode) Typed {
	var element Typed
	for i, node := range n.Nodes {
		if one := c.check(node); i == 0 {
			element = one
		} else {
			element = oneOfTwo(element, one)
		}
	}
	return listOf(element)
}

func (c *checker) mapping(n *ast.MapNode) Typed {
	fields, isKnown := make(map[string]schema.Type), true
	for _, node := range n.Pairs {
		pair, ok := node.(*ast.PairNode)
		if !ok {
			return Typed{}
		}
		key, ok := pair.Key.(*ast.StringNode)
		if !ok {
			c.check(pair.Key)
			isKnown = false
		}
		of := c.check(pair.Value).Type
		if isNilNode(pair.Value) {
			of = schema.Type{}
		}
		if ok {
			fields[key.Value] = of
		}
	}
	if !isKnown {
		return ofKind(schema.Map)
	}
	return Typed{Type: schema.Struct(fields)}
}

// condition reports what cannot be true or false.
func (c *checker) condition(at ast.Node, t Typed) {
	if !t.Lacks(schema.Bool) {
		return
	}
	hint := ""
	if path := unchained(at); isPath(path) {
		hint = fmt.Sprintf(": write %s != nil", clip(path.String()))
		if t.isConditionStatus() {
			hint = fmt.Sprintf(": write %s == \"True\"", clip(path.String()))
		}
	}
	c.errorf(at, "%s is %s, not true or false%s", t, t.Kind(), hint)
}

func (c *checker) unary(n *ast.UnaryNode) Typed {
	isNot := n.Operator == "not" || n.Operator == "!"
	if isNot {
		c.negated = unchained(n.Node)
	}
	of := c.check(n.Node)
	if isNot {
		c.condition(n.Node, of)
		return ofKind(schema.Bool)
	}
	if of.Type.Kinds() == schema.Number {
		return ofKind(schema.Number)
	}
	return Typed{}
}

func (c *checker) binary(n *ast.BinaryNode) Typed {
	isCompared := n.Operator == "==" || n.Operator == "!="
	withNil := isCompared && (isNilNode(n.Left) || isNilNode(n.Right))
	hadFalse := c.hasFalse
	a := c.checkExcused(n.Left, withNil || n.Operator == "??")
	b := c.checkExcused(n.Right, withNil)
	if isCompared { // x == false switches nothing off
		c.hasFalse = hadFalse
	}
	switch n.Operator {
	case "and", "&&", "or", "||":
		c.condition(n.Left, a)
		c.condition(n.Right, b)
	case "??":
		return c.union(n.Left, n.Right)
	case "==", "!=", "<", "<=", ">", ">=":
		c.compared(n, a, b)
	case "in":
		c.within(n, a, b)
	case "contains", "startsWith", "endsWith", "matches":
		c.needsText(n, n.Left, a)
		c.needsText(n, n.Right, b)
	case "+":
		return c.sum(n, a, b)
	case "-", "*", "/", "%", "**", "^":
		c.calculates(n, n.Left, n.Right, a)
		c.calculates(n, n.Right, n.Left, b)
		if a.Type.Kinds() == schema.Number && b.Type.Kinds() == schema.Number {
			return ofKind(schema.Number)
		}
		return Typed{}
	case "..":
		return Typed{Type: schema.ListOf(schema.Of(schema.Number))}
	default:
		return Typed{}
	}
	return ofKind(schema.Bool)
}

// checkExcused is check. If isExcused is set, the text reckons with a nil there.
func (c *checker) checkExcused(node ast.Node, isExcused bool) Typed {
	if isExcused {
		c.excused++
		defer func() { c.excused-- }()
	}
	return c.check(node)
}

// compared reports a comparison of two values that can never be equal, or never be ordered.
func (c *checker) compared(n *ast.BinaryNode, a, b Typed) {
	if isNilNode(n.Left) || isNilNode(n.Right) {
		return
	}
	at, from := n.Right, n.Left
	switch { // the message is about a, and stands at the other side
	case isConstant(n.Left) && !isConstant(n.Right):
		a, b, at, from = b, a, n.Left, n.Right
	case a.of == "" && b.of != "":
		a, b = b, a
	case a.of == "" && !isConstant(n.Right):
		at = n.Left
	}
	means := "equals"
	if n.Operator != "==" && n.Operator != "!=" {
		means = "compares with"
	}
	if a.Lacks(b.Type.Kinds()) && b.IsKnown() {
		c.errorf(at, "%s is %s, which never %s %s%s", a, a.Kind(), means, other(b),
			hintForKind(at, from, a))
		return
	}
	if means == "equals" {
		c.amongEnum(at, a, b)
	}
}

// other describes the other side of a comparison.
func other(t Typed) string {
	if t.of == "" {
		return t.Kind()
	}
	return fmt.Sprintf("%s, %s", t, t.Kind())
}

// hintForKind returns what follows the message about a constant of the wrong kind. from is what the
// text compares it with, of which a is known.
func hintForKind(at, from ast.Node, a Typed) string {
	switch n := at.(type) {
	case *ast.StringNode:
		if _, err := strconv.ParseFloat(n.Value, 64); err == nil && !a.Lacks(schema.Number) ||
			(n.Value == "true" || n.Value == "false") && !a.Lacks(schema.Bool) {
			return ": leave the quotes out"
		}
		if !a.Lacks(schema.List) {
			return fmt.Sprintf(": write %q in %s", n.Value, clip(from.String()))
		}
	case *ast.BoolNode:
		if !a.Lacks(schema.String) {
			text := strconv.FormatBool(n.Value)
			if a.isConditionStatus() {
				text = strings.ToUpper(text[:1]) + text[1:]
			}
			return fmt.Sprintf(": write %q", text)
		}
	case *ast.IntegerNode:
		if !a.Lacks(schema.String) {
			return fmt.Sprintf(": write \"%d\"", n.Value)
		}
		if !a.Lacks(schema.List | schema.Map) {
			return fmt.Sprintf(": write len(%s)", clip(from.String()))
		}
	}
	return ""
}

// isConstant reports whether a node is a constant itself.
func isConstant(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return true
	}
	return false
}

// amongEnum reports a constant that is none of the strings that a value can be. Servers write the
// empty string for a field that nobody has set.
func (c *checker) amongEnum(at ast.Node, a, b Typed) {
	constant, ok := at.(*ast.StringNode)
	enum := a.Type.Enum()
	if !ok || constant.Value == "" || a.of == "" || enum == nil ||
		slices.Contains(enum, constant.Value) {
		return
	}
	c.errorf(at, "%s", notInEnum(a, constant.Value, enum))
}

func notInEnum(a Typed, text string, enum []string) string {
	enum = slices.DeleteFunc(slices.Clone(enum), func(s string) bool { return s == "" })
	return fmt.Sprintf("%s is never %q: it is %s%s", a, clip(text), oneOfList(enum),
		suggest(text, enum))
}

// oneOfList joins names with commas and or. Of many it names the first.
func oneOfList(names []string) string {
	const few = 8
	if more := len(names) - few; more > 1 {
		return fmt.Sprintf("%s or one of %d more", strings.Join(names[:few], ", "), more)
	}
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// within checks a in b.
func (c *checker) within(n *ast.BinaryNode, a, b Typed) {
	if b.Lacks(schema.List | schema.Map) {
		hint := "; in needs a list or a map"
		if text, ok := n.Left.(*ast.StringNode); ok && b.IsOnly(schema.String) {
			hint = fmt.Sprintf(": write %s contains %q", clip(n.Right.String()), clip(text.Value))
		}
		c.errorf(n.Right, "%s is %s, which has nothing in it%s", b, b.Kind(), hint)
		return
	}
	if list, ok := unchained(n.Right).(*ast.ArrayNode); ok {
		for _, node := range list.Nodes {
			if isNilNode(node) {
				c.nilWithin(n, node)
			} else if one := c.check(node); a.Lacks(one.Type.Kinds()) && one.IsKnown() {
				c.errorf(node, "%s is %s, which never equals %s%s", a, a.Kind(), other(one),
					hintForKind(node, n.Left, a))
			} else {
				c.amongEnum(node, a, one)
			}
		}
		return
	}
	key, isText := n.Left.(*ast.StringNode)
	switch b.Type.Kinds() {
	case schema.Map:
		if !isText {
			return
		}
		if _, fault := b.Field(key.Value); fault != "" {
			c.errorf(n.Left, "%s", fault)
		}
	case schema.List:
		element := b.Element()
		if element.Lacks(a.Type.Kinds()) && a.IsKnown() {
			c.errorf(n.Left, "an element of %s is %s, which never equals %s", b, element.Kind(), other(a))
		} else if isText {
			c.amongEnum(n.Left, element, a)
		}
	}
}

// nilWithin reports a nil that stands in the list of a in [nil]. in finds nil in no list, so that an
// absent field is none of those that somebody has listed.
func (c *checker) nilWithin(n *ast.BinaryNode, at ast.Node) {
	left := clip(n.Left.String())
	if c.negated == n {
		c.errorf(at, "in never finds nil in a list, so not in holds for it: "+
			"write %s != nil and %[1]s not in […]", left)
		return
	}
	c.errorf(at, "in never finds nil in a list: "+
		"write %s == nil or %[1]s in […]", left)
}

// needsText reports an operand of an operator of strings that is none.
func (c *checker) needsText(n *ast.BinaryNode, at ast.Node, t Typed) {
	if !t.Lacks(schema.String) {
		return
	}
	hint := ""
	if key, ok := n.Right.(*ast.StringNode); ok && !t.Lacks(schema.List|schema.Map) {
		hint = fmt.Sprintf(": write %q in %s", key.Value, clip(n.Left.String()))
	}
	c.errorf(at, "%s is %s, and %s needs a string%s", t, t.Kind(), n.Operator, hint)
}

// sum checks a + b.
func (c *checker) sum(n *ast.BinaryNode, a, b Typed) Typed {
	x, y := a.Type.Kinds(), b.Type.Kinds()
	switch {
	case isUnit(n.Right) && a.of != "":
		c.calculates(n, n.Left, n.Right, a)
		return Typed{}
	case isUnit(n.Left) && b.of != "":
		c.calculates(n, n.Right, n.Left, b)
		return Typed{}
	case x == 0 || y == 0:
		return Typed{}
	case x == y && (x == schema.String || x == schema.Number):
		return ofKind(x)
	case x&y != 0:
		return Typed{}
	}
	at, wrong := n.Right, b
	if y == schema.String {
		at, wrong = n.Left, a
	}
	if x != schema.String && y != schema.String {
		return Typed{}
	}
	how := "string"
	if !wrong.Lacks(schema.List | schema.Map) {
		how = "toJSON"
	}
	c.errorf(at, "%s is %s, which + does not join to a string: write %s(…)", wrong, wrong.Kind(), how)
	return ofKind(schema.String)
}

// calculates reports an operand of arithmetic that is a string.
func (c *checker) calculates(n *ast.BinaryNode, at, other ast.Node, t Typed) {
	if t.Type.Kinds() != schema.String || c.isUnknown(other) { // Compile reports an unknown name
		return
	}
	if field := c.brokenName(n); field != "" {
		c.errorf(at, "%s is a string, and - takes numbers; a field with - in its name needs "+
			"brackets: %s", t, field)
		return
	}
	how := "int"
	switch {
	case isUnit(other), isNamedLikeTime(t):
		how = "time"
	case isNamedLikeQuantity(t):
		how = "quantity"
	}
	argument := "…"
	if path := unchained(at); isPath(path) {
		argument = clip(path.String())
	}
	c.errorf(at, "%s is a string, and %s takes numbers, times, durations or quantities: "+
		"write %s(%s)", t, n.Operator, how, argument)
}

// isUnknown reports whether a node is a name that stands for nothing.
func (c *checker) isUnknown(n ast.Node) bool {
	name, ok := n.(*ast.IdentifierNode)
	if !ok || slices.Contains([]string{"object", "old", "event", "item"}, name.Value) {
		return false
	}
	_, isGiven := c.as.Given[name.Value]
	return !isGiven &&
		!slices.ContainsFunc(c.variables, func(v typedName) bool { return v.name == name.Value })
}

// brokenName returns how to write a.b-1 if b-1 is probably the name of one field, or "".
func (c *checker) brokenName(n *ast.BinaryNode) string {
	field, isField := unchained(n.Left).(*ast.MemberNode)
	number, isNumber := n.Right.(*ast.IntegerNode)
	if n.Operator != "-" || !isField || !isNumber {
		return ""
	}
	if !slices.Contains(namesAreFree, property(field.Node)) {
		return ""
	}
	return withDash(field, number)
}

// namesAreFree are maps of strings whose keys authors choose.
var namesAreFree = []string{"labels", "annotations", "data", "matchLabels", "nodeSelector"}

// isUnit reports whether a node certainly gives a time or a duration.
func isUnit(n ast.Node) bool {
	name := ""
	switch call := unchained(n).(type) {
	case *ast.BuiltinNode:
		name = call.Name
	case *ast.CallNode:
		if callee, ok := call.Callee.(*ast.IdentifierNode); ok {
			name = callee.Value
		}
	}
	return slices.Contains([]string{"now", "moment", "time", "duration", "notAfter"}, name)
}

func isNamedLikeTime(t Typed) bool {
	if len(t.path) == 0 {
		return false
	}
	name := t.path[len(t.path)-1]
	return slices.ContainsFunc([]string{"Time", "Timestamp", "At", "After", "Before"},
		func(end string) bool { return strings.HasSuffix(name, end) })
}

func isNamedLikeQuantity(t Typed) bool {
	return slices.ContainsFunc(t.path, func(name string) bool {
		return slices.Contains([]string{"requests", "limits", "capacity", "allocatable"}, name)
	})
}
