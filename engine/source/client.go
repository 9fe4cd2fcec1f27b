package source

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// apiClient makes one informer's requests. It is client-go's REST client with a [codec] instead of
// its serializers. Watches go through the dynamic client on top of another one, whose connections
// gather. Lists come from the REST client's stream, because the dynamic client would first read
// each list into memory.
type apiClient struct {
	rest      *rest.RESTClient // for lists
	resource  dynamic.ResourceInterface
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
	config.NegotiatedSerializer = codec{r}
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
	resource := dynamic.New(watches).Resource(sel.Resource)
	c := &apiClient{rest: lists, resource: resource, selection: sel, reader: r}
	if sel.Namespace != "" {
		c.resource = resource.Namespace(sel.Namespace)
	}
	return c, nil
}

// watch opens a watch. Its events carry *entry or *metav1.Status.
func (c *apiClient) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return c.resource.Watch(ctx, o)
}

// list reads a list, or one page of it, while it arrives. It keeps the items for which take returns
// true: see readList.
func (c *apiClient) list(
	ctx context.Context, o metav1.ListOptions, take func(*entry) bool,
) (*internalversion.List, error) {
	body, err := c.rest.Get().AbsPath(c.selection.path()...).
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.Unversioned).
		Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readList(body, c.reader, take)
}

// path returns the path of the request that lists the selection's objects.
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
