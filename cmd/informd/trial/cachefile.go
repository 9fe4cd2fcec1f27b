package trial

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler/handlertest"
	"github.com/informd/informd/plugins/handler/nearest"
	"github.com/informd/informd/plugins/host/cache"
)

// madeUpCache is a cache that a file describes, by the names of its sources. It does not change. It
// holds objects as the engine does, because rules look into it as well. package cache serves it to a
// handler that is tried, and package handlertest, which must not import the engine, serves what
// forCheck returns to one that is checked.
type madeUpCache map[string]*madeUpSource

// madeUpSource is one source. Its objects are in the order of their namespaces, then of their
// names. It implements cache.Source.
type madeUpSource struct {
	objects  []*object.Object
	indexes  map[string]*expr.Program
	manifest *config.Source // nil: no manifest names it
}

// readCache reads a cache from a file; "" is none, and "-" is standard input. Each document is
// either an object, as kubectl get -o yaml prints it, or a mapping of sources by their names, each
// with objects and indexes.
//
// With a configuration, the sources and their indexes are those of its manifests, and an object
// belongs to every source that selects it. Otherwise an object belongs to a source with the name of
// its resource, such as pods.
func readCache(path string, cfg *config.Config, stdin io.Reader) (madeUpCache, error) {
	made := make(madeUpCache)
	if cfg != nil {
		for i := range cfg.Sources {
			source := &madeUpSource{manifest: &cfg.Sources[i], indexes: map[string]*expr.Program{}}
			for _, index := range cfg.Sources[i].Indexes {
				program, err := expr.Compile(index.Expr.String(), expr.Options{Scope: expr.Index})
				if err != nil {
					return nil, err // the manifests were compiled before
				}
				source.indexes[index.Name] = program
			}
			made[cfg.Sources[i].Name] = source
		}
	}
	if path == "" {
		if cfg == nil {
			return nil, nil
		}
		return made, nil
	}
	documents, err := readDocuments(path, stdin)
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		if err := made.add(d, cfg != nil); err != nil {
			return nil, err
		}
	}
	for _, source := range made {
		slices.SortStableFunc(source.objects, func(a, b *object.Object) int {
			return cmp.Or(strings.Compare(a.Namespace(), b.Namespace()),
				strings.Compare(a.Name(), b.Name()))
		})
	}
	return made, nil
}

// add adds a document. isFixed says that there are no other sources than those that c has.
func (c madeUpCache) add(d document, isFixed bool) error {
	var about identity
	if json.Unmarshal(d.json, &about) == nil && about.Kind != "" && about.APIVersion != "" {
		return c.addObject(d, about, isFixed)
	}
	var sources map[string]struct {
		Indexes map[string]string `json:"indexes"`
		Objects []json.RawMessage `json:"objects"`
	}
	decoder := json.NewDecoder(bytes.NewReader(d.json))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&sources); err != nil {
		what := "neither an object with apiVersion and kind, nor sources by their names, " +
			"each with indexes and objects"
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
			return d.mistake("%s: %s cannot be a %s", what, e.Field, e.Value)
		}
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return d.mistake("%s: a source has no field %s", what, field)
		}
		return d.mistake("%s", what)
	}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		source := c[name]
		switch {
		case source == nil && isFixed:
			return d.mistake("the manifests have no source %q%s", name, c.hint(name))
		case source == nil:
			source = &madeUpSource{indexes: make(map[string]*expr.Program)}
			c[name] = source
		}
		for index, text := range sources[name].Indexes {
			program, err := expr.Compile(text, expr.Options{Scope: expr.Index})
			if err != nil {
				return d.mistake("%s: index %s: %w", name, index, err)
			}
			source.indexes[index] = program
		}
		for i, text := range sources[name].Objects {
			o, err := object.FromJSON(text)
			if err == nil && o.Name() == "" {
				err = fmt.Errorf("it has no metadata.name")
			}
			if err != nil {
				return d.mistake("source %s, object %d: %w", name, i+1, err)
			}
			source.objects = append(source.objects, o)
		}
	}
	return nil
}

// addObject adds an object to the sources that it belongs to.
func (c madeUpCache) addObject(d document, about identity, isFixed bool) error {
	o, err := object.FromJSON(d.json)
	if err == nil && o.Name() == "" {
		err = fmt.Errorf("it has no metadata.name")
	}
	if err != nil {
		return d.mistake("%s: %w", about.Kind, err)
	}
	resource := about.resource()
	if !isFixed {
		source := c[resource.Resource]
		if source == nil {
			source = &madeUpSource{indexes: make(map[string]*expr.Program)}
			c[resource.Resource] = source
		}
		source.objects = append(source.objects, o)
		return nil
	}
	gvr := schema.GroupVersionResource(resource)
	isSelected := false
	for _, source := range c {
		if source.selects(gvr, o) {
			source.objects = append(source.objects, o)
			isSelected = true
		}
	}
	if !isSelected {
		return d.mistake("no source of the manifests selects the %s %s; the sources are %s",
			about.Kind, o.Key(), strings.Join(slices.Sorted(maps.Keys(c)), ", "))
	}
	return nil
}

