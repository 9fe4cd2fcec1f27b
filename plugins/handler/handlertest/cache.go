package handlertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler/wire"
)

// Source is one source of the cache that the handler reads.
type Source struct {
	// Objects are as the API server has them: JSON with metadata.name, and metadata.namespace where
	// it has one. Their order does not matter.
	Objects []json.RawMessage
	// Indexes are functions, by the names of the indexes, that return the values under which an
	// index has an object.
	Indexes map[string]func(object json.RawMessage) []string
	// Denied says that the source exists and that the manifest's access.read does not name it.
	Denied bool
}

// madeUp is a cache that does not change, by the names of its sources.
type madeUp map[string]madeUpSource

// madeUpSource is one source, in the order of the objects' keys.
type madeUpSource struct {
	all      []madeUpObject
	indexes  map[string]map[string][]madeUpObject // by index and value
	isDenied bool
}

// newMadeUp reads the sources that a check was given; nil if there are none.
func newMadeUp(given map[string]Source) (madeUp, error) {
	if given == nil {
		return nil, nil
	}
	m := make(madeUp)
	for name, source := range given {
		s := madeUpSource{
			indexes: make(map[string]map[string][]madeUpObject), isDenied: source.Denied,
		}
		for i, text := range source.Objects {
			o, err := newMadeUpObject(text)
			if err != nil {
				return nil, fmt.Errorf("the cache's source %q, object %d: %w", name, i+1, err)
			}
			s.all = append(s.all, o)
		}
		slices.SortFunc(s.all, func(a, b madeUpObject) int { return wire.CompareKeys(a.key, b.key) })
		for index, values := range source.Indexes {
			found := make(map[string][]madeUpObject)
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

// open returns a source by its name. Errors are gRPC's, as informd has them.
func (m madeUp) open(name string) (madeUpSource, error) {
	source, ok := m[name]
	switch {
	case !ok:
		return source, status.Errorf(codes.NotFound, "there is no source %q; there are %q",
			name, slices.Sorted(maps.Keys(m)))
	case source.isDenied:
		var allowed []string
		for name, source := range m {
			if !source.isDenied {
				allowed = append(allowed, name)
			}
		}
		slices.Sort(allowed)
		return source, status.Errorf(codes.PermissionDenied, "the handler may not read source %q: "+
			"to allow it, add to its manifest spec: {access: {read: [%s]}}",
			name, strings.Join(append(allowed, name), ", "))
	}
	return source, nil
}

// index returns an index of a source, by value. Errors are gRPC's.
func (m madeUp) index(source, index string) (map[string][]madeUpObject, error) {
	opened, err := m.open(source)
	if err != nil {
		return nil, err
	}
	found, ok := opened.indexes[index]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "source %q has no index %q; it has %q",
			source, index, slices.Sorted(maps.Keys(opened.indexes)))
	}
	return found, nil
}

// get returns an object by its key, or nil.
func (s madeUpSource) get(key string) json.RawMessage {
	i, found := slices.BinarySearchFunc(s.all, key, func(o madeUpObject, key string) int {
		return wire.CompareKeys(o.key, key)
	})
	if !found {
		return nil
	}
	return s.all[i].json
}

// list returns the objects of a namespace, or of all, with the labels that a selector asks for.
func (s madeUpSource) list(namespace string, selects selector) (found []madeUpObject) {
	for _, o := range s.all {
		if (namespace == "" || o.namespace == namespace) && selects.matches(o.labels) {
			found = append(found, o)
		}
	}
	return found
}

type madeUpObject struct {
	key       string // NAMESPACE/NAME or NAME
	namespace string
	labels    map[string]string
	json      json.RawMessage
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
	return madeUpObject{
		key:       wire.Key(o.Metadata.Namespace, o.Metadata.Name),
		namespace: o.Metadata.Namespace,
		labels:    o.Metadata.Labels,
		json:      text,
	}, nil
}
