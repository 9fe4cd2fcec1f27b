package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// newCache returns the cache that the environment names. The first call connects to it.
func newCache() handler.Cache {
	address := os.Getenv(handlerpb.EnvCacheSocket)
	switch {
	case !Hosted():
		return noCache{errors.New("there is no cache without informd")}
	case address == "":
		return noCache{fmt.Errorf("read the cache: %w: to allow it, add to the "+
			"handler's manifest spec: {access: {read: [SOURCE, …]}}", handler.ErrDenied)}
	}
	return dialCache(address)
}

// HandlersCache returns the cache of the handler that started this process, for programs that are
// no handlers themselves, such as the commands of the exec builtin. They read what the handler may.
// ok is false if no handler started the process, or one that may read nothing.
func HandlersCache() (cache handler.Cache, ok bool) {
	address := os.Getenv(handlerpb.EnvCacheSocket)
	if address == "" {
		return nil, false
	}
	return dialCache(address), true
}

// dialCache returns the cache at an address. The first call connects to it.
func dialCache(address string) handler.Cache {
	conn, err := grpc.NewClient(address,
		// The socket is this process's own.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		// A page may be one large object.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithInitialWindowSize(pageWindow),
		grpc.WithInitialConnWindowSize(connWindow),
	)
	if err != nil {
		return noCache{fmt.Errorf("read the cache: %s=%s: %w",
			handlerpb.EnvCacheSocket, address, err)}
	}
	return &cache{handlerpb.NewCacheClient(conn)}
}

// Fixed flow control windows: two pages of one answer, and more for several answers.
const (
	pageWindow = 2 * handlerpb.MaxPageBytes
	connWindow = 4 << 20
)

// cache is the cache behind a connection.
type cache struct{ api handlerpb.CacheClient }

var _ handler.Cache = (*cache)(nil)

func (c *cache) Get(
	ctx context.Context, source, namespace, name string,
) (json.RawMessage, bool, error) {
	resp, err := c.api.Get(ctx,
		&handlerpb.GetRequest{Source: source, Namespace: namespace, Name: name})
	if err != nil {
		return nil, false, readError(ctx, err)
	}
	return resp.GetObject(), len(resp.GetObject()) > 0, nil
}

func (c *cache) GetMany(
	ctx context.Context, source string, keys ...string,
) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, 0, len(keys))
	for len(keys) > 0 {
		some := keys[:atOnce(keys)]
		pages, err := c.api.GetMany(ctx, &handlerpb.GetManyRequest{Source: source, Keys: some})
		before := len(out)
		for object, err := range elements(ctx, pages, err, objects) {
			if err != nil {
				return nil, err
			}
			if len(object) == 0 {
				object = nil
			}
			out = append(out, object)
		}
		if len(out) != before+len(some) {
			return nil, fmt.Errorf("read the cache: %d objects for %d keys",
				len(out)-before, len(some))
		}
		keys = keys[len(some):]
	}
	return out, nil
}

// atOnce returns how many of the keys fit into one request.
func atOnce(keys []string) int {
	const room = handlerpb.MaxReadBytes - 1<<10 // for the rest
	n, size := 0, 0
	for n < min(len(keys), handlerpb.MaxGetKeys) {
		size += len(keys[n]) + 8 // and its tag and length
		if size > room && n > 0 {
			break
		}
		n++
	}
	return n
}

func (c *cache) List(
	ctx context.Context, source string, o handler.ListOptions,
) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // ends the call if the caller stops early
		defer cancel()
		pages, err := c.api.List(ctx, &handlerpb.ListRequest{
			Source: source, Namespace: o.Namespace, LabelSelector: o.Selector,
			Limit: limitOf(o.Limit), After: o.After,
		})
		for object, err := range elements(ctx, pages, err, objects) {
			if !yield(object, err) {
				return
			}
		}
	}
}

func limitOf(n int) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }

func (c *cache) ByIndex(
	ctx context.Context, source, index, value string,
) ([]json.RawMessage, error) {
	pages, err := c.api.ByIndex(ctx,
		&handlerpb.ByIndexRequest{Source: source, Index: index, Value: value})
	return collect(elements(ctx, pages, err, objects))
}

func (c *cache) IndexKeys(ctx context.Context, source, index, value string) ([]string, error) {
	pages, err := c.api.IndexKeys(ctx,
		&handlerpb.ByIndexRequest{Source: source, Index: index, Value: value})
	return collect(elements(ctx, pages, err, (*handlerpb.KeyPage).GetKeys))
}

func (c *cache) IndexValues(ctx context.Context, source, index string) ([]string, error) {
	pages, err := c.api.IndexValues(ctx,
		&handlerpb.IndexValuesRequest{Source: source, Index: index})
	return collect(elements(ctx, pages, err, (*handlerpb.ValuePage).GetValues))
}

// elements yields the elements of an answer's pages. err is the error of the call.
func elements[P, E any](
	ctx context.Context, pages grpc.ServerStreamingClient[P], err error, of func(*P) []E,
) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var none E
		for err == nil {
			var page *P
			if page, err = pages.Recv(); err == nil {
				for _, e := range of(page) {
					if !yield(e, nil) {
						return
					}
				}
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(none, readError(ctx, err))
		}
	}
}

// collect returns all of them, or an error.
func collect[E any](all iter.Seq2[E, error]) (out []E, err error) {
	for e, err := range all {
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// objects returns the JSON of a page's objects.
func objects(p *handlerpb.ObjectPage) []json.RawMessage {
	out := make([]json.RawMessage, len(p.GetObjects()))
	for i, object := range p.GetObjects() {
		out[i] = object
	}
	return out
}

// readError returns gRPC's error as one of package handler's, or as the context's.
func readError(ctx context.Context, err error) error {
	s := status.Convert(err)
	switch {
	case s.Code() == codes.PermissionDenied:
		err = fmt.Errorf("%w: %s", handler.ErrDenied, s.Message())
	case s.Code() == codes.NotFound:
		err = fmt.Errorf("%w: %s", handler.ErrUnknown, s.Message())
	case ctx.Err() != nil:
		err = ctx.Err()
	case s.Code() == codes.DeadlineExceeded:
		err = fmt.Errorf("%w: %s", context.DeadlineExceeded, s.Message())
	default:
		err = errors.New(s.Message())
	}
	return fmt.Errorf("read the cache: %w", err)
}

// noCache is a cache that cannot be read; every call returns why.
type noCache struct{ err error }

func (c noCache) Get(context.Context, string, string, string) (json.RawMessage, bool, error) {
	return nil, false, c.err
}

func (c noCache) GetMany(context.Context, string, ...string) ([]json.RawMessage, error) {
	return nil, c.err
}

func (c noCache) List(
	context.Context, string, handler.ListOptions,
) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) { yield(nil, c.err) }
}

func (c noCache) ByIndex(context.Context, string, string, string) ([]json.RawMessage, error) {
	return nil, c.err
}

func (c noCache) IndexKeys(context.Context, string, string, string) ([]string, error) {
	return nil, c.err
}

func (c noCache) IndexValues(context.Context, string, string) ([]string, error) {
	return nil, c.err
}
