package handlertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/wire"
)

// NewCache returns a cache with these sources, by their names, for Go tests that call a handler's
// methods themselves:
//
//	h.UseCache(handlertest.NewCache(t, map[string]handlertest.Source{
//		"pods": {
//			Objects: []json.RawMessage{pod},
//			Indexes: map[string]func(json.RawMessage) []string{"byNode": nodeOf},
//		},
//	}))
//
// It answers as informd does: objects in the order of their keys, and errors that wrap
// handler.ErrDenied for a source that is Denied, handler.ErrUnknown for a source or index that does
// not exist, and ctx's error. It does not change, has no bounds, and may be used concurrently. The
// test fails at once if an object has no name.
func NewCache(t testing.TB, sources map[string]Source) handler.Cache {
	t.Helper()
	if sources == nil {
		sources = map[string]Source{}
	}
	m, err := newMadeUp(sources)
	if err != nil {
		t.Fatal(err)
	}
	return fakeCache{m}
}

// fakeCache is a handler.Cache without informd.
type fakeCache struct{ sources madeUp }

// Get implements handler.Cache.
func (c fakeCache) Get(
	ctx context.Context, source, namespace, name string,
) (json.RawMessage, bool, error) {
	opened, err := c.sources.open(source)
	if err := readError(ctx, err); err != nil {
		return nil, false, err
	}
	object := opened.get(wire.Key(namespace, name))
	return slices.Clone(object), object != nil, nil
}

// GetMany implements handler.Cache.
func (c fakeCache) GetMany(
	ctx context.Context, source string, keys ...string,
) ([]json.RawMessage, error) {
	opened, err := c.sources.open(source)
	if err := readError(ctx, err); err != nil {
		return nil, err
	}
	out := make([]json.RawMessage, 0, len(keys))
	for _, key := range keys {
		out = append(out, slices.Clone(opened.get(key)))
	}
	return out, nil
}

// List implements handler.Cache.
func (c fakeCache) List(
	ctx context.Context, source string, o handler.ListOptions,
) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		opened, err := c.sources.open(source)
		selects, wrong := parseSelector(o.Selector)
		if err == nil && wrong != nil {
			err = fmt.Errorf("the label selector %q does not parse: %w", o.Selector, wrong)
		}
		if err := readError(ctx, err); err != nil {
			yield(nil, err)
			return
		}
		found := opened.list(o.Namespace, selects)
		for _, object := range part(found, o.After, uint32(max(0, o.Limit))) {
			if err := readError(ctx, nil); err != nil {
				yield(nil, err)
				return
			}
			if !yield(slices.Clone(object.json), nil) {
				return
			}
		}
	}
}

// ByIndex implements handler.Cache.
func (c fakeCache) ByIndex(
	ctx context.Context, source, index, value string,
) (found []json.RawMessage, err error) {
	all, err := c.sources.index(source, index)
	if err := readError(ctx, err); err != nil {
		return nil, err
	}
	for _, object := range all[value] {
		found = append(found, slices.Clone(object.json))
	}
	return found, nil
}

// IndexKeys implements handler.Cache.
func (c fakeCache) IndexKeys(
	ctx context.Context, source, index, value string,
) (keys []string, err error) {
	all, err := c.sources.index(source, index)
	if err := readError(ctx, err); err != nil {
		return nil, err
	}
	for _, object := range all[value] {
		keys = append(keys, object.key)
	}
	return keys, nil
}

// IndexValues implements handler.Cache.
func (c fakeCache) IndexValues(ctx context.Context, source, index string) ([]string, error) {
	all, err := c.sources.index(source, index)
	if err := readError(ctx, err); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// readError returns gRPC's error as the one that a handler gets in its place. An ended ctx counts
// first.
func readError(ctx context.Context, err error) error {
	message := status.Convert(err).Message()
	switch code := status.Code(err); {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err == nil:
		return nil
	case code == codes.PermissionDenied:
		err = fmt.Errorf("%w: %s", handler.ErrDenied, message)
	case code == codes.NotFound:
		err = fmt.Errorf("%w: %s", handler.ErrUnknown, message)
	default:
		err = errors.New(message)
	}
	return fmt.Errorf("read the cache: %w", err)
}
