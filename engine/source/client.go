package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// apiClient makes one informer's requests, with client-go's REST clients. It reads lists and watches
// itself, from the body of the response (list.go, stream.go). The dynamic client would first read
// each list into memory, and would pass each event of a watch through a goroutine of its own.
type apiClient struct {
	lists     *rest.RESTClient
	watches   *rest.RESTClient
	selection Selection
	reader    *entryReader
}

// transports are the HTTP clients that informers share. Both have the same credentials.
type transports struct {
	lists   *http.Client
	watches *http.Client // see gatherer
}

func newClient(
	config *rest.Config, over transports, sel Selection, r *entryReader,
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
	return &apiClient{lists: lists, watches: watches, selection: sel, reader: r}, nil
}

// errNoWatch reports an answer that is no watch, although it says that the request has succeeded.
var errNoWatch = errors.New("the answer is no watch (is a proxy in between?)")

// watchesOnly refuses successful answers that are no watch, such as a page that asks to log in. An
// empty one would pass for a watch without events.
type watchesOnly struct{ next http.RoundTripper }

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
	body, err := c.get(ctx, c.watches, o)
	if err != nil {
		return nil, err
	}
	return newStream(body, c.reader), nil
}

// list reads a list, or one page of it, while it arrives. It keeps the items for which take returns
// true. More than room items are an error; n is how many there were: see readList.
func (c *apiClient) list(
	ctx context.Context, o metav1.ListOptions, room int64, take func(*entry) bool,
) (list *internalversion.List, n int64, err error) {
	body, err := c.get(ctx, c.lists, o)
	if err != nil {
		return nil, 0, err
	}
	defer body.Close()
	return readList(body, c.reader, room, take)
}

// get sends a request for the selection's objects, and returns the body of the response, which ends
// with ctx.
func (c *apiClient) get(
	ctx context.Context, through *rest.RESTClient, o metav1.ListOptions,
) (io.ReadCloser, error) {
	return through.Get().AbsPath(c.selection.path()...).
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.Unversioned).
		Stream(ctx)
}

// path returns the path of the selection's objects.
func (s Selection) path() []string {
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
