package handlertest

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

// cacheService answers the calls of one clause's processes out of a made-up cache. Without one
// every call fails, as when informd has nothing to read yet.
type cacheService struct {
	handlerpb.UnimplementedCacheServer
	sources madeUp

	mu             sync.Mutex
	calls, refused int    // guarded by mu
	why            string // guarded by mu; of the last call that was refused
}

// newCache returns a cache for one clause; nil if the handler may read nothing.
func (t *trial) newCache() *cacheService {
	if len(t.sources) == 0 || t.Remote != nil {
		return nil
	}
	return &cacheService{sources: t.sources}
}

// counts returns how many calls there were, how many of them were answered with an error, and the
// last error.
func (s *cacheService) counts() (calls, refused int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.refused, s.why
}

func (s *cacheService) count(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if err != nil && status.Code(err) != codes.Canceled {
		s.refused++
		s.why = status.Convert(err).Message()
	}
}

// cacheServer serves a cacheService to one process.
type cacheServer struct {
	path   string
	server *grpc.Server
	done   chan struct{}
}

// serveCache serves on a unix socket.
func serveCache(path string, s *cacheService) (*cacheServer, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	c := &cacheServer{path: path, done: make(chan struct{}), server: grpc.NewServer(
		grpc.MaxRecvMsgSize(handlerpb.MaxReadBytes),
		grpc.UnaryInterceptor(func(
			ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
		) (any, error) {
			resp, err := next(ctx, req)
			s.count(err)
			return resp, err
		}),
		grpc.StreamInterceptor(func(
			srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler,
		) error {
			err := next(srv, stream)
			s.count(err)
			return err
		}),
	)}
	handlerpb.RegisterCacheServer(c.server, s)
	go func() {
		defer close(c.done)
		_ = c.server.Serve(listener) // ends with close
	}()
	return c, nil
}

// close ends all calls. A nil server is closed.
func (c *cacheServer) close() {
	if c != nil {
		c.server.Stop()
		<-c.done
	}
}

// open returns a source by its name. Errors are gRPC's.
func (s *cacheService) open(name string) (madeUpSource, error) {
	if err := s.readable(); err != nil {
		return madeUpSource{}, err
	}
	return s.sources.open(name)
}

// index returns an index of a source, by value. Errors are gRPC's.
func (s *cacheService) index(source, index string) (map[string][]madeUpObject, error) {
	if err := s.readable(); err != nil {
		return nil, err
	}
	return s.sources.index(source, index)
}

func (s *cacheService) readable() error {
	if s.sources == nil {
		return status.Error(codes.Unavailable, "there is no cache to read at present")
	}
	return nil
}

// Get implements handlerpb.CacheServer.
func (s *cacheService) Get(
	_ context.Context, r *handlerpb.GetRequest,
) (*handlerpb.GetResponse, error) {
	source, err := s.open(r.GetSource())
	if err != nil {
		return nil, err
	}
	return &handlerpb.GetResponse{Object: source.get(wire.Key(r.GetNamespace(), r.GetName()))}, nil
}

// GetMany implements handlerpb.CacheServer.
func (s *cacheService) GetMany(r *handlerpb.GetManyRequest, to objectPages) error {
	if n := len(r.GetKeys()); n > handlerpb.MaxGetKeys {
		return status.Errorf(codes.InvalidArgument,
			"%d keys are more than the %d that one call may ask for", n, handlerpb.MaxGetKeys)
	}
	source, err := s.open(r.GetSource())
	if err != nil {
		return err
	}
	var objects [][]byte
	for _, key := range r.GetKeys() {
		objects = append(objects, source.get(key))
	}
	return sendObjects(to, objects)
}

// List implements handlerpb.CacheServer.
func (s *cacheService) List(r *handlerpb.ListRequest, to objectPages) error {
	source, err := s.open(r.GetSource())
	if err != nil {
		return err
	}
	selects, err := parseSelector(r.GetLabelSelector())
	if err != nil {
		return status.Errorf(codes.InvalidArgument,
			"the label selector %q: %v", r.GetLabelSelector(), err)
	}
	objects := source.list(r.GetNamespace(), selects)
	return sendObjects(to, texts(part(objects, r.GetAfter(), r.GetLimit())))
}

// ByIndex implements handlerpb.CacheServer.
func (s *cacheService) ByIndex(r *handlerpb.ByIndexRequest, to objectPages) error {
	index, err := s.index(r.GetSource(), r.GetIndex())
	if err != nil {
		return err
	}
	return sendObjects(to, texts(part(index[r.GetValue()], r.GetAfter(), r.GetLimit())))
}

// IndexKeys implements handlerpb.CacheServer.
func (s *cacheService) IndexKeys(
	r *handlerpb.ByIndexRequest, to grpc.ServerStreamingServer[handlerpb.KeyPage],
) error {
	index, err := s.index(r.GetSource(), r.GetIndex())
	if err != nil {
		return err
	}
	var keys []string
	for _, o := range part(index[r.GetValue()], r.GetAfter(), r.GetLimit()) {
		keys = append(keys, o.key)
	}
	return sendPages(keys, func(keys []string) error {
		return to.Send(&handlerpb.KeyPage{Keys: keys})
	})
}

// IndexValues implements handlerpb.CacheServer.
func (s *cacheService) IndexValues(
	r *handlerpb.IndexValuesRequest, to grpc.ServerStreamingServer[handlerpb.ValuePage],
) error {
	index, err := s.index(r.GetSource(), r.GetIndex())
	if err != nil {
		return err
	}
	values := slices.Sorted(maps.Keys(index))
	if r.After != nil {
		values = slices.DeleteFunc(values, func(v string) bool { return v <= r.GetAfter() })
	}
	values = values[:wire.Limited(len(values), r.GetLimit())]
	return sendPages(values, func(values []string) error {
		return to.Send(&handlerpb.ValuePage{Values: values})
	})
}

// part returns the objects whose keys come after one, at most limit of them; 0: all.
func part(all []madeUpObject, after string, limit uint32) []madeUpObject {
	first, n := wire.Part(len(all), func(i int) string { return all[i].key }, after, limit)
	return all[first : first+n]
}

func texts(objects []madeUpObject) (out [][]byte) {
	for _, o := range objects {
		out = append(out, o.json)
	}
	return out
}

// objectPages is a stream that sends objects.
type objectPages = grpc.ServerStreamingServer[handlerpb.ObjectPage]

func sendObjects(to objectPages, objects [][]byte) error {
	return sendPages(objects, func(objects [][]byte) error {
		return to.Send(&handlerpb.ObjectPage{Objects: objects})
	})
}

// sendPages sends an answer in pages of the size that informd's have.
func sendPages[E string | []byte](all []E, send func([]E) error) error {
	for len(all) > 0 {
		n, size := 0, 0
		for n < min(len(all), handlerpb.MaxPageElements) &&
			(n == 0 || size+len(all[n]) <= handlerpb.MaxPageBytes) {
			size += len(all[n])
			n++
		}
		if err := send(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}
