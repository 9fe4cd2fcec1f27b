package layout

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write "+picture+" and "+typesTable)

// picture is the page with the packages and their imports.
const picture = "docs/packages.md"

// The page shows the packages as they are: it is drawn from the code.
func TestPictureIsUpToDate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(root, picture)
	want := draw(shown(packages(t)))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date: run `go test ./integration/layout -update` and commit it", picture)
	}
}

// drawn is a package of the picture.
type drawn struct {
	name    string
	about   string   // the first sentence of its comment
	imports []string // names of other packages of the picture
	floor   int      // 0 imports nothing of the picture; others stand one above the highest that they import
}

// shown are the packages of the picture, by name: all but tests and examples.
func shown(list []goPackage) map[string]*drawn {
	all := make(map[string]*drawn)
	for _, p := range list {
		name, ours := strings.CutPrefix(p.ImportPath, module)
		if ours && !strings.HasPrefix(name, "integration") && !strings.HasPrefix(name, "examples") {
			all[name] = &drawn{name: name, about: sentence(p)}
		}
	}
	for _, p := range list {
		d := all[strings.TrimPrefix(p.ImportPath, module)]
		if d == nil {
			continue
		}
		for _, path := range p.Imports {
			if name := strings.TrimPrefix(path, module); all[name] != nil {
				d.imports = append(d.imports, name)
			}
		}
	}
	var floor func(name string) int
	floor = func(name string) int {
		d := all[name]
		for _, below := range d.imports {
			d.floor = max(d.floor, floor(below)+1)
		}
		return d.floor
	}
	for name := range all {
		floor(name)
	}
	return all
}

// sentence is the first one of a package's comment, without the words that all of them begin with.
func sentence(p goPackage) string {
	text := strings.Join(strings.Fields(p.Doc), " ")
	text = strings.TrimSuffix(text, ".")
	for _, begin := range []string{"Package " + p.Name, "Command " + p.Name} {
		text = strings.TrimSpace(strings.TrimPrefix(text, begin))
	}
	return strings.ReplaceAll(text, "|", "\\|")
}

// reduced are the imports of a package without those that another of its imports has, directly or
// not.
func reduced(all map[string]*drawn, name string) (direct []string) {
	var reaches func(from, to string) bool
	reaches = func(from, to string) bool {
		return slices.ContainsFunc(all[from].imports, func(next string) bool { return next == to || reaches(next, to) })
	}
	for _, below := range all[name].imports {
		through := func(other string) bool { return other != below && reaches(other, below) }
		if !slices.ContainsFunc(all[name].imports, through) {
			direct = append(direct, below)
		}
	}
	return direct
}

// draw writes the page.
func draw(all map[string]*drawn) string {
	names := slices.Sorted(maps.Keys(all))
	var b strings.Builder
	b.WriteString(`# Packages

<!-- written by go test ./integration/layout -update -->

After this page you know which package imports which, and what each is for. A test draws it from the
code, and another one keeps every arrow pointing down.

An arrow means "imports". The picture leaves out an arrow if a longer way shows the same.

` + "```mermaid\nflowchart TB\n")
	areas := make(map[string][]string)
	for _, name := range names {
		area, _, _ := strings.Cut(name, "/")
		areas[area] = append(areas[area], name)
	}
	id := func(name string) string { return strings.NewReplacer("/", "_", "-", "_").Replace(name) }
	for _, area := range slices.Sorted(maps.Keys(areas)) {
		fmt.Fprintf(&b, "  subgraph area_%s[\"%s/\"]\n", id(area), area)
		for _, name := range areas[area] {
			label := strings.TrimPrefix(name, area+"/")
			fmt.Fprintf(&b, "    %s[\"%s\"]\n", id(name), label)
		}
		b.WriteString("  end\n")
	}
	for _, name := range names {
		if direct := reduced(all, name); len(direct) > 0 {
			for i := range direct {
				direct[i] = id(direct[i])
			}
			fmt.Fprintf(&b, "  %s --> %s\n", id(name), strings.Join(direct, " & "))
		}
	}
	b.WriteString("```\n\n## From top to bottom\n\n" +
		"A package stands one floor above the highest package that it imports. Floor 0 imports none of the others.\n\n" +
		"| floor | package | what it does | imports |\n| --- | --- | --- | --- |\n")
	slices.SortStableFunc(names, func(a, b string) int { return -cmp.Compare(all[a].floor, all[b].floor) })
	for _, name := range names {
		d := all[name]
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", d.floor, name, d.about, strings.Join(d.imports, ", "))
	}
	return b.String()
}
