package expr

import "github.com/expr-lang/expr/ast"

// Conjuncts returns the conditions that and joins in a text, which is true only if each of them is. A
// text without and is its only one. Of a text that does not parse, it returns none.
func Conjuncts(text string) (all []string) {
	root, err := parse(text)
	if err != nil {
		return nil
	}
	var add func(ast.Node)
	add = func(at ast.Node) {
		if n, ok := at.(*ast.BinaryNode); ok && (n.Operator == "and" || n.Operator == "&&") {
			add(n.Left)
			add(n.Right)
			return
		}
		all = append(all, at.String())
	}
	add(root)
	return all
}
