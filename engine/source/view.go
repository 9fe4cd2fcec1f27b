package source

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/engine/object"
)

// Source is the view that a Source manifest gives of one informer, or of several (one per
// namespace). It is one lister and indexer with index names of its own. Sources that share an
// informer do not share these names. A Source is immutable and safe for concurrent use.
type Source struct {
	name      string
	informers []*Informer
	indexes   map[string]string // from its own index names to those of the informers
}

// NewSource returns a view of informers. indexes maps the view's index names to those of the
// informers. The informers have these indexes, or get them through Informer.AddIndexers.
func NewSource(name string, informers []*Informer, indexes map[string]string) *Source {
	return &Source{name: name, informers: slices.Clone(informers), indexes: maps.Clone(indexes)}
}

// Name returns the source's name.
func (s *Source) Name() string { return s.name }

// Informers returns the informers of the view.
func (s *Source) Informers() []*Informer { return slices.Clone(s.informers) }

// HasSynced reports whether all of its informers have synced.
func (s *Source) HasSynced() bool {
	return !slices.ContainsFunc(s.informers, func(i *Informer) bool { return !i.HasSynced() })
}

// WaitForCacheSync returns nil when all informers of the source have synced. It returns an error
// that says which one has not and why if ctx ends. It returns such an error at once if the cluster
// does not serve the resource or denies access to it.
func (s *Source) WaitForCacheSync(ctx context.Context) error {
	for _, i := range s.informers {
		for {
			state, reason, _, synced, changed := i.health.read()
			if synced {
				break
			}
			if isSettled(state, false) {
				return fmt.Errorf("%v is %v%s", i.sel, state, because(reason))
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return fmt.Errorf("%v has not synced: %v%s: %w",
					i.sel, state, because(reason), context.Cause(ctx))
			}
		}
	}
	return nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// GetIndexers returns the indexes under the source's own names.
func (s *Source) GetIndexers() map[string]Index {
	out := map[string]Index{}
	for _, i := range s.informers {
		all := i.cache.allIndexes()
		for own, inner := range s.indexes {
			if index, ok := all[inner]; ok {
				out[own] = index
			}
		}
	}
	return out
}

// ByIndex returns the objects that have the value, as they are now, sorted by key. It takes no time
// for the objects themselves. An unknown index is an error.
func (s *Source) ByIndex(index, value string) (object.Bucket, error) {
	name, err := s.inner(index)
	if err != nil {
		return object.Bucket{}, err
	}
	var few [1]object.Bucket
	parts := few[:0]
	for _, i := range s.informers {
		part, err := i.cache.byIndex(name, value)
		if err != nil {
			return object.Bucket{}, fmt.Errorf("source %q: %w", s.name, err)
		}
		parts = append(parts, part)
	}
	return object.Join(parts), nil // each informer has a namespace of its own
}

// ListIndexFuncValues returns the values that the index has, each once and sorted. An unknown index
// has none.
func (s *Source) ListIndexFuncValues(index string) []string {
	name, err := s.inner(index)
	if err != nil {
		return nil
	}
	var out []string
	for _, i := range s.informers {
		out = append(out, i.cache.valuesIn(name)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// inner returns the informers' own name of an index.
func (s *Source) inner(index string) (string, error) {
	name, ok := s.indexes[index]
	if !ok {
		return "", fmt.Errorf("source %q has no index %q", s.name, index)
	}
	return name, nil
}

// Get returns the object, if the source has it.
func (s *Source) Get(namespace, name string) (*object.Object, bool) {
	for _, i := range s.informers {
		if o, ok := i.cache.get(namespace, name); ok {
			return o, true
		}
	}
	return nil, false
}

// List returns the objects of a namespace that the selector matches, in no order. An empty
// namespace means all namespaces, and a nil selector matches all objects.
func (s *Source) List(namespace string, selector labels.Selector) []*object.Object {
	var out []*object.Object
	for _, i := range s.informers {
		if sel := i.sel.Namespace; namespace == "" || sel == "" || sel == namespace {
			out = append(out, i.cache.list(namespace, selector)...)
		}
	}
	return out
}
