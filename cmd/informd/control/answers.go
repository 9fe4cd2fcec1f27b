package control

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/internal/nearest"
)

// maxBody bounds a request's body: it has the ids of 10,000 letters.
const maxBody = 4 << 20

// answers are what the daemon says.
type answers struct{ backend Backend }

func (a answers) status(w *answer, _ *http.Request) error {
	return writeJSON(w, a.backend.Status())
}

// pause pauses a rule, or resumes it.
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
			return unknown("rule", request.Rule, a.rules())
		}
		if err != nil {
			return err
		}
		return writeJSON(w, struct{}{})
	}
}

// reload has a handler reloaded, which whoever asked may wait for as long as it takes.
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

func (a answers) rules() (names []string) {
	for _, r := range a.backend.Status().Rules {
		names = append(names, r.Name)
	}
	return names
}

func (a answers) handlers() (names []string) {
	for _, h := range a.backend.Status().Handlers {
		names = append(names, h.Name)
	}
	return names
}

// unknown says that there is nothing of that name, and what there is.
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

// readJSON reads the one value that a request's body is.
func readJSON(w *answer, r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		if _, err = decoder.Token(); err == io.EOF {
			return w.control.SetReadDeadline(time.Time{}) // which would end the request's context
		}
		err = errors.New("more than one JSON value")
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem(http.StatusRequestEntityTooLarge, "the request is larger than %d MiB: ask for less at a time", maxBody>>20)
	}
	return problem(http.StatusBadRequest, "the request's body: %v", err)
}

// newEncoder makes an encoder that leaves text as it is: nobody reads it as HTML.
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
