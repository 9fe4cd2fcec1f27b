package action

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handler"
)

const (
	requestTimeout = 30 * time.Second
	maxBody        = 32 << 20 // bytes of an answer: more than the API server stores of one object
)

// Answers come without the content of objects.
const (
	metadataOnly  = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	metadataLists = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
		"application/json"
)

// wholeObject asks for an answer with content, for a preview only.
const wholeObject = "application/json"

// client makes requests over an HTTP client that has the credentials. It does not repeat them.
type client struct {
	http *http.Client
	base *url.URL
}

func newClient(config *rest.Config, over *http.Client) (*client, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("the API server's address: %w", err)
	}
	return &client{http: over, base: base}, nil
}

// request is one request to the API server.
type request struct {
	method      string
	path        []string
	query       url.Values
	contentType string
	body        []byte
	accept      string // default: metadataOnly
}

// answer is what the client keeps of an answer.
type answer struct {
	code   int
	kind   string // Status after a deletion
	meta   metadata
	items  []metadata      // of a list
	status *metav1.Status  // of a refusal, if the API server gave one
	after  time.Duration   // how long the API server asks to wait
	object json.RawMessage // with content, if the request asks for wholeObject
}

// metadata is what the client keeps of an object's metadata. It has many fields because every verb
// looks at others.
type metadata struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	Continue          string            `json:"continue"` // of a list
	UID               string            `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	CreationTimestamp *metav1.Time      `json:"creationTimestamp"`
	DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
	Grace             *int64            `json:"deletionGracePeriodSeconds"`
	Finalizers        []string          `json:"finalizers"`
	ManagedFields     []manager         `json:"managedFields"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
}

type manager struct {
	Manager     string       `json:"manager"`
	Operation   string       `json:"operation"`
	Subresource string       `json:"subresource"`
	Time        *metav1.Time `json:"time"`
	// Fields has the names at the top of the object, each behind f:.
	Fields map[string]struct{} `json:"fieldsV1"`
}

// lastBeside returns the field manager that changed the object last before own, which has just
// written it. It returns "" if none is known that did so within a second: the API server forgets
// whoever owns no field any more.
func (m metadata) lastBeside(own string) (name string) {
	var newest, last time.Time // whole seconds
	for _, by := range m.ManagedFields {
		if by.Time == nil {
			continue
		}
		if by.Time.After(newest) {
			newest = by.Time.Time
		}
		if by.Manager != own && by.Time.After(last) {
			name, last = by.Manager, by.Time.Time
		}
	}
	if newest.Sub(last) > time.Second {
		return ""
	}
	return printable.Line(name, maxManager)
}

// removed reports whether the object is gone after this change, because the change removed the last
// finalizer of a deleted object. A Namespace has no grace period: something else holds it back.
func (m metadata) removed() bool {
	return m.DeletionTimestamp != nil && len(m.Finalizers) == 0 && m.Grace != nil && *m.Grace == 0
}

// do makes a request. It returns a *failure unless the API server says that it is done.
func (c *client) do(ctx context.Context, r request) (answer, *failure) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	address := c.base.JoinPath(r.path...)
	address.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, address.String(), bytes.NewReader(r.body))
	if err != nil {
		return answer{}, &failure{text: err.Error()}
	}
	req.Header.Set("Accept", cmp.Or(r.accept, metadataOnly))
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, unreachable(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	a := answer{code: resp.StatusCode, after: retryAfter(resp.Header)}
	if a.code < 200 || a.code > 299 {
		a.status = statusIn(body) // the body may be cut off
		f := classify(a)
		if isOfSecrets(r.path) {
			f.hide()
		}
		return a, f
	}
	var problem string
	switch {
	case err != nil:
		problem = "broke off: " + unreachable(err).text
	case len(body) > maxBody:
		problem = fmt.Sprintf("has more than %d MiB", maxBody>>20)
	case a.read(body) != nil:
		problem = "cannot be read: is there a proxy in between?"
	case r.accept == wholeObject:
		a.object = body
		return a, nil
	default:
		return a, nil
	}
	return a, &failure{code: a.code, text: "the API server's answer " + problem}
}

// read decodes what the client keeps of a body.
func (a *answer) read(body []byte) error {
	var is struct {
		Kind     string          `json:"kind"`
		Metadata metadata        `json:"metadata"`
		Details  json.RawMessage `json:"details"`
		Items    []struct {
			Metadata metadata `json:"metadata"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &is); err != nil {
		return err
	}
	if is.Kind == "" {
		return errors.New("no kind")
	}
	a.kind, a.meta = is.Kind, is.Metadata
	for _, item := range is.Items {
		a.items = append(a.items, item.Metadata)
	}
	if a.kind == "Status" {
		var details metav1.StatusDetails
		if json.Unmarshal(is.Details, &details) == nil {
			a.meta.UID = string(details.UID)
		}
	}
	return nil
}

// statusIn returns the Status in a body, or nil if it is none.
func statusIn(body []byte) *metav1.Status {
	var s metav1.Status
	if json.Unmarshal(body, &s) != nil || s.Kind != "Status" {
		return nil
	}
	return &s
}

func unreachable(err error) *failure {
	text := err.Error()
	if e, ok := errors.AsType[*url.Error](err); ok {
		text = e.Err.Error() // without the address
	}
	if errors.Is(err, context.DeadlineExceeded) {
		text = "no answer in time"
	}
	text = printable.Line(text, maxText)
	return &failure{text: "the API server cannot be reached: " + text, cause: err}
}

// isOfSecrets reports whether a path is one of Secrets.
func isOfSecrets(path []string) bool {
	return path[0] == "api" && (path[2] == "secrets" || len(path) > 4 && path[2] == "namespaces" && path[4] == "secrets")
}

// pathOf returns the path of a resource in the action's namespace.
func pathOf(r handler.Resource, namespace string, more ...string) []string {
	path := []string{"api", r.Version}
	if r.Group != "" {
		path = []string{"apis", r.Group, r.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	path = append(path, r.Resource)
	for _, m := range more {
		if m != "" {
			path = append(path, url.PathEscape(m))
		}
	}
	return path
}
