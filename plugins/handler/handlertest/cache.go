package handlertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/plugins/host/cache"
)

// Source is one source of the cache that a handler under check reads.
type Source struct {
	// Objects are as the API server has them: JSON with metadata.name, and metadata.namespace where it has one. Their
	// order does not matter.
	Objects []json.RawMessage
	// Indexes give the values under which an object is found, by the names of the indexes.
	Indexes map[string]func(object json.RawMessage) []string
}

// madeUp is a cache that does not change.
type madeUp map[string]madeUpSource

var _ cache.Sources = madeUp(nil)

// newMadeUp reads what a check was given to be read; nil if that is nothing.
func newMadeUp(given map[string]Source) (madeUp, error) {
	if given == nil {
		return nil, nil
	}
	m := make(madeUp)
	for name, source := range given {
		s := madeUpSource{indexes: make(map[string]map[string]madeUpObjects)}
		for i, text := range source.Objects {
			o, err := newMadeUpObject(text)
			if err != nil {
				return nil, fmt.Errorf("the cache's source %q, object %d: %w", name, i+1, err)
			}
			s.all = append(s.all, o)
		}
		slices.SortFunc(s.all, byKey)
		for index, values := range source.Indexes {
			found := make(map[string]madeUpObjects)
			for _, o := range s.all {
				of := values(slices.Clone(o.json))
				slices.Sort(of)
				for _, value := range slices.Compact(of) {
					found[value] = append(found[value], o)
				}
			}
			s.indexes[index] = found
		}
		m[name] = s
	}
	return m, nil
}

func (m madeUp) names() []string { return slices.Sorted(maps.Keys(m)) }

// Names implements cache.Sources.
func (m madeUp) Names() []string { return m.names() }

// Open implements cache.Sources.
func (m madeUp) Open(_ context.Context, name string) (cache.Source, error) {
	if s, ok := m[name]; ok {
		return s, nil
	}
	return nil, cache.ErrNoSource
}

type madeUpSource struct {
	all     madeUpObjects
	indexes map[string]map[string]madeUpObjects // by index and value
}

// Get implements cache.Source.
func (s madeUpSource) Get(namespace, name string) ([]byte, bool) {
	i := slices.IndexFunc(s.all, func(o madeUpObject) bool { return o.namespace == namespace && o.name == name })
	if i < 0 {
		return nil, false
	}
	return s.all[i].json, true
}

// List implements cache.Source.
func (s madeUpSource) List(namespace, selector string) (cache.Objects, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	var found madeUpObjects
	for _, o := range s.all {
		if (namespace == "" || o.namespace == namespace) && parsed.Matches(o.labels) {
			found = append(found, o)
		}
	}
	return found, nil
}

// Indexes implements cache.Source.
func (s madeUpSource) Indexes() []string { return slices.Sorted(maps.Keys(s.indexes)) }

// ByIndex implements cache.Source.
func (s madeUpSource) ByIndex(index, value string) (cache.Objects, bool) {
	found, ok := s.indexes[index]
	return found[value], ok
}

// IndexValues implements cache.Source.
func (s madeUpSource) IndexValues(index string) ([]string, bool) {
	found, ok := s.indexes[index]
	return slices.Sorted(maps.Keys(found)), ok
}

type madeUpObject struct {
	namespace, name, key string
	labels               labels.Set
	json                 json.RawMessage
}

func newMadeUpObject(text json.RawMessage) (madeUpObject, error) {
	var o struct {
		Metadata struct {
			Namespace, Name string
			Labels          map[string]string
		}
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return madeUpObject{}, err
	}
	if o.Metadata.Name == "" {
		return madeUpObject{}, errors.New("it has no metadata.name")
	}
	made := madeUpObject{namespace: o.Metadata.Namespace, name: o.Metadata.Name, key: o.Metadata.Name, labels: o.Metadata.Labels, json: text}
	if made.namespace != "" {
		made.key = made.namespace + "/" + made.name
	}
	return made, nil
}

func byKey(a, b madeUpObject) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}

type madeUpObjects []madeUpObject

// Len implements cache.Objects.
func (o madeUpObjects) Len() int { return len(o) }

// Key implements cache.Objects.
func (o madeUpObjects) Key(i int) string { return o[i].key }

// JSON implements cache.Objects.
func (o madeUpObjects) JSON(i int) []byte { return o[i].json }
