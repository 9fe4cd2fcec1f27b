package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/expr/value"
)

type variable struct {
	name  string
	slot  int
	value operand
}

// pointer says what # means inside a predicate.
type pointer struct {
	element, index, acc int   // slots; acc is -1 outside reduce
	shape               shape // of the element
	indexed             bool  // the body mentions #index
}

func (c *compiler) identifier(n *ast.IdentifierNode) (operand, error) {
	for _, v := range slices.Backward(c.variables) {
		if v.name == n.Value {
			o := c.load(v.slot, v.value.shape)
			if v.value.search != nil {
				o = searching(shape{}, func(r *run) (*finding, error) {
					f, _ := r.slots[v.slot].(*finding)
					return f, nil
				})
				o.shape = v.value.shape
			}
			o.field, o.requires = v.value.field, v.value.requires
			return o, nil
		}
	}
	switch n.Value {
	case "object":
		c.reads.object = true
		read := func(r *run) (any, error) { return r.env.Object, nil }
		return operand{eval: read, shape: objectsOf(own), field: []string{}}, nil
	case "old":
		if c.knowsEvent() && c.options.event != "updated" {
			return constant(nil), nil
		}
		c.reads.old = true
		read := func(r *run) (any, error) { return r.env.Old, nil }
		return operand{eval: read, shape: objectsOf(own)}, c.onlyOfChanges(n, "old")
	case "event":
		if c.knowsEvent() {
			return constant(c.options.event), nil
		}
		c.reads.event = true
		read := func(r *run) (any, error) { return r.env.Event, nil }
		return operand{eval: read}, c.onlyOfChanges(n, "event")
	case "item":
		if c.options.Item == nil {
			return operand{}, c.errorf(n, "item is an element of forEach, "+
				"and means nothing outside of an action that has one")
		}
		c.reads.item = true
		read := func(r *run) (any, error) { return r.env.Item, nil }
		return operand{eval: read, shape: c.options.Item.elements.shape}, nil
	}
	if _, ok := c.options.Given[n.Value]; ok {
		name := n.Value
		return operand{eval: func(r *run) (any, error) { return r.env.Given[name], nil }}, nil
	}
	offset := value.RuneOffset(c.text, n.Location().From)
	if hint := hintForField(c.text, offset, n.Value); hint != "" {
		return c.unknownName(n, "unknown name %q%s", clip(n.Value), hint)
	}
	if isFunction(n.Value) {
		return c.unknownName(n, "%s is a function; call it as %s(…)", n.Value, n.Value)
	}
	if slices.Contains(topLevel, n.Value) {
		return c.unknownName(n, "unknown name %q; did you mean object.%s?", n.Value, n.Value)
	}
	hint := suggest(n.Value, c.names())
	if other, ok := otherNames[n.Value]; ok {
		hint = "; " + other
	}
	if hint == "" {
		hint = hintForName(c.text, offset, n.Value)
	}
	if hint == "" && c.options.Scope == Index && strings.TrimSpace(c.text) == n.Value {
		hint = fmt.Sprintf(`; for the text itself write '%q'`, n.Value)
	}
	if hint == "" && c.options.Item != nil {
		hint = "; the element of forEach is item"
	}
	return c.unknownName(n, "unknown name %q%s", clip(n.Value), hint)
}

// topLevel are fields of nearly every object, which authors often write without object.
var topLevel = []string{"metadata", "spec", "status", "data", "kind"}

// checkGiven returns an error if a given name at the beginning of a path has no such member.
func (c *compiler) checkGiven(base ast.Node, member string) error {
	name, ok := base.(*ast.IdentifierNode)
	if !ok {
		return nil
	}
	members := c.options.Given[name.Value]
	if members == nil || slices.Contains(members, member) {
		return nil
	}
	return c.errorf(base, "there is no %s.%s%s",
		name.Value, clip(member), suggestOrList(member, members))
}

