package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// apiClient makes one informer's requests, with client-go's REST clients. It reads lists and
// watches itself, from the body of the response (list.go, stream.go). The dynamic client would
// first read each list into memory, and would pass each event of a watch through a goroutine of its
// own.
type apiClient struct {
	lists     *rest.RESTClient
	watches   *rest.RESTClient
	selection Selection
	reader    *entryReader
	tuning    *tuning
	hearing   *hearing
}

// transports are the HTTP clients that informers share. Both have the same credentials.
type transports struct {
	lists   *http.Client
	watches *http.Client // see gatherer
}

func newClient(
	config *rest.Config, over transports, sel Selection, r *entryReader, h *hearing, t *tuning,
) (*apiClient, error) {
	config = dynamic.ConfigFor(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.APIPath, config.GroupVersion = "/", nil // each request has its full path
	config.QPS, config.RateLimiter = -1, nil
	lists, err := rest.UnversionedRESTClientForConfigAndClient(config, over.lists)
	if err != nil {
		return nil, err
	}
	watches, err := rest.UnversionedRESTClientForConfigAndClient(config, over.watches)
	if err != nil {
		return nil, err
	}
	return &apiClient{
		lists: lists, watches: watches, selection: sel, reader: r, tuning: t, hearing: h,
	}, nil
}

// errNoWatch reports an answer that is no watch, although it says that the request has succeeded.
var errNoWatch = errors.New("the answer is no watch (is a proxy in between?)")

// watchesOnly refuses successful answers that are no watch, such as a page that asks to log in. An
// empty one would pass for a watch without events.
type watchesOnly struct{ next http.RoundTripper }

// WrappedRoundTripper lets others find the connections.
func (w watchesOnly) WrappedRoundTripper() http.RoundTripper { return w.next }

// RoundTrip implements http.RoundTripper.
func (w watchesOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.next.RoundTrip(r)
	if err != nil || answer.StatusCode/100 != 2 {
		return answer, err
	}
	header := answer.Header.Get("Content-Type")
	kind, _, _ := mime.ParseMediaType(header)
	if answer.StatusCode == http.StatusOK && (header == "" || kind == runtime.ContentTypeJSON) {
		return answer, nil
	}
	_ = answer.Body.Close()
	return nil, fmt.Errorf("%w: status %d, type %.64q", errNoWatch, answer.StatusCode, header)
}

// watch opens a watch. Unlike client-go's own, it returns the error of a connection that breaks at
// once, and so the informer's state shows it.
func (c *apiClient) watch(ctx context.Context, o metav1.ListOptions) (*stream, error) {
	o.Watch = true
	limit := limits{header: c.patience(c.tuning.answer)}
	if sendsInitialEvents(o) {
		limit.header = c.patience(c.tuning.listing)
	}
	body, err := c.get(ctx, c.watches, o, limit)
	if err != nil {
		return nil, err
	}
	s := newStream(body, c.reader)
	if o.TimeoutSeconds != nil {
		s.lasts = time.Duration(*o.TimeoutSeconds) * time.Second
	}
	return s, nil
}

// patience returns how long a request waits for its answer to begin. Each request in a row that had
// none in time doubles it, up to five times the usual: the server may only be slow.
func (c *apiClient) patience(usual time.Duration) time.Duration {
	return min(usual<<min(c.hearing.mutes.Load(), 8), 5*usual)
}

// list reads a list, or one page of it, while it arrives. It keeps the items for which take returns
// true. More than room items are an error; n is how many there were: see readList.
func (c *apiClient) list(
	ctx context.Context, o metav1.ListOptions, room int64, take func(*entry) bool,
) (list *internalversion.List, n int64, err error) {
	within := limits{c.patience(c.tuning.listing), c.tuning.progress}
	return c.listWithin(ctx, o, within, room, take)
}

// page is list for a page that may not be the last. n is how much of the room the page uses up. A
// page without objects, which a server that filters may send, counts as a thousandth of a list's
// limit. So a server cannot send pages without end.
func (c *apiClient) page(
	ctx context.Context, o metav1.ListOptions, room int64, take func(*entry) bool,
) (list *internalversion.List, n int64, err error) {
	list, n, err = c.list(ctx, o, room, take)
	if err != nil || list.Continue == "" {
		return list, n, err
	}
	if n == 0 {
		n = max(1, c.tuning.maxListed/1000)
	}
	if n > room || list.Continue == o.Continue {
		return nil, n, errNoProgress
	}
	return list, n, nil
}

// listWithin is list with other limits.
func (c *apiClient) listWithin(
	ctx context.Context, o metav1.ListOptions, within limits, room int64, take func(*entry) bool,
) (list *internalversion.List, n int64, err error) {
	body, err := c.get(ctx, c.lists, o, within)
	if err != nil {
		return nil, 0, err
	}
	defer body.Close()
	body.heard = func() { c.hearing.hear() }
	return readList(body, c.reader, bound{room, c.tuning.maxListed}, take)
}

// get sends a request for the selection's objects, and returns the body of the response, which ends
// with ctx, or when nothing has come within the limits.
func (c *apiClient) get(
	ctx context.Context, through *rest.RESTClient, o metav1.ListOptions, within limits,
) (*answerBody, error) {
	body, err := within.limited(ctx, func(ctx context.Context) (io.ReadCloser, error) {
		// client-go would repeat a request in silence that the server refuses for the moment.
		return through.Get().MaxRetries(0).AbsPath(pathOf(c.selection)...).
			SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.Unversioned).
			Stream(ctx)
	})
	if _, isSilent := errors.AsType[*silentError](err); isSilent {
		c.hearing.mutes.Add(1)
	} else if ctx.Err() == nil {
		c.hearing.mutes.Store(0)
	}
	return body, err
}

// pathOf returns the path of the objects of a selection.
func pathOf(s Selection) []string {
	path := []string{"api"}
	if s.Resource.Group != "" {
		path = []string{"apis", s.Resource.Group}
	}
	path = append(path, s.Resource.Version)
	if s.Namespace != "" {
		path = append(path, "namespaces", s.Namespace)
	}
	return append(path, s.Resource.Resource)
}
