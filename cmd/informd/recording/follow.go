package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/object/scan"
)

// follower lists and watches one selection. It passes on what the API server sends, as it is.
type follower struct {
	recorder *recorder
	object.Selection
	version string              // the resourceVersion up to which it has followed
	isDown  bool                // it fails, and has said so
	known   map[string]identity // the newest states in the recording, by key; see recorder.mu
}

func (f *follower) selection() selection { return newSelection(f.Selection) }

// pageSize is how many objects an answer to a list has at most.
const pageSize = 500

// Pauses between attempts that fail: the first, and the longest after doubling.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// errExpired means that the API server no longer has the history since the follower's version.
var errExpired = errors.New("the API server has lost the history since the last change")

// get begins a request for the selection's objects. The caller closes the body.
func (f *follower) get(ctx context.Context, o metav1.ListOptions) (io.ReadCloser, error) {
	path := []string{"api"}
	if f.Resource.Group != "" {
		path = []string{"apis", f.Resource.Group}
	}
	path = append(path, f.Resource.Version)
	if f.Namespace != "" {
		path = append(path, "namespaces", f.Namespace)
	}
	o.LabelSelector, o.FieldSelector = f.LabelSelector, f.FieldSelector
	return f.recorder.client.Get().AbsPath(append(path, f.Resource.Resource)...).
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.Unversioned).Stream(ctx)
}

// list returns all objects, and sets the version.
func (f *follower) list(ctx context.Context) (all []*object.Object, err error) {
	empty := 0
	for token := ""; ; {
		page, err := f.page(ctx, pageSize, token)
		switch {
		case apierrors.IsResourceExpired(err) && token != "": // it took too long
			all, token = nil, ""
			continue
		case err != nil:
			return nil, f.failed(err)
		}
		parser := whole.Typed(page.APIVersion, strings.TrimSuffix(page.Kind, "List"))
		for _, text := range page.Items {
			s := scan.New(text)
			o, _, err := parser.Parse(&s)
			if err != nil || o.Name() == "" {
				f.recorder.unfit(f.Selection, err)
				continue
			}
			all = append(all, o)
		}
		if len(page.Items) == 0 { // which is legal
			empty++
		}
		next := page.Metadata.Continue
		switch {
		case next == "":
			f.version = page.Metadata.ResourceVersion
			return all, nil
		case next == token, empty > maxEmptyPages:
			return nil, f.failed(errors.New("the API server's list does not get on: " +
				"page after page has no objects, or one leads to itself"))
		case len(all) > maxListed:
			return nil, f.failed(fmt.Errorf("the API server sends more than %d objects", maxListed))
		}
		token = next
	}
}

// check returns an error if the selection cannot be listed.
func (f *follower) check(ctx context.Context) error {
	if _, err := f.page(ctx, 1, ""); err != nil {
		return f.failed(err)
	}
	return nil
}

// failed returns an error of a list, for the user.
func (f *follower) failed(err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the cluster does not serve %s", object.ResourceName(f.Resource))
	}
	return fmt.Errorf("list %v: %w", f.selection(), err)
}

// whole reads whole objects, without their managedFields, which no rule sees.
var whole = object.NewParser(nil, nil)

// The bounds of what the API server sends, which is not trusted for size.
const (
	maxPage       = 256 << 20 // bytes of a page
	maxListed     = 2_000_000 // objects of all pages
	maxEmptyPages = 1000      // of one list; a page without objects is legal
	maxFrame      = 16 << 20  // bytes of an event of a watch
)

// limited is a reader that fails beyond its limit.
type limited struct {
	io.Reader
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.New("the API server sends more than informd takes")
	}
	n, err := l.Reader.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// page is an answer to a list.
type page struct {
	metav1.TypeMeta
	Metadata metav1.ListMeta
	Items    []json.RawMessage
}

func (f *follower) page(ctx context.Context, limit int64, token string) (*page, error) {
	body, err := f.get(ctx, metav1.ListOptions{Limit: limit, Continue: token})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	p := new(page)
	if err := json.NewDecoder(&limited{body, maxPage}).Decode(p); err != nil {
		return nil, err
	}
	return p, nil
}

// run follows the selection from its version until ctx ends. The error is one that the recording
// does not survive.
func (f *follower) run(ctx context.Context) error {
	for pause := firstPause; ; {
		began := time.Now()
		failed, fatal := f.watch(ctx)
		if errors.Is(failed, errExpired) {
			failed, fatal = f.again(ctx)
		}
		if fatal != nil || ctx.Err() != nil {
			return fatal
		}
		f.note(failed)
		switch lasted := time.Since(began); {
		case failed == nil && lasted > firstPause:
			pause = firstPause
			continue // the server ends watches now and then
		case lasted > longestPause:
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, longestPause)
	}
}

// note says that the follower fails, or no longer fails.
func (f *follower) note(failed error) {
	switch {
	case failed != nil && !f.isDown:
		if e, ok := errors.AsType[*url.Error](failed); ok {
			failed = e.Err // the URL says less than the selection
		}
		f.recorder.say("cannot follow %v, and will try again: %v", f.selection(), failed)
	case failed == nil && f.isDown:
		f.recorder.say("following %v again", f.selection())
	}
	f.isDown = failed != nil
}

// again lists after a gap, and records what has changed meanwhile.
func (f *follower) again(ctx context.Context) (failed, fatal error) {
	all, err := f.list(ctx)
	if err != nil {
		return err, nil
	}
	f.note(nil)
	f.recorder.say("%v: %v, so the recording has a gap; listed again", f.selection(), errExpired)
	return nil, f.recorder.listedAgain(f, all)
}

// watchLimit is how long the API server keeps a watch open.
const watchLimit = int64(5*time.Minute) / int64(time.Second)

// watch records what one watch reports, until it ends.
func (f *follower) watch(ctx context.Context) (failed, fatal error) {
	limit := watchLimit
	body, err := f.get(ctx, metav1.ListOptions{
		Watch: true, AllowWatchBookmarks: true, ResourceVersion: f.version, TimeoutSeconds: &limit,
	})
	if isExpired(err) {
		return errExpired, nil
	}
	if err != nil {
		return err, nil
	}
	defer body.Close()
	f.note(nil)
	in := &limited{Reader: body}
	for decoder := json.NewDecoder(in); ; {
		var l line
		in.left = maxFrame
		switch err := decoder.Decode(&l); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), ctx.Err() != nil:
			return nil, nil
		case err != nil:
			return err, nil
		}
		if l.Type == typeError {
			return failure(l.Object), nil
		}
		s := scan.New(l.Object)
		o, _, err := whole.Parse(&s)
		if err != nil {
			f.recorder.unfit(f.Selection, err)
			continue
		}
		if l.Type != typeBookmark {
			if err := f.recorder.reported(f, l.Type, o); err != nil {
				return nil, err
			}
		}
		f.version = o.ResourceVersion()
	}
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// failure returns the error that a watch reports.
func failure(object []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(object, &status); err != nil {
		return fmt.Errorf("the watch reports an error: %.200q", object)
	}
	if err := apierrors.FromObject(&status); !isExpired(err) {
		return err
	}
	return errExpired
}

// newClient returns a client whose answers come as they are.
func newClient(config *rest.Config) (*rest.RESTClient, error) {
	config = dynamic.ConfigFor(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.APIPath, config.GroupVersion = "/", nil // each request has its full path
	config.QPS, config.RateLimiter = -1, nil       // a list for each selection, and then watches
	config.Timeout = 0                             // watches last
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to %s: %w", config.Host, err)
	}
	return client, nil
}
