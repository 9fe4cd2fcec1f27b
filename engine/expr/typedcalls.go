package expr

import (
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/schema"
)

func (c *checker) call(n *ast.CallNode) Typed {
	switch callee := n.Callee.(type) {
	case *ast.IdentifierNode:
		return c.function(callee.Value, n.Arguments)
	case *ast.MemberNode: // a method
		c.check(callee.Node)
		for _, argument := range n.Arguments {
			c.check(argument)
		}
	}
	return Typed{}
}

// givesKind has what functions give that make a new value of one kind.
var givesKind = map[string]schema.Kind{
	"len": schema.Number, "int": schema.Number, "float": schema.Number, "indexOf": schema.Number,
	"lastIndexOf": schema.Number,
	"string":      schema.String, "upper": schema.String, "lower": schema.String, "trim": schema.String,
	"trimPrefix": schema.String, "trimSuffix": schema.String, "replace": schema.String,
	"repeat": schema.String, "join": schema.String, "toBase64": schema.String,
	"fromBase64": schema.String, "toJSON": schema.String, "type": schema.String,
	"hasPrefix": schema.Bool, "hasSuffix": schema.Bool,
}

// function returns what a call gives. get gives anything: it is how an author asks for a field that
// no schema has.
func (c *checker) function(name string, arguments []ast.Node) Typed {
	if isPredicate(name) && len(arguments) > 0 {
		return c.predicate(name, arguments)
	}
	args := make([]Typed, len(arguments))
	for i, argument := range arguments {
		args[i] = c.check(argument)
	}
	if kind, ok := givesKind[name]; ok {
		return ofKind(kind)
	}
	if len(args) == 0 {
		return Typed{}
	}
	isList := args[0].Type.Kinds() == schema.List
	switch name {
	case "byIndex":
		return listOf(c.as.Object)
	case "lookup":
		if text, ok := arguments[0].(*ast.StringNode); ok {
			source, _, _ := strings.Cut(text.Value, ".")
			return listOf(c.as.Sources[source])
		}
	case "first", "last":
		if isList {
			return args[0].Element()
		}
	case "take", "reverse", "sort", "uniq":
		if isList {
			return args[0]
		}
	case "concat":
		return c.concat(arguments, args)
	case "keys", "split", "splitAfter":
		return Typed{Type: schema.ListOf(schema.Of(schema.String))}
	case "values":
		if args[0].Type.Kinds() == schema.Map {
			return Typed{Type: schema.ListOf(args[0].Type.Value())}
		}
	}
	return Typed{}
}

func (c *checker) concat(arguments []ast.Node, args []Typed) Typed {
	var out Typed
	isFirst := true
	for i, arg := range args {
		switch {
		case isNilNode(arguments[i]):
			continue
		case arg.Type.Kinds() != schema.List:
			return Typed{}
		case isFirst:
			out, isFirst = arg.Element(), false
		default:
			out = oneOfTwo(out, arg.Element())
		}
	}
	return listOf(out)
}

// predicate returns what a function gives that evaluates an expression for each element of a list.
func (c *checker) predicate(name string, arguments []ast.Node) Typed {
	list := c.check(arguments[0])
	if list.Lacks(schema.List) {
		c.errorf(arguments[0], "%s is %s, and %s needs a list", list, list.Kind(), name)
		list = Typed{}
	}
	element := list.Element()
	body := element
	if len(arguments) > 1 {
		node := arguments[1]
		if p, ok := node.(*ast.PredicateNode); ok {
			node = p.Node
		}
		c.elements = append(c.elements, element)
		body = c.check(node)
		switch name {
		case "any", "all", "none", "one", "count", "filter", "find", "findLast", "findIndex",
			"findLastIndex":
			c.condition(node, body)
		}
		c.elements = c.elements[:len(c.elements)-1]
	}
	if len(arguments) > 2 {
		c.check(arguments[2])
	}
	switch name {
	case "any", "all", "none", "one":
		return ofKind(schema.Bool)
	case "count", "findIndex", "findLastIndex":
		return ofKind(schema.Number)
	case "find", "findLast":
		return element
	case "filter", "sortBy":
		return listOf(element)
	case "map":
		return listOf(body)
	case "groupBy":
		return Typed{Type: schema.MapOf(schema.ListOf(element.Type))}
	}
	return Typed{}
}
