package control

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/plugins/handler/nearest"
)

// maxBody bounds the body of a request, in bytes. The ids of 10,000 letters fit.
const maxBody = 4 << 20

// maxPlanBody bounds that of a plan, which has manifests.
const maxPlanBody = 64 << 20

// answers handles the requests that ask a Backend.
type answers struct{ backend Backend }

func (a answers) status(w *answer, _ *http.Request) error {
	return writeJSON(w, a.backend.Status())
}

// pause returns the handler that pauses a rule, or resumes it.
func (a answers) pause(paused bool) func(*answer, *http.Request) error {
	return func(w *answer, r *http.Request) error {
		var request struct {
			Rule string `json:"rule"`
		}
		if err := readJSON(w, r, &request); err != nil {
			return err
		}
		err := a.backend.SetPaused(request.Rule, paused)
		if errors.Is(err, ErrNotFound) {
			return a.noRule(request.Rule)
		}
		if err != nil {
			return err
		}
		done := "resumed"
		if paused {
			done = "paused"
		}
		if err := a.backend.Written(r.Context()); err != nil {
			return unwritten("rule "+request.Rule+" is "+done, err)
		}
		return writeJSON(w, struct{}{})
	}
}

// unwritten returns that something is done, and that a crash would undo it.
func unwritten(done string, why error) *Error {
	return problem(http.StatusServiceUnavailable, "%s, but a restart may undo that: %v", done, why)
}

// explain says why a rule did not fire, or why it did.
func (a answers) explain(w *answer, r *http.Request) error {
	query := r.URL.Query()
	x, err := a.backend.Explain(query.Get("rule"), query.Get("namespace"), query.Get("name"),
		query.Get("secrets") == "show")
	if errors.Is(err, ErrNotFound) {
		return a.noRule(query.Get("rule"))
	}
	if err != nil {
		return err
	}
	return writeJSON(w, x)
}

// events says what has happened to changes and deliveries.
func (a answers) events(w *answer, r *http.Request) error {
	query := r.URL.Query()
	after, err := uint64(0), error(nil)
	if text := query.Get("after"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return problem(http.StatusBadRequest, "after=%.100q is no number", text)
		}
	}
	events, err := a.backend.Events(query.Get("rule"), after)
	if errors.Is(err, ErrNotFound) {
		return a.noRule(query.Get("rule"))
	}
	if err != nil {
		return err
	}
	return writeJSON(w, events)
}

// resync has a rule see all objects.
func (a answers) resync(w *answer, r *http.Request) error {
	var request struct {
		Rule string `json:"rule"`
	}
	if err := readJSON(w, r, &request); err != nil {
		return err
	}
	n, err := a.backend.Resync(r.Context(), request.Rule)
	if errors.Is(err, ErrNotFound) {
		return a.noRule(request.Rule)
	}
	if err != nil {
		return err
	}
	if err := a.backend.Written(r.Context()); err != nil {
		return unwritten("rule "+request.Rule+" sees its objects again", err)
	}
	return writeJSON(w, Resynced{n})
}

// retryRule tries what waits for a retry now.
func (a answers) retryRule(w *answer, r *http.Request) error {
	var request struct {
		Rule   string `json:"rule"`
		Object string `json:"object"`
	}
	if err := readJSON(w, r, &request); err != nil {
		return err
	}
	n, err := a.backend.RetryRule(request.Rule, request.Object)
	if errors.Is(err, ErrNotFound) {
		return a.noRule(request.Rule)
	}
	if none, ok := errors.AsType[*NotWaitingError](err); ok {
		return problem(http.StatusNotFound, "%s", none.Error())
	}
	if err != nil {
		return err
	}
	return writeJSON(w, Retried{Objects: n})
}

// reload reloads a handler. The client may wait for as long as that takes.
func (a answers) reload(w *answer, r *http.Request) error {
	var request struct {
		Handler string `json:"handler"`
	}
	if err := readJSON(w, r, &request); err != nil {
		return err
	}
	reloaded, err := a.backend.ReloadHandler(r.Context(), request.Handler)
	if errors.Is(err, ErrNotFound) {
		return unknown("handler", request.Handler, a.handlers())
	}
	if err != nil {
		return err
	}
	return writeJSON(w, reloaded)
}

// reloadAll reloads the manifests. The client may wait for as long as that takes.
func (a answers) reloadAll(w *answer, r *http.Request) error {
	if err := readJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	reloaded, err := a.backend.Reload(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, reloaded)
}

// plan returns what a reload would change.
func (a answers) plan(w *answer, r *http.Request) error {
	var request planRequest
	if err := readJSON(w, r, &request); err != nil {
		return err
	}
	planned, err := a.backend.Plan(r.Context(), request.Files)
	if err != nil {
		return err
	}
	return writeJSON(w, planned)
}

func (a answers) rules() (names []string) {
	for _, r := range a.backend.Status().Rules {
		names = append(names, r.Name)
	}
	return names
}

// noRule returns that there is no rule of that name, or how the rule is called now.
func (a answers) noRule(name string) *Error {
	for _, r := range a.backend.Status().Rules {
		if name != "" && r.Former == name {
			return problem(http.StatusNotFound, "the rule %.100s is called %.100s now", name, r.Name)
		}
	}
	return unknown("rule", name, a.rules())
}

func (a answers) handlers() (names []string) {
	for _, h := range a.backend.Status().Handlers {
		names = append(names, h.Name)
	}
	return names
}

// unknown returns that there is nothing of that name, with a guess and the names that there are.
func unknown(kind, name string, names []string) *Error {
	names = slices.Sorted(slices.Values(names))
	guess := ""
	if near := nearest.Name(name, names); near != "" {
		guess = "; did you mean " + near + "?"
	}
	there := "there is none"
	if len(names) > 0 {
		there = "there are: " + strings.Join(names[:min(len(names), 100)], ", ")
	}
	return problem(http.StatusNotFound, "no %s %.100q%s (%s)", kind, name, guess, there)
}

// readJSON decodes the body of a request, which must be a single JSON value without unknown fields.
func readJSON(w *answer, r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		if _, err = decoder.Token(); err == io.EOF {
			// once expired, it would end the request's context
			return w.control.SetReadDeadline(time.Time{})
		}
		err = errors.New("more than one JSON value")
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(r)
	}
	return problem(http.StatusBadRequest, "the request's body: %v", err)
}

// tooLarge returns that the body of a request is too large.
func tooLarge(r *http.Request) *Error {
	return problem(http.StatusRequestEntityTooLarge,
		"the request is larger than %d MiB: ask for less at a time", limitOf(r)>>20)
}

// newEncoder returns an encoder that does not escape for HTML.
func newEncoder(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder
}

func writeJSON(w *answer, v any) error {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	return newEncoder(w).Encode(v)
}
