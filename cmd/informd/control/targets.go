package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/informd/informd/engine/explain"
)

// TargetQuery asks for targets of rules' own actions. An empty field does not narrow it.
type TargetQuery struct {
	Rule      string
	Namespace string // of the targets
	State     string // one of TargetStates
}

// TargetStates returns the states of targets, in order.
func TargetStates() []string {
	return []string{"asked", "done", "waits", "refused", "behind", "dropped"}
}

// targets streams targets, a line for each.
func (a answers) targets(w *answer, r *http.Request) error {
	values := r.URL.Query()
	q := TargetQuery{values.Get("rule"), values.Get("namespace"), values.Get("state")}
	if q.State != "" && !slices.Contains(TargetStates(), q.State) {
		return unknown("state", q.State, TargetStates())
	}
	found, err := a.backend.Targets(q.Rule)
	if errors.Is(err, ErrNotFound) {
		return a.noRule(q.Rule)
	}
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, chunk)
	lines := newEncoder(out)
	w.Header().Set("Content-Type", "application/x-ndjson")
	for t := range found {
		if q.Namespace != "" && t.Namespace != q.Namespace || q.State != "" && t.State != q.State {
			continue
		}
		if err := lines.Encode(t); err != nil {
			return err
		}
	}
	return out.Flush()
}

// The targets of one answer may take 8 times the memory of another answer: a daemon can have
// 2,000,000. Each takes at least targetSize bytes.
const (
	timesTargets = 8
	targetSize   = 256
)

// Targets returns the targets that a query asks for, in the order of Backend.Targets.
func (c *Client) Targets(ctx context.Context, q TargetQuery) (all []explain.Target, err error) {
	query := url.Values{}
	set(query, "rule", q.Rule)
	set(query, "namespace", q.Namespace)
	set(query, "state", q.State)
	body, err := c.do(ctx, http.MethodGet, "/v1/targets", query, nil)
	if err != nil {
		return nil, err
	}
	s := &Stream[explain.Target]{client: c, body: body, lines: bufio.NewReaderSize(body, chunk)}
	defer func() { _ = s.Close() }() // only read
	for left := timesTargets * c.most; ; {
		var t explain.Target
		line, err := s.line()
		if err == io.EOF && len(line) == 0 {
			return all, nil
		}
		if err == nil {
			err = json.Unmarshal(line, &t)
		}
		if left -= int64(max(len(line), targetSize)); err == nil && left < 0 {
			err = errTooLarge
		}
		if err != nil {
			return nil, c.brokenOff(err)
		}
		all = append(all, t)
	}
}
