package apistub

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// request is a parsed path and query for a resource.
type request struct {
	gvr             schema.GroupVersionResource
	namespace, name string
	opts            internalversion.ListOptions
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	out := &stalling{ResponseWriter: w, server: s, request: r}
	if w = out; !out.begins() {
		return
	}
	defer out.allowed() // its end stalls, too
	s.mu.Lock()
	fail := s.fail
	s.mu.Unlock()
	if fail != nil {
		if status := fail(r); status != nil {
			writeStatus(w, *status)
			return
		}
	}
	q, ok := parsePath(r.URL.Path)
	if !ok {
		s.discover(w, r)
		return
	}
	if r.Method == http.MethodGet && q.gvr == namespaces && q.name == system && !s.serves(q.gvr) {
		writeJSON(w, http.StatusOK, map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": system, "uid": s.uid, "resourceVersion": "1"},
		})
		return
	}
	if err := s.resource(w, r, q); err != nil {
		status := apierrors.NewInternalError(err)
		errors.As(err, &status)
		writeStatus(w, status.ErrStatus)
	}
}

// Every cluster has the namespace kube-system, whose uid tells clusters apart. A Server that does
// not serve namespaces has only this one.
const system = "kube-system"

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

func (s *Server) serves(gvr schema.GroupVersionResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resources[gvr] != nil
}

// parsePath reads PREFIX/RESOURCE[/NAME] and PREFIX/namespaces/NAMESPACE/RESOURCE[/NAME], where
// PREFIX is /api/VERSION or /apis/GROUP/VERSION. It returns false for other paths.
func parsePath(path string) (request, bool) {
	var q request
	p := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(p) > 2 && p[0] == "api":
		q.gvr.Version, p = p[1], p[2:]
	case len(p) > 3 && p[0] == "apis":
		q.gvr.Group, q.gvr.Version, p = p[1], p[2], p[3:]
	default:
		return q, false
	}
	if len(p) > 2 && p[0] == "namespaces" {
		q.namespace, p = p[1], p[2:]
	}
	q.gvr.Resource = p[0]
	if len(p) == 2 {
		q.name = p[1]
	}
	return q, len(p) < 3
}

// resource answers a get, list or watch. It returns an error only before it has written anything.
func (s *Server) resource(w http.ResponseWriter, r *http.Request, q request) error {
	if r.Method != http.MethodGet {
		return apierrors.NewMethodNotSupported(q.gvr.GroupResource(), strings.ToLower(r.Method))
	}
	err := scheme.ParameterCodec.DecodeParameters(
		r.URL.Query(), metav1.SchemeGroupVersion, &q.opts)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	verb := s.count(q)

	s.mu.Lock()
	res, forbidden, watchList := s.resources[q.gvr], s.forbidden[q.gvr], !s.noWatchList
	s.mu.Unlock()
	switch {
	case forbidden:
		return apierrors.NewForbidden(q.gvr.GroupResource(), q.name, fmt.Errorf(
			"%s cannot %s resource %q in API group %q",
			`User "stub"`, verb, q.gvr.Resource, q.gvr.Group))
	case res == nil,
		!res.namespaced && q.namespace != "",
		res.namespaced && q.namespace == "" && q.name != "":
		http.Error(w, "404 page not found", http.StatusNotFound) // as the real one, no Status
		return nil
	case q.name != "":
		return s.get(w, res, q)
	}
	internalversion.SetListOptionsDefaults(&q.opts, watchList)
	if errs := validation.ValidateListOptions(&q.opts, watchList); len(errs) > 0 {
		kind := schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}
		return apierrors.NewInvalid(kind, "", errs)
	}
	if q.opts.Watch {
		return s.watch(w, r, res, q)
	}
	return s.list(w, r, res, q)
}

func (s *Server) count(q request) (verb string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.signal()
	switch {
	case q.name != "":
		s.requests.Gets[q.gvr]++
		return "get"
	case q.opts.Watch:
		s.requests.Watches[q.gvr]++
		if q.opts.SendInitialEvents != nil {
			s.requests.WatchLists[q.gvr]++
		}
		return "watch"
	default:
		s.requests.Lists[q.gvr]++
		return "list"
	}
}

// sees returns which documents a request selects.
func (q *request) sees(d *document) bool {
	return d != nil && (q.namespace == "" || q.namespace == d.namespace) &&
		d.matches(q.opts.LabelSelector, q.opts.FieldSelector)
}

// beginListing counts an initial state and holds it back as long as the switches say.
func (s *Server) beginListing(r *http.Request) (end func(), err error) {
	s.mu.Lock()
	s.listing++
	s.requests.MaxListing = max(s.requests.MaxListing, s.listing)
	slow, gate := s.slow, s.gate
	s.signal()
	s.mu.Unlock()

	end = func() { s.set(func() { s.listing-- }) }
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
		}
	}
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
	if err := r.Context().Err(); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// parseVersion returns the resourceVersion of a request, or 0 without one.
func parseVersion(text string) (int64, error) {
	var rv int64
	if text == "" {
		return 0, nil
	}
	if _, err := fmt.Sscanf(text, "%d", &rv); err != nil || rv < 0 {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q", text))
	}
	return rv, nil
}

// tooLarge answers a request for a resourceVersion in the future, as kube-apiserver does after a
// while.
func tooLarge(rv, current int64) error {
	err := apierrors.NewTimeoutError(
		fmt.Sprintf("Too large resource version: %d, current: %d", rv, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

func tooOld(rv, floor int64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", rv, floor))
}

func writeStatus(w http.ResponseWriter, status metav1.Status) {
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(status.Details.RetryAfterSeconds))
	}
	writeJSON(w, int(status.Code), withKind(status))
}

func withKind(status metav1.Status) metav1.Status {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	return status
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
