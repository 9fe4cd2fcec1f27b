package control

import (
	"bufio"
	"errors"
	"net/http"
	"slices"
)

// letters streams the dead letters of a rule, of a handler, or all, without their events.
func (a answers) letters(w *answer, r *http.Request) error {
	values := r.URL.Query()
	letters, err := a.matching(values.Get("rule"), values.Get("handler"))
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, chunk)
	lines := newEncoder(out)
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, l := range letters {
		l = maskLetter(l)
		if err := lines.Encode(l); err != nil {
			return err
		}
	}
	return out.Flush()
}

// letter answers with a dead letter and its event. The id is a query parameter because it contains
// slashes.
func (a answers) letter(w *answer, r *http.Request) error {
	values := r.URL.Query()
	id := values.Get("id")
	l, err := a.backend.Letter(id)
	if errors.Is(err, ErrNotFound) {
		return noLetter(id)
	}
	if err != nil {
		return err
	}
	if !values.Has("secrets") {
		l = maskLetter(l)
	}
	return writeJSON(w, l)
}

func noLetter(id string) *Error {
	return problem(http.StatusNotFound, "no dead letter %.300q; informd dead list -o wide shows them. "+
		"It may have been retried or dropped, or have made room for newer ones", id)
}

// matching returns the letters of a rule and of a handler. An empty name stands for all, an unknown
// one is an error.
func (a answers) matching(rule, handler string) ([]Letter, error) {
	letters, err := a.backend.Letters()
	if err != nil {
		return nil, err
	}
	letters = slices.DeleteFunc(letters, func(l Letter) bool {
		return rule != "" && l.Rule != rule || handler != "" && l.Handler != handler
	})
	if len(letters) > 0 {
		return letters, nil
	}
	if rule != "" && !slices.Contains(a.rules(), rule) {
		return nil, a.noRule(rule)
	}
	if names := a.handlers(); handler != "" && !slices.Contains(names, handler) {
		return nil, unknown("handler", handler, names)
	}
	return nil, nil
}

// act returns the handler that applies do to each letter of a choice. It goes on after a failure,
// and stops if the client goes.
func (a answers) act(do func(Backend, string) error) func(*answer, *http.Request) error {
	return func(w *answer, r *http.Request) error {
		var choice LetterChoice
		if err := readJSON(w, r, &choice); err != nil {
			return err
		}
		ids, err := a.chosen(choice)
		if err != nil {
			return err
		}
		var outcome Outcome
		for _, id := range ids {
			if err := r.Context().Err(); err != nil {
				return err
			}
			err := do(a.backend, id)
			switch {
			case err == nil:
				outcome.Done++
			case !errors.Is(err, ErrNotFound):
				failure := LetterFailure{ID: id, Error: err.Error()}
				outcome.Failures = append(outcome.Failures, failure)
			case len(choice.IDs) > 0: // otherwise another request was faster
				failure := LetterFailure{ID: id, Error: noLetter(id).Message}
				outcome.Failures = append(outcome.Failures, failure)
			}
		}
		if outcome.Done > 0 {
			if err := a.backend.Written(r.Context()); err != nil {
				outcome.Unwritten = err.Error()
			}
		}
		return writeJSON(w, outcome)
	}
}

// chosen returns the ids of the letters of a choice, without duplicates.
func (a answers) chosen(c LetterChoice) (ids []string, err error) {
	ways := 0
	for _, way := range []bool{len(c.IDs) > 0, c.Rule != "", c.Handler != "", c.All} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return nil, problem(http.StatusBadRequest,
			"choose dead letters in exactly one way: by ids, by rule, by handler, or all")
	}
	seen := make(map[string]bool)
	for _, id := range c.IDs {
		if !seen[id] {
			seen[id], ids = true, append(ids, id)
		}
	}
	if len(ids) > 0 {
		return ids, nil
	}
	letters, err := a.matching(c.Rule, c.Handler)
	for _, l := range letters {
		ids = append(ids, l.ID)
	}
	return ids, err
}
