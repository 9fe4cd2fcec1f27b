package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// manyFields is how many fields a struct may have without saying why.
const manyFields = 12

// A struct with more fields than that says why: its comment has a sentence with the word "fields".
func TestLargeStructsSayWhy(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "node_modules" || strings.HasPrefix(name, ".git")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			for _, s := range largeStructs(file) {
				t.Errorf("%s: %s has %d fields; a sentence of its comment has to say why it needs so many fields",
					fset.Position(s.at), s.name, s.fields)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// largeStruct is a struct type that does not say why it is large.
type largeStruct struct {
	name   string
	fields int
	at     token.Pos
}

func largeStructs(file *ast.File) (large []largeStruct) {
	for _, decl := range file.Decls {
		decl, ok := decl.(*ast.GenDecl)
		if !ok || decl.Tok != token.TYPE {
			continue
		}
		for _, spec := range decl.Specs {
			spec := spec.(*ast.TypeSpec)
			comment := decl.Doc.Text() + spec.Doc.Text()
			for _, group := range file.Comments {
				if spec.Pos() <= group.Pos() && group.End() <= spec.End() {
					comment += group.Text()
				}
			}
			if strings.Contains(comment, "fields") {
				continue
			}
			ast.Inspect(spec, func(n ast.Node) bool {
				if n, ok := n.(*ast.StructType); ok && n.Fields.NumFields() > manyFields {
					large = append(large, largeStruct{spec.Name.Name, n.Fields.NumFields(), n.Pos()})
				}
				return true
			})
		}
	}
	return large
}