// suggestOrList suggests one of some names instead of name. Without a similar one it lists them.
func suggestOrList(name string, names []string) string {
	if hint := suggest(name, slices.Clone(names)); hint != "" {
		return hint
	}
	switch len(names) {
	case 0:
		return "; there is none"
	case 1:
		return "; there is " + names[0]
	}
	return "; there are " + listed(names)
}

// notSent returns an error if the expression is a handler's, which sees an event and no cache, or if
// it has no cache for another reason.
func (c *compiler) notSent(at ast.Node, name string) error {
	if c.options.NoCache {
		return c.errorf(at, "%s looks into the caches of a rule's sources, which are not there without "+
			"a rule: informd explain evaluates it as the rule does, informd get finds objects", name)
	}
	if c.options.Scope != Sent {
		return nil
	}
	return c.errorf(at, "%s looks into informd's cache, which a handler's template cannot do; "+
		"use it in the rule's payload or attach", name)
}

// onlyOfChanges returns nil if the expression may use name. It returns an error if the expression
// must depend on the object alone.
func (c *compiler) onlyOfChanges(at ast.Node, name string) error {
	switch c.options.Scope {
	case Where:
		in := "when"
		if name == "now()" {
			in = "when, or for and due, which are about time"
		}
		return c.errorf(at, "where cannot use %s: it must come out the same whenever it is "+
			"asked, so it reads object alone; use %s in %s", name, name, in)
	case Due:
		return c.errorf(at, "due cannot use %s: it reads object alone, and gives the time from "+
			`which it is a member, such as time(object.spec.renewTime) + duration("2m")`, name)
	case By:
		return c.errorf(at, "by cannot use %s: it reads object alone", name)
	case At:
		return c.errorf(at, "at cannot use %s: it reads object alone, and gives the time at which "+
			`the change happened, such as time(object.metadata.creationTimestamp)`, name)
	case Gauge:
		if name == "now()" {
			return c.errorf(at, "a gauge cannot use now(): informd evaluates it when the object "+
				"changes, and not as time passes; give the time itself as the value, such as "+
				"time(object.metadata.creationTimestamp), and have PromQL compute the age: time() - NAME")
		}
		return c.errorf(at, "a gauge cannot use %s: it is kept per object, "+
			"so it reads object alone", name)
	case Counter:
		if name == "byIndex()" || name == "lookup()" {
			return c.errorf(at, "a counter cannot use %s: it reads the change alone; "+
				"use it in when", name)
		}
	case Index:
		return c.errorf(at, "an index cannot use %s: it is kept per object, "+
			"so it reads object alone", name)
	}
	return nil
}

// names returns all that an identifier can be.
func (c *compiler) names() []string {
	names := []string{"object", "true", "false", "nil"}
	switch c.options.Scope {
	case Where, Index, Due, By, At, Gauge:
	default:
		names = append(names, "old", "event")
	}
	if c.options.Item != nil {
		names = append(names, "item")
	}
	names = slices.AppendSeq(names, maps.Keys(c.options.Given))
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
	return operand{}, c.errorf(n, "unknown pointer #%s%s",
		clip(n.Name), suggest(n.Name, []string{"index", "acc"}))
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
	c.variables = append(c.variables, variable{n.Name, slot, value})
	body, err := c.compile(n.Expr)
	c.variables = c.variables[:len(c.variables)-1]
	c.slots--
	if err != nil {
		return operand{}, err
	}
	return operand{shape: body.shape, requires: body.requires, eval: func(r *run) (any, error) {
		if value.search != nil {
			f, err := value.search(r)
			if err != nil {
				return nil, err
			}
			r.slots[slot] = f // what the search finds is collected once somebody needs it
			return body.eval(r)
		}
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
	case "item":
		return c.options.Item != nil
	}
	if _, ok := c.options.Given[name]; ok {
		return true
	}
	return slices.ContainsFunc(c.variables, func(v variable) bool { return v.name == name })
}
