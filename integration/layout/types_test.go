package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// typesTable has the size of each large type. A type in it grows only if somebody raises its line by
// hand, and can say why.
const typesTable = "testdata/types.txt"

// size is how large a type is.
type size struct {
	fields, methods int
	files           int // in which its methods stand
}

// These sizes are allowed without a line in the table, and no type that is new to the table is larger
// than most.
var (
	small = size{fields: 12, methods: 15, files: 4}
	most  = size{fields: 20, methods: 30, files: 8}
)

// isWithin reports whether s is larger than of in nothing.
func (s size) isWithin(of size) bool {
	return s.fields <= of.fields && s.methods <= of.methods && s.files <= of.files
}

func (s size) String() string { return fmt.Sprintf("%d %d %d", s.fields, s.methods, s.files) }

// A type that has become smaller has a smaller line from then on: run the test with -update.
func TestTypesDoNotGrow(t *testing.T) {
	t.Parallel()
	table := readTypes(t)
	now := make(map[string]size)
	for _, p := range packages(t) {
		maps.Copy(now, largeTypes(t, p))
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		is := now[name]
		was, isKnown := table[name]
		switch {
		case !isKnown && len(table) > 0 && !is.isWithin(most):
			t.Errorf("%s is too large: fields, methods and files of methods are %v, and %v at most: split it",
				name, is, most)
		case isKnown && !is.isWithin(was):
			t.Errorf("%s has grown: fields, methods and files of methods are %v, and were %v: split it, "+
				"or raise its line in %s", name, is, was, typesTable)
		case is != was && !*update:
			t.Errorf("%s has another size in %s: run `go test ./integration/layout -update` and commit it",
				name, typesTable)
		}
		lines = append(lines, name+" "+is.String())
	}
	for name := range table {
		if _, isLarge := now[name]; !isLarge && !*update {
			t.Errorf("%s is not large any more: run `go test ./integration/layout -update` and commit it", name)
		}
	}
	if *update && !t.Failed() {
		text := "# TYPE FIELDS METHODS FILES-OF-METHODS\n" + strings.Join(lines, "\n") + "\n"
		if err := os.WriteFile(typesTable, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readTypes(t *testing.T) map[string]size {
	t.Helper()
	text, err := os.ReadFile(typesTable)
	if err != nil {
		t.Fatal(err)
	}
	table := make(map[string]size)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var name string
		var s size
		if _, err := fmt.Sscan(line, &name, &s.fields, &s.methods, &s.files); err != nil {
			t.Fatalf("%s: %q: %v", typesTable, line, err)
		}
		table[name] = s
	}
	return table
}

// largeTypes returns the types of a package that are larger than small, by PACKAGE.TYPE.
func largeTypes(t *testing.T, p goPackage) map[string]size {
	t.Helper()
	name, ours := strings.CutPrefix(p.ImportPath, module)
	if !ours || strings.HasPrefix(name, "integration") {
		return nil
	}
	all := make(map[string]*size)
	files := make(map[string]map[string]bool)
	of := func(typ string) *size {
		if all[typ] == nil {
			all[typ], files[typ] = new(size), make(map[string]bool)
		}
		return all[typ]
	}
	for _, file := range p.GoFiles {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(parsed) {
			continue
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						if s, ok := spec.Type.(*ast.StructType); ok {
							of(spec.Name.Name).fields = s.Fields.NumFields()
						}
					}
				}
			case *ast.FuncDecl:
				if typ := receiver(d); typ != "" {
					of(typ).methods++
					files[typ][file] = true
				}
			}
		}
	}
	large := make(map[string]size)
	for typ, s := range all {
		if s.files = len(files[typ]); !s.isWithin(small) {
			large[name+"."+typ] = *s
		}
	}
	return large
}

// receiver returns the name of the type that a method belongs to; "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}