func (c madeUpCache) hint(name string) string {
	if near := nearest.Name(name, c.Names()); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// selects reports whether the source's manifest selects the object.
func (s *madeUpSource) selects(gvr schema.GroupVersionResource, o *object.Object) bool {
	m := s.manifest
	if m.Resource != gvr || len(m.Namespaces) > 0 && !slices.Contains(m.Namespaces, o.Namespace()) {
		return false
	}
	byLabels, err := labels.Parse(m.LabelSelector)
	if err != nil || !byLabels.Matches(labels.Set(o.Labels())) {
		return false
	}
	byFields, err := fields.ParseSelector(m.FieldSelector)
	if err != nil {
		return false
	}
	for _, r := range byFields.Requirements() { // other fields are the API server's to know
		known := map[string]string{
			"metadata.name": o.Name(), "metadata.namespace": o.Namespace(),
		}
		value, ok := known[r.Field]
		if ok && (value == r.Value) != (r.Operator != "!=") {
			return false
		}
	}
	return true
}

// forCheck returns the cache for a conformance check. readable names the sources that the handler
// may read; nil: all.
func (c madeUpCache) forCheck(readable []string) map[string]handlertest.Source {
	if c == nil {
		return nil
	}
	out := make(map[string]handlertest.Source)
	for name, s := range c {
		made := handlertest.Source{
			Denied:  readable != nil && !slices.Contains(readable, name),
			Indexes: make(map[string]func(json.RawMessage) []string),
		}
		for _, o := range s.objects {
			made.Objects = append(made.Objects, o.JSON())
		}
		for index, program := range s.indexes {
			made.Indexes[index] = func(text json.RawMessage) []string {
				o, err := object.FromJSON(text)
				if err != nil {
					return nil // it was one before
				}
				return valuesOf(program, o)
			}
		}
		out[name] = made
	}
	return out
}

// valuesOf returns the values under which an index has an object. As in the daemon, an expression
// that fails gives no values.
func valuesOf(program *expr.Program, o *object.Object) []string {
	values, _ := program.Strings(&expr.Env{Object: o.Decode(program.Paths())})
	slices.Sort(values)
	return slices.Compact(values)
}

// Names implements cache.Sources.
func (c madeUpCache) Names() []string { return slices.Sorted(maps.Keys(c)) }

// Open implements cache.Sources.
func (c madeUpCache) Open(_ context.Context, name string) (cache.Source, error) {
	if s := c[name]; s != nil {
		return s, nil
	}
	return nil, cache.ErrNoSource
}

// Get implements cache.Source.
func (s *madeUpSource) Get(namespace, name string) ([]byte, bool) {
	for _, o := range s.objects {
		if o.Namespace() == namespace && o.Name() == name {
			return o.JSON(), true
		}
	}
	return nil, false
}

// List implements cache.Source.
func (s *madeUpSource) List(namespace, selector string) (cache.Objects, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	var found madeUpObjects
	for _, o := range s.objects {
		isThere := namespace == "" || o.Namespace() == namespace
		if isThere && parsed.Matches(labels.Set(o.Labels())) {
			found = append(found, o)
		}
	}
	return found, nil
}

// Indexes implements cache.Source.
func (s *madeUpSource) Indexes() []string { return slices.Sorted(maps.Keys(s.indexes)) }

// ByIndex implements cache.Source.
func (s *madeUpSource) ByIndex(index, value string) (cache.Objects, bool) {
	return madeUpObjects(s.byIndex(index, value)), s.indexes[index] != nil
}

// byIndex returns the objects that an index has under a value; none if there is no such index.
func (s *madeUpSource) byIndex(index, value string) (found []*object.Object) {
	program := s.indexes[index]
	if program == nil {
		return nil
	}
	for _, o := range s.objects {
		if slices.Contains(valuesOf(program, o), value) {
			found = append(found, o)
		}
	}
	return found
}

// IndexValues implements cache.Source.
func (s *madeUpSource) IndexValues(index string) ([]string, bool) {
	program := s.indexes[index]
	if program == nil {
		return nil, false
	}
	var all []string
	for _, o := range s.objects {
		all = append(all, valuesOf(program, o)...)
	}
	slices.Sort(all)
	return slices.Compact(all), true
}

// madeUpObjects implements cache.Objects.
type madeUpObjects []*object.Object

// Len implements cache.Objects.
func (o madeUpObjects) Len() int { return len(o) }

// Key implements cache.Objects.
func (o madeUpObjects) Key(i int) string { return o[i].Key() }

// JSON implements cache.Objects.
func (o madeUpObjects) JSON(i int) []byte { return o[i].JSON() }
