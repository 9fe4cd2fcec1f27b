package schemas

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	k8s "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/schema"
)

// downloads is the variable that makes TestCorpus download modules.
const downloads = "INFORMD_CORPUS"

// Objects that a server takes are never called wrong: neither their fields in expressions, nor the
// objects as templates. The objects are the samples of CustomResourceDefinitions in testdata/corpus.
// With INFORMD_CORPUS=1 they also are those of the modules in testdata/corpus.txt, which the go
// command downloads.
func TestCorpus(t *testing.T) {
	modules := []module{{folder: filepath.Join("testdata", "corpus")}}
	if os.Getenv(downloads) != "" {
		modules = append(modules, download(t)...)
	}
	total := new(corpus)
	for _, m := range modules {
		c := readCorpus(t, m.folder)
		for _, s := range c.samples {
			c.check(s)
		}
		for path, faults := range c.faults {
			if !slices.Contains(m.wrong, path) {
				t.Errorf("%s: %s", filepath.Join(m.folder, path), strings.Join(faults, "\n\t"))
			}
		}
		for _, path := range m.wrong {
			if len(c.faults[path]) == 0 {
				t.Errorf("%s has a mistake that was not found", filepath.Join(m.folder, path))
			}
		}
		total.add(c)
	}
	t.Logf("%d definitions, %d of them with samples, %d samples, %d fields, %d samples are wrong",
		len(total.defined), len(total.sampled), len(total.samples), total.fields, total.wrong)
	if len(total.samples) < 4 || total.fields < 40 {
		t.Error("the corpus is smaller than it was")
	}
}

// corpus is what a folder holds.
type corpus struct {
	catalog *schema.Catalog
	defined []string // GROUP/KIND
	sampled []string // those that have samples
	plurals map[string]string
	samples []sample
	fields  int                 // how many fields of samples were looked at
	faults  map[string][]string // what is wrong, by the samples' paths in the folder
	wrong   int                 // how many samples have faults
}

func (c *corpus) add(other *corpus) {
	c.defined = append(c.defined, other.defined...)
	c.sampled = append(c.sampled, other.sampled...)
	c.samples = append(c.samples, other.samples...)
	c.fields += other.fields
	c.wrong += len(other.faults)
}

type sample struct {
	path   string
	object map[string]any
}

// readCorpus reads the definitions of a folder and the objects that they define.
func readCorpus(t *testing.T, folder string) *corpus {
	t.Helper()
	like, _ := BuiltIn()
	c := &corpus{
		catalog: schema.NewCatalog(like), plurals: make(map[string]string),
		faults: make(map[string][]string),
	}
	var others []sample
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if ext := filepath.Ext(path); ext != ".yaml" && ext != ".yml" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, document := range documents(text) {
			asJSON, err := yaml.YAMLToJSON(document)
			var tree map[string]any
			if err != nil || json.Unmarshal(asJSON, &tree) != nil {
				continue // a template, or something else
			}
			apiVersion, _ := tree["apiVersion"].(string)
			kind, _ := tree["kind"].(string)
			if !schema.IsDefinition(apiVersion, kind) {
				inFolder, err := filepath.Rel(folder, path)
				if err != nil {
					return err
				}
				others = append(others, sample{inFolder, tree})
				continue
			}
			if c.catalog.AddDefinition(asJSON) != nil {
				continue // a patch of one
			}
			spec, _ := tree["spec"].(map[string]any)
			names, _ := spec["names"].(map[string]any)
			group, _ := spec["group"].(string)
			kind, _ = names["kind"].(string)
			plural, _ := names["plural"].(string)
			if id := group + "/" + kind; c.plurals[id] == "" {
				c.plurals[id] = plural
				c.defined = append(c.defined, id)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range others {
		gv, id := identityOf(s.object)
		resource := k8s.GroupVersionResource{Group: gv.Group, Version: gv.Version, Resource: c.plurals[id]}
		if _, ok := c.catalog.Of(resource); ok && resource.Resource != "" {
			c.samples = append(c.samples, s)
			if !slices.Contains(c.sampled, id) {
				c.sampled = append(c.sampled, id)
			}
		}
	}
	return c
}

func identityOf(tree map[string]any) (k8s.GroupVersion, string) {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	gv, _ := k8s.ParseGroupVersion(apiVersion)
	return gv, gv.Group + "/" + kind
}

// check looks at every field of a sample.
func (c *corpus) check(s sample) {
	gv, id := identityOf(s.object)
	resource := k8s.GroupVersionResource{Group: gv.Group, Version: gv.Version, Resource: c.plurals[id]}
	of, _ := c.catalog.Of(resource)
	whole := expr.ObjectOf(object.ResourceName(resource), of)
	c.walk(s.path, whole, whole, s.object, "object")
}

// walk checks a value, and the expression that asks for it and compares it.
func (c *corpus) walk(path string, whole, at expr.Typed, v any, text string) {
	wrong := func(format string, args ...any) {
		c.faults[path] = append(c.faults[path], fmt.Sprintf(format, args...))
	}
	c.fields++
	is, constant := kindOf(v)
	if fault := at.Takes(expr.Typed{Type: is}); fault != "" {
		wrong("%s: %s", text, fault)
	}
	if constant != "" {
		comparison := fmt.Sprintf("%s == %s", text, constant)
		if _, mistakes := expr.Check(comparison, expr.Typing{Object: whole}); len(mistakes) > 0 {
			wrong("%s: %s", comparison, mistakes[0])
		}
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			c.walk(path, whole, at.Element(), item, fmt.Sprintf("%s[%d]", text, i))
		}
	case map[string]any:
		for name, item := range v {
			if item == nil {
				continue // it is as if it were not there
			}
			in, fault := at.Field(name)
			if fault != "" {
				wrong("%s[%q]: %s", text, name, fault)
				continue
			}
			c.walk(path, whole, in, item, fmt.Sprintf("%s[%q]", text, name))
		}
	}
}

// kindOf returns the type of a value, and a short one as a constant.
func kindOf(v any) (is schema.Type, constant string) {
	switch v := v.(type) {
	case string:
		if len(v) < 100 && !strings.ContainsAny(v, "\"\\$\n\t") {
			return schema.Constant(v), fmt.Sprintf("%q", v)
		}
		return schema.Constant(v), ""
	case bool:
		return schema.Of(schema.Bool), fmt.Sprint(v)
	case []any:
		return schema.Of(schema.List), ""
	case map[string]any:
		return schema.Of(schema.Map), ""
	}
	return schema.Of(schema.Number), "1"
}

// module is a Go module with samples.
type module struct {
	folder string
	wrong  []string // paths of samples that an API server refuses
}

// download returns the modules in testdata/corpus.txt. The go command keeps them in its cache.
func download(t *testing.T) (modules []module) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "corpus.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if path, ok := strings.CutPrefix(line, "\t"); ok {
			last := &modules[len(modules)-1]
			last.wrong = append(last.wrong, path)
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cmd := exec.Command("go", "mod", "download", "-json", line)
		cmd.Dir = os.TempDir() // outside of any module, so that no go.mod or go.sum changes
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
		out, err := cmd.Output()
		var of struct{ Dir string }
		if err != nil || json.Unmarshal(out, &of) != nil {
			t.Fatalf("download %s: %v\n%s", line, err, out)
		}
		modules = append(modules, module{folder: of.Dir})
	}
	return modules
}
