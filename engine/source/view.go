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
		all := i.GetIndexers()
		for own, inner := range s.indexes {
			if index, ok := all[inner]; ok {
				out[own] = index
			}
		}
	}
	return out
}

// ByIndex returns the objects that have the value, sorted by key. An unknown index is an error.
func (s *Source) ByIndex(index, value string) ([]*object.Object, error) {
	out, err := gather(s, index, func(i *Informer, name string) ([]*object.Object, error) {
		return i.ByIndex(name, value)
	})
	if len(s.informers) > 1 {
		slices.SortFunc(out, byKey)
	}
	return out, err
}

// ListIndexFuncValues returns the values that the index has, each once and sorted. An unknown index
// has none.
func (s *Source) ListIndexFuncValues(index string) []string {
	out, _ := gather(s, index, func(i *Informer, name string) ([]string, error) {
		return i.ListIndexFuncValues(name), nil
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// gather collects what find returns for each informer. It passes the informer's own name of the
// index.
func gather[T any](
	s *Source, index string, find func(*Informer, string) ([]T, error),
) ([]T, error) {
	name, ok := s.indexes[index]
	if !ok {
		return nil, fmt.Errorf("source %q has no index %q", s.name, index)
	}
	var out []T
	for _, i := range s.informers {
		part, err := find(i, name)
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", s.name, err)
		}
		out = append(out, part...)
	}
	return out, nil
}

// Get returns the object, if the source has it.
func (s *Source) Get(namespace, name string) (*object.Object, bool) {
	for _, i := range s.informers {
		if o, ok := i.Get(namespace, name); ok {
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
			out = append(out, i.List(namespace, selector)...)
		}
	}
	return out
}
