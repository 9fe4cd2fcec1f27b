package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

const schemaFile = "../docs/reference/manifests.schema.json"

// The file that editors read is what Schema returns.
func TestSchemaFile(t *testing.T) {
	if *update {
		if err := os.WriteFile(schemaFile, Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(is, Schema()) {
		t.Error("docs/reference/manifests.schema.json is out of date: run `go test ./config -run TestSchemaFile -update` and commit it")
	}
}

// What Parse reads without a mistake, the schema accepts: in the examples, in the docs and in testdata.
// What the schema refuses, Parse refuses; and the schema sees every mistake that beyondSchema does not
// list.
func TestSchemaAgreesWithParse(t *testing.T) {
	valid := compiled(t)
	accepted, refused, beyond := 0, 0, 0
	for _, f := range manifestFiles(t) {
		_, mistakes := Parse([]File{f})
		for _, d := range documents(t, f) {
			err := valid.Validate(d.value)
			var own []Mistake
			for _, m := range mistakes {
				if d.first <= m.Line && m.Line <= d.last {
					own = append(own, m)
				}
			}
			var structural []Mistake
			for _, m := range own {
				if !beyondSchema.MatchString(m.Message) {
					structural = append(structural, m)
				}
			}
			switch {
			case err == nil && d.value.(map[string]any)["kind"] == "ConfigMap":
				beyond++ // what is in its texts
			case len(own) == 0 && err != nil:
				t.Errorf("%s:%d: Parse accepts it, the schema does not: %v", f.Path, d.first, err)
			case err == nil && len(structural) > 0:
				t.Errorf("the schema accepts %s:%d: Parse says %s", f.Path, d.first, structural[0].Message)
			case err == nil && len(own) == 0:
				accepted++
			case err == nil:
				beyond++
			default:
				refused++
			}
		}
	}
	t.Logf("%d manifests accepted by both, %d refused by both; %d have mistakes that a schema cannot see", accepted, refused, beyond)
	if accepted < 100 || refused < 50 {
		t.Error("that is too few to say much")
	}
}

// beyondSchema are the mistakes that a schema cannot see.
var beyondSchema = regexp.MustCompile(strings.Join([]string{
	// what stands elsewhere: other manifests, other fields, the name of the file
	`^there is (no|another) `, ` is in \S+ twice`, `^handler \S+ posts`, `^the config of handler `, ` holds Tests only,`,
	`^a Test belongs in `, ` (goes|go) with .* only`, ` exclude each other$`, ` needs (a source|the event|spec\.)`, `, not both: `,
	` deletes what (was|the rule has) applied`, `^spec\.formerly(:| is the name)`, `^spec\.events (lacks|has) `, ` selects changes, and `, ` does nothing here: `,
	// one of several fields
	`^spec\.source is missing`, `^spec\.handler, spec\.actions or`, `^spec\.command, spec\.builtin`, `^a gauge needs a source`,
	// what YAML is before it is JSON
	`^anchors and aliases`, ` as a tag, and tags are`, ` would end with a line break: `, ` cannot be written as JSON$`,
	// the text of a value
	`^spec\.resource "`, ` dns:///`, ` the DNS server `, ` DNS name or an IP`, `^spec\.user must`, `^informd sets `, `^a list is no object`,
	` must be (0 or )?from [0-9.]+(ms|s|m|h|Mi) `, ` number of cores`, ` is not an apiVersion`, ` is the API server's: `,
}, "|"))

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("manifests.schema.json", text); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("manifests.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// manifestFiles returns the YAML of the examples, of the deployment, of the docs and of testdata.
func manifestFiles(t *testing.T) (files []File) {
	t.Helper()
	for _, dir := range []string{"../examples", "../docs", "testdata/mistakes"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if d != nil && d.Name() == "node_modules" {
					return fs.SkipDir
				}
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			switch filepath.Ext(path) {
			case ".yaml":
				files = append(files, File{path, data})
			case ".md":
				for i, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(data, -1) {
					name := fmt.Sprintf("%s-%d.yaml", path, i)
					if bytes.Contains(block[1], []byte("kind: Test")) {
						name = fmt.Sprintf("%s-%d_test.yaml", path, i)
					}
					files = append(files, File{name, block[1]})
				}
			case ".txtar":
				for _, f := range txtar.Parse(data).Files {
					if f.Name != "report" {
						files = append(files, File{path + "/" + f.Name, f.Data})
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// document is a document of a file, as JSON, with its lines.
type document struct {
	value       any
	first, last int
}

// documents returns the documents of a file that YAML can read, up to the first that it cannot.
func documents(t *testing.T, f File) (all []document) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(f.Data))
	lines := bytes.Count(f.Data, []byte("\n")) + 1
	for {
		var root yaml.Node
		if err := d.Decode(&root); err != nil {
			if err != io.EOF && len(all) > 0 {
				all = all[:len(all)-1] // its end is unknown
			}
			break
		}
		if len(root.Content) == 0 {
			continue
		}
		if n := len(all); n > 0 {
			all[n-1].last = min(all[n-1].last, root.Content[0].Line-1)
		}
		var value any
		if root.Content[0].Kind != yaml.MappingNode || root.Decode(&value) != nil {
			continue
		}
		value, ok := asJSON(value)
		if ok {
			all = append(all, document{value, root.Content[0].Line, lines})
		}
	}
	return all
}

// asJSON returns a value of YAML as editors see it: times are strings. ok is false if JSON has nothing
// for it.
func asJSON(value any) (out any, ok bool) {
	switch value := value.(type) {
	case map[string]any:
		m := make(map[string]any, len(value))
		for key, member := range value {
			if m[key], ok = asJSON(member); !ok {
				return nil, false
			}
		}
		return m, true
	case []any:
		l := make([]any, len(value))
		for i, item := range value {
			if l[i], ok = asJSON(item); !ok {
				return nil, false
			}
		}
		return l, true
	case time.Time:
		return value.Format(time.RFC3339Nano), true
	case nil, bool, string, int, int64, uint64, float64:
		return value, true
	}
	return nil, false
}

// absent stands for no value: the field is left out.
type absent struct{}

// What Parse reads without a mistake, the schema accepts, also with another value in the place of
// each one in the examples and the docs, and without it. So a field that may be empty or absent may
// be so in both.
func TestSchemaAgreesWithParseAboutOtherValues(t *testing.T) {
	valid := compiled(t)
	tried := make(map[string]bool) // a value for a field is tried once
	rare := File{"rare_test.yaml", []byte(`apiVersion: informd.dev/v1alpha1
kind: Test
metadata: {name: rare, labels: {a: b}, annotations: {a: b}}
spec: {steps: [{expect: [{name: a, namespace: b, items: [{namespace: b}]}]}]}
`)}
	for _, f := range append(manifestFiles(t), rare) {
		if _, mistakes := Parse([]File{f}); len(mistakes) > 0 {
			continue
		}
		for _, d := range documents(t, f) {
			kind := fmt.Sprint(d.value.(map[string]any)["kind"])
			parse := func() (messages []string) {
				text, err := yaml.Marshal(d.value)
				if err != nil {
					t.Fatal(err)
				}
				_, mistakes := Parse([]File{{f.Path, text}})
				for _, m := range mistakes {
					messages = append(messages, m.Message)
				}
				return messages
			}
			alone := parse() // without the manifests that it names
			isOld := func(message string) bool { return slices.Contains(alone, message) }
			eachValue(d.value, kind, func(path string, set func(any)) {
				for _, other := range []any{"", " ", "x", 0, 7, 1.5, true, nil, []any{}, map[string]any{}, []any{""}, absent{}} {
					key := fmt.Sprintf("%s: %#v", path, other)
					if tried[key] {
						continue
					}
					tried[key] = true
					set(other)
					refused := valid.Validate(d.value)
					if refused != nil && len(slices.DeleteFunc(parse(), isOld)) == 0 {
						t.Errorf("%s: Parse accepts %s, the schema does not: %v", f.Path, key, refused)
					}
				}
			})
		}
	}
	t.Logf("%d values tried", len(tried))
	if len(tried) < 2000 {
		t.Error("that is too few to say much")
	}
}

// eachValue calls do for each value within one of JSON, with its path, in which all elements of lists
// are [], and a function that puts another one in its place. Afterwards the value is as it was.
func eachValue(v any, path string, do func(path string, set func(any))) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			was, at := v[key], path+"."+key
			do(at, func(other any) {
				if v[key] = other; other == any(absent{}) {
					delete(v, key)
				}
			})
			v[key] = was
			eachValue(was, at, do)
		}
	case []any:
		for i, was := range v {
			do(path+"[]", func(other any) {
				if other != any(absent{}) {
					v[i] = other
				}
			})
			v[i] = was
			eachValue(was, path+"[]", do)
		}
	}
}

// Each keyword stands beside the type of the values that it is about, or below a schema of the same
// value that has one. Validators that are strict refuse a schema in which it does not.
func TestSchemaKeywordsHaveTypes(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	about := map[string][]string{
		"string": {"pattern", "minLength", "maxLength", "format"},
		"number": {"minimum", "maximum"},
		"array":  {"items", "minItems", "maxItems", "uniqueItems"},
		"object": {"properties", "required", "additionalProperties", "propertyNames", "maxProperties"},
	}
	seen := 0
	var check func(path string, schema any, outer []string)
	check = func(path string, schema any, outer []string) {
		s, ok := schema.(map[string]any)
		if !ok {
			return
		}
		types := outer
		switch is := s["type"].(type) {
		case string:
			types = []string{is}
		case []any:
			types = nil
			for _, one := range is {
				types = append(types, one.(string))
			}
		}
		for _, of := range slices.Sorted(maps.Keys(about)) {
			for _, keyword := range about[of] {
				if _, has := s[keyword]; !has {
					continue
				}
				seen++
				if !slices.Contains(types, of) && (of != "number" || !slices.Contains(types, "integer")) {
					t.Errorf("%s has %s beside the types %v", path, keyword, types)
				}
			}
		}
		for _, within := range []string{"if", "then", "else", "not"} {
			check(path+"/"+within, s[within], types)
		}
		for _, within := range []string{"items", "additionalProperties", "propertyNames"} {
			check(path+"/"+within, s[within], nil)
		}
		for _, within := range []string{"properties", "definitions"} {
			members, _ := s[within].(map[string]any)
			for name, one := range members {
				check(path+"/"+within+"/"+name, one, nil)
			}
		}
		for _, within := range []string{"anyOf", "allOf"} {
			list, _ := s[within].([]any)
			for i, one := range list {
				check(fmt.Sprintf("%s/%s[%d]", path, within, i), one, types)
			}
		}
	}
	check("", root, nil)
	if seen < 200 {
		t.Errorf("only %d keywords were found", seen)
	}
}

// Every field has a description, which is a sentence.
func TestFieldsAreDescribed(t *testing.T) {
	count := 0
	var check func(path string, f form)
	check = func(path string, f form) {
		for _, one := range f.fields {
			count++
			if !strings.HasSuffix(one.about, ".") && !strings.HasSuffix(one.about, "…") || strings.TrimSpace(one.about) != one.about {
				t.Errorf("%s.%s is described as %q", path, one.name, one.about)
			}
			check(path+"."+one.name, one.form)
		}
		if f.elements != nil {
			check(path+"[]", *f.elements)
		}
		for _, one := range f.either {
			check(path, one)
		}
	}
	check("", mappingOf(manifestFields))
	for kind, fields := range specFields {
		check(kind, mappingOf(fields))
	}
	if count < 120 {
		t.Errorf("there are only %d fields", count)
	}
}
