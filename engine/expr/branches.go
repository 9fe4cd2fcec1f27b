package expr

import (
	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/expr/value"
)

// Branch is a condition in a text that decides how its evaluation goes on: the text itself if it is
// a where or a when, an operand of and or of or, or the condition of a ?: or an if.
type Branch struct {
	Offset int    // where it begins, in bytes from the start of the text
	Text   string // the condition, as the parser writes it
}

// watched returns the evaluation of a condition that reports its outcome to Options.Branch.
func (c *compiler) watched(at ast.Node, o operand) eval {
	if c.options.Branch == nil || o.constant || isLogic(at) {
		return o.eval
	}
	from := value.RuneOffset(c.text, beginning(at).Location().From)
	reached := c.options.Branch(Branch{from, at.String()})
	return func(r *run) (any, error) {
		v, err := o.eval(r)
		if err != nil {
			return nil, err
		}
		if ok, err := value.Truth(v); err == nil {
			reached(ok)
		}
		return v, nil
	}
}

// isLogic reports whether a node is an and or an or, whose operands are watched by themselves.
func isLogic(at ast.Node) bool {
	n, ok := at.(*ast.BinaryNode)
	return ok && (n.Operator == "and" || n.Operator == "&&" || n.Operator == "or" ||
		n.Operator == "||")
}

// beginning returns the leftmost node of a condition: the position of an operator is its own.
func beginning(at ast.Node) ast.Node {
	for {
		switch n := at.(type) {
		case *ast.BinaryNode:
			at = n.Left
		case *ast.ConditionalNode:
			at = n.Cond
		case *ast.MemberNode:
			at = n.Node
		case *ast.ChainNode:
			at = n.Node
		case *ast.SliceNode:
			at = n.Node
		case *ast.UnaryNode: // a not in b is not (a in b)
			inner := beginning(n.Node)
			if inner.Location().From < n.Location().From {
				return inner
			}
			return n
		default:
			return at
		}
	}
}
