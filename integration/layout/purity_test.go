package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// checkPureFile looks for goroutines, for the clock and for chance: of math/rand/v2 it allows
// generators that are made with a seed.
func checkPureFile(t *testing.T, pkg, name string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filepath.Join("../..", pkg, name), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	clock := map[string]bool{"Now": true, "Since": true, "Until": true, "After": true, "AfterFunc": true, "NewTimer": true,
		"NewTicker": true, "Tick": true, "Sleep": true}
	seeded := map[string]bool{"New": true, "NewPCG": true, "Rand": true}
	timeIs := "time" // under which name the file has it
	for _, i := range file.Imports {
		if i.Path.Value == `"time"` && i.Name != nil {
			timeIs = i.Name.Name
		}
	}
	if timeIs == "." {
		t.Errorf("%s/%s: import time under its name, for this test to see what is used of it", pkg, name)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			t.Errorf("%s: a pure package starts no goroutine", fset.Position(n.Pos()))
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if ok && x.Name == timeIs && clock[n.Sel.Name] {
				t.Errorf("%s: a pure package knows no clock: take the time as an argument", fset.Position(n.Pos()))
			}
			if ok && x.Name == "rand" && !seeded[n.Sel.Name] {
				t.Errorf("%s: a pure package leaves nothing to chance: make a generator with a seed", fset.Position(n.Pos()))
			}
		}
		return true
	})
}
