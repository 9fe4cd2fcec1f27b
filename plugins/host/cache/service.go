package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler/nearest"
	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

// service answers the calls of one process.
type service struct {
	handlerpb.UnimplementedCacheServer
	sources Sources
	reader  Reader
	turn    places // one: held to read the cache or to make a page
	long    places // one per answer of several pages
}

func newService(sources Sources, reader Reader) *service {
	return &service{
		sources: sources, reader: reader,
		turn: make(places, 1), long: make(places, maxLong),
	}
}

// serviceDesc returns handlerpb's description with another Get, which answers with a page.
func serviceDesc() *grpc.ServiceDesc {
	desc := handlerpb.Cache_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "Get" {
			desc.Methods[i].Handler = func(
				srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
			) (any, error) {
				in := new(handlerpb.GetRequest)
				if err := decode(in); err != nil {
					return nil, err
				}
				return srv.(*service).get(ctx, in)
			}
		}
	}
	return &desc
}

func (s *service) get(ctx context.Context, r *handlerpb.GetRequest) (answer any, err error) {
	defer func() { s.count(err) }()
	source, err := s.open(ctx, r.GetSource())
	if err != nil {
		return nil, err
	}
	p, err := accountOf(ctx).page(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.turn.enter(ctx, takeTimeout, "readings"); err != nil {
		p.drop()
		return nil, err
	}
	defer s.turn.leave()
	json, ok := source.Get(r.GetNamespace(), r.GetName())
	if !ok {
		p.drop()
		return &handlerpb.GetResponse{}, nil
	}
	p.fill(elements{1, func(int) []byte { return json }}, 0)
	return p, nil
}

// objectPages is a stream that sends objects.
type objectPages = grpc.ServerStreamingServer[handlerpb.ObjectPage]

func (s *service) GetMany(r *handlerpb.GetManyRequest, to objectPages) error {
	keys := r.GetKeys()
	if len(keys) > handlerpb.MaxGetKeys {
		return status.Errorf(codes.InvalidArgument,
			"%d keys are more than the %d that one call may ask for",
			len(keys), handlerpb.MaxGetKeys)
	}
	return s.stream(to, r.GetSource(), false, func(source Source) (elements, error) {
		return elements{len(keys), func(i int) []byte {
			json, _ := source.Get(wire.SplitKey(keys[i]))
			return json
		}}, nil
	})
}

func (s *service) List(r *handlerpb.ListRequest, to objectPages) error {
	selector := r.GetLabelSelector()
	if len(selector) > maxSelector {
		return status.Errorf(codes.InvalidArgument,
			"the label selector is longer than %d bytes", maxSelector)
	}
	return s.stream(to, r.GetSource(), true, func(source Source) (elements, error) {
		all, err := source.List(r.GetNamespace(), selector)
		if err != nil {
			return elements{}, status.Errorf(codes.InvalidArgument,
				"the label selector %s does not parse: %v", quote(selector), err)
		}
		return objects(all, r.GetAfter(), r.GetLimit()), nil
	})
}

func (s *service) ByIndex(r *handlerpb.ByIndexRequest, to objectPages) error {
	return s.byIndex(to, r, func(all Objects) elements {
		return objects(all, r.GetAfter(), r.GetLimit())
	})
}

func (s *service) IndexKeys(
	r *handlerpb.ByIndexRequest, to grpc.ServerStreamingServer[handlerpb.KeyPage],
) error {
	return s.byIndex(to, r, func(all Objects) elements {
		return keys(all, r.GetAfter(), r.GetLimit())
	})
}

func (s *service) byIndex(
	to grpc.ServerStream, r *handlerpb.ByIndexRequest, pick func(Objects) elements,
) error {
	return s.stream(to, r.GetSource(), false, func(source Source) (elements, error) {
		all, ok := source.ByIndex(r.GetIndex(), r.GetValue())
		if !ok {
			return elements{}, noIndex(source, r.GetSource(), r.GetIndex())
		}
		return pick(all), nil
	})
}

func (s *service) IndexValues(
	r *handlerpb.IndexValuesRequest, to grpc.ServerStreamingServer[handlerpb.ValuePage],
) error {
	return s.stream(to, r.GetSource(), false, func(source Source) (elements, error) {
		all, ok := source.IndexValues(r.GetIndex())
		if !ok {
			return elements{}, noIndex(source, r.GetSource(), r.GetIndex())
		}
		if r.After != nil {
			all = all[sort.Search(len(all), func(i int) bool { return all[i] > r.GetAfter() }):]
		}
		return texts(all[:wire.Limited(len(all), r.GetLimit())]), nil
	})
}

// stream answers a call in pages, and counts it.
func (s *service) stream(
	to grpc.ServerStream, source string, long bool, find func(Source) (elements, error),
) error {
	err := s.answer(to, source, long, find)
	s.count(err)
	return err
}

// count counts a call. A call that the process cancelled does not count as refused.
func (s *service) count(err error) {
	if s.reader.Counts == nil {
		return
	}
	s.reader.Counts.Calls.Add(1)
	if err != nil && status.Code(err) != codes.Canceled {
		s.reader.Counts.Refused.Add(1)
	}
}

// answer sends what find returns, in pages. An answer of several pages needs one of few places. If
// the need for several shows only with the first page, answer starts again with a place: it calls
// find again, because it retains no objects while it waits.
func (s *service) answer(
	to grpc.ServerStream, name string, long bool, find func(Source) (elements, error),
) error {
	ctx := to.Context()
	source, err := s.open(ctx, name)
	if err != nil {
		return err
	}
	account := accountOf(ctx)
	if long {
		if err := s.long.enter(ctx, takeTimeout, "long answers waiting to be read"); err != nil {
			return err
		}
		defer s.long.leave()
	}
	p, err := account.page(ctx)
	if err != nil {
		return err
	}
	all, next, err := s.begin(ctx, p, source, find)
	if err != nil || next == 0 {
		p.drop()
		return err
	}
	if next < all.n && !long {
		p.drop()
		return s.answer(to, name, true, find)
	}
	began := time.Now()
	if next < all.n {
		// A process that does not read blocks SendMsg until it cancels the call or the connection
		// ends.
		overdue := time.AfterFunc(longTimeout+takeTimeout, account.abort)
		defer overdue.Stop()
	}
	for {
		if err := to.SendMsg(p); err != nil || next == all.n {
			return err
		}
		if time.Since(began) > longTimeout {
			return status.Errorf(codes.DeadlineExceeded,
				"the answer was not read within %v; ask for parts of it, by limit and after",
				longTimeout)
		}
		if p, err = account.page(ctx); err != nil {
			return err
		}
		if err := s.turn.enter(ctx, takeTimeout, "readings"); err != nil {
			p.drop()
			return err
		}
		next = p.fill(all, next)
		s.turn.leave()
	}
}

// begin calls find and fills the first page. next is where the second page begins, or 0 if the
// answer is empty.
func (s *service) begin(
	ctx context.Context, p *page, source Source, find func(Source) (elements, error),
) (all elements, next int, err error) {
	if err := s.turn.enter(ctx, takeTimeout, "readings"); err != nil {
		return all, 0, err
	}
	defer s.turn.leave()
	if all, err = find(source); err != nil || all.n == 0 {
		return all, 0, err
	}
	return all, p.fill(all, 0), nil
}

// open returns a source, if the handler may read it.
func (s *service) open(ctx context.Context, name string) (Source, error) {
	if s.sources == nil {
		return nil, status.Error(codes.Unavailable,
			"there is no cache to read: the handler was started only for a check")
	}
	if !slices.Contains(s.reader.Sources, name) {
		return nil, s.denied(name)
	}
	wait := syncTimeout
	if deadline, ok := ctx.Deadline(); ok {
		// The reason must arrive before the caller gives up.
		wait = min(wait, time.Until(deadline)*9/10)
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	source, err := s.sources.Open(waiting, name)
	switch {
	case err == nil:
		return source, nil
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, ErrNoSource):
		return nil, status.Errorf(codes.NotFound,
			"source %s is new in the manifests: it can be read once informd is restarted",
			quote(name))
	}
	return nil, status.Errorf(codes.Unavailable,
		"source %s cannot be read now: %v", quote(name), err)
}

func (s *service) denied(name string) error {
	names := s.sources.Names()
	if slices.Contains(names, name) {
		wanted := strings.Join(append(slices.Clone(s.reader.Sources), name), ", ")
		return status.Errorf(codes.PermissionDenied, "handler %s may not read source %s: "+
			"to allow it, add to its manifest spec: {access: {read: [%s]}}",
			quote(s.reader.Handler), quote(name), wanted)
	}
	return status.Errorf(codes.NotFound,
		"there is no source %s%s", quote(name), didYouMean(name, names))
}

func noIndex(source Source, name, index string) error {
	return status.Errorf(codes.NotFound, "source %s has no index %s%s",
		quote(name), quote(index), didYouMean(index, source.Indexes()))
}

func didYouMean(name string, names []string) string {
	if hint := nearest.Name(name, names); hint != "" {
		return fmt.Sprintf("; did you mean %s?", quote(hint))
	}
	return ""
}

// quote quotes a name from a handler, which may be of any length.
func quote(s string) string {
	const most = 100
	if len(s) > most {
		return strconv.QuoteToGraphic(s[:most]) + "…"
	}
	return strconv.QuoteToGraphic(s)
}
