package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/internal/socket"
)

// ErrNotRunning is wrapped by a Client's errors if nobody listens on the socket.
var ErrNotRunning = errors.New("no informd is running")

// Client asks the daemon. It is safe for concurrent use. Errors of the server are of type *Error.
type Client struct {
	socket  string
	http    *http.Client
	patient *http.Client // waits for an answer until the context ends
	most    int64        // bytes of an answer, or of a line of a Stream; see mostOf
}

// Bounds of answers are more than any daemon answers: an event has at most 63 MiB, all dead letters 64,
// and there are at most 10,000 of those. So what listens on the socket cannot take the memory of a
// command, whatever it is.
const (
	maxAnswer  = 128 << 20
	maxLetters = 100_000
)

// mostOf bounds the answer to a request of a path. Many small parts take much more memory than their
// text, so only answers with objects inside may be that long.
func (c *Client) mostOf(path string) int64 {
	switch path {
	case "/v1/letter", "/v1/explain":
		return c.most
	}
	return c.most / 8
}

// NewClient returns a Client for the daemon on a socket. Each call makes a connection of its own.
func NewClient(socket string) *Client {
	if absolute, err := filepath.Abs(socket); err == nil {
		socket = absolute
	}
	client := func(patience time.Duration) *http.Client {
		return &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dial(ctx, socket)
			},
			DisableKeepAlives:     true,
			ResponseHeaderTimeout: patience,
		}}
	}
	return &Client{
		socket: socket, http: client(time.Minute), patient: client(0), most: maxAnswer,
	}
}

// Status returns the state of the daemon.
func (c *Client) Status(ctx context.Context) (status Status, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &status)
	return status, err
}

// Letters returns the dead letters of a rule and of a handler, without their events. An empty name
// stands for all.
func (c *Client) Letters(ctx context.Context, rule, handler string) ([]Letter, error) {
	query := url.Values{}
	set(query, "rule", rule)
	set(query, "handler", handler)
	body, err := c.do(ctx, http.MethodGet, "/v1/letters", query, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // only read
	var letters []Letter
	for decoder := json.NewDecoder(&bounded{body, c.most}); ; {
		var l Letter
		switch err := decoder.Decode(&l); {
		case err == io.EOF:
			return letters, nil
		case err != nil:
			return nil, c.brokenOff(err)
		}
		if letters = append(letters, l); len(letters) > maxLetters {
			return nil, c.brokenOff(errTooLarge)
		}
	}
}

// Letter returns a dead letter with its event. Without showSecrets, what it may hold of Secrets is
// masked.
func (c *Client) Letter(ctx context.Context, id string, showSecrets bool) (l Letter, err error) {
	query := url.Values{"id": {id}}
	if showSecrets {
		query.Set("secrets", "show")
	}
	err = c.call(ctx, http.MethodGet, "/v1/letter", query, nil, &l)
	return l, err
}

// Retry delivers dead letters again.
func (c *Client) Retry(ctx context.Context, choice LetterChoice) (o Outcome, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/letters/retry", nil, choice, &o)
	return o, err
}

// Drop drops dead letters.
func (c *Client) Drop(ctx context.Context, choice LetterChoice) (o Outcome, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/letters/drop", nil, choice, &o)
	return o, err
}

// Pause pauses the deliveries of a rule.
func (c *Client) Pause(ctx context.Context, rule string) error {
	request := map[string]string{"rule": rule}
	return c.call(ctx, http.MethodPost, "/v1/rules/pause", nil, request, &struct{}{})
}

// Resume resumes the deliveries of a rule.
func (c *Client) Resume(ctx context.Context, rule string) error {
	request := map[string]string{"rule": rule}
	return c.call(ctx, http.MethodPost, "/v1/rules/resume", nil, request, &struct{}{})
}

// RetryRule tries now what waits for a retry of a rule, or of one object if object is not empty.
func (c *Client) RetryRule(ctx context.Context, rule, object string) (r Retried, err error) {
	request := map[string]string{"rule": rule, "object": object}
	err = c.call(ctx, http.MethodPost, "/v1/rules/retry", nil, request, &r)
	return r, err
}

// Explain says why a rule does, or does not, deliver anything about an object. Without showSecrets,
// the answer has no values of Secrets.
func (c *Client) Explain(
	ctx context.Context, rule, namespace, name string, showSecrets bool,
) (x explain.Explanation, err error) {
	query := url.Values{"rule": {rule}, "name": {name}}
	set(query, "namespace", namespace)
	if showSecrets {
		query.Set("secrets", "show")
	}
	err = c.call(ctx, http.MethodGet, "/v1/explain", query, nil, &x)
	return x, err
}

// Events returns what has happened to changes and deliveries of a rule, or of all rules if its name is
// empty: the newest, or if after is not 0, the first ones after that number.
func (c *Client) Events(ctx context.Context, rule string, after uint64) (e Events, err error) {
	query := url.Values{}
	set(query, "rule", rule)
	if after > 0 {
		query.Set("after", strconv.FormatUint(after, 10))
	}
	err = c.call(ctx, http.MethodGet, "/v1/events", query, nil, &e)
	return e, err
}

// Resync has a rule see all objects of its source as synced, and waits until that is done. The end of
// ctx leaves out the rest.
func (c *Client) Resync(ctx context.Context, rule string) (r Resynced, err error) {
	patient := c.waiting()
	request := map[string]string{"rule": rule}
	err = patient.call(ctx, http.MethodPost, "/v1/rules/resync", nil, request, &r)
	return r, err
}

// ReloadHandler replaces a handler's process by one that the current manifests describe, and waits
// until that is done. The end of ctx calls it off if that is still possible.
func (c *Client) ReloadHandler(ctx context.Context, name string) (r Reloaded, err error) {
	patient := c.waiting()
	request := map[string]string{"handler": name}
	err = patient.call(ctx, http.MethodPost, "/v1/handlers/reload", nil, request, &r)
	return r, err
}

// Reload has the daemon read its manifests again and take up what has changed.
func (c *Client) Reload(ctx context.Context) (r ReloadedAll, err error) {
	patient := c.waiting()
	err = patient.call(ctx, http.MethodPost, "/v1/reload", nil, struct{}{}, &r)
	return r, err
}

// Plan returns what a reload would change if the manifests were these, or with those that the daemon
// reads if there are none.
func (c *Client) Plan(ctx context.Context, files []File) (p Planned, err error) {
	patient := c.waiting()
	err = patient.call(ctx, http.MethodPost, planPath, nil, planRequest{files}, &p)
	return p, err
}

// waiting returns a client that waits for an answer until the context ends.
func (c *Client) waiting() *Client {
	return &Client{socket: c.socket, http: c.patient, most: c.most}
}

// planRequest asks for a plan.
type planRequest struct {
	Files []File `json:"files,omitempty"`
}

// Stream is an answer that arrives object by object. The caller must close it.
type Stream[T any] struct {
	Header
	client *Client
	body   io.ReadCloser
	lines  *bufio.Reader
	decode func(line []byte) (T, error)
}

func toRow(line []byte) (r Row, err error) {
	err = json.Unmarshal(line, &r)
	return r, err
}

func toText(line []byte) (json.RawMessage, error) { return line, nil }

// Names returns the namespaces and names of the objects that a query asks for. It is cheaper than
// Rows.
func (c *Client) Names(ctx context.Context, q Query) (*Stream[Row], error) {
	return open(ctx, c, q, url.Values{"as": {asNames}}, toRow)
}

// Rows returns the objects that a query asks for, without their content.
func (c *Client) Rows(ctx context.Context, q Query) (*Stream[Row], error) {
	return open(ctx, c, q, url.Values{"as": {asRows}}, toRow)
}

// Objects returns the objects that a query asks for as JSON. Without showSecrets, the values of
// Secrets are masked.
func (c *Client) Objects(
	ctx context.Context, q Query, showSecrets bool) (*Stream[json.RawMessage], error) {
	query := url.Values{"as": {asObjects}}
	if showSecrets {
		query.Set("secrets", "show")
	}
	return open(ctx, c, q, query, toText)
}

func open[T any](
	ctx context.Context, c *Client, q Query, query url.Values,
	decode func([]byte) (T, error)) (*Stream[T], error) {
	set(query, "source", q.Source)
	set(query, "namespace", q.Namespace)
	set(query, "name", q.Name)
	if q.Selector != nil {
		set(query, "selector", q.Selector.String())
	}
	if q.Index != "" {
		query.Set("index", q.Index)
		query.Set("value", q.Value)
	}
	body, err := c.do(ctx, http.MethodGet, "/v1/objects", query, nil)
	if err != nil {
		return nil, err
	}
	s := &Stream[T]{client: c, body: body, lines: bufio.NewReaderSize(body, chunk), decode: decode}
	line, err := s.line()
	if err == nil {
		err = json.Unmarshal(line, &s.Header)
	}
	if err != nil {
		_ = s.Close()
		return nil, c.brokenOff(err)
	}
	return s, nil
}

// All returns the objects. It can be called once. An error ends the sequence.
func (s *Stream[T]) All() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for range s.Count {
			var v T
			line, err := s.line()
			if err == nil {
				v, err = s.decode(line)
			}
			if err != nil {
				yield(v, s.client.brokenOff(err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// line reads a line, with its end.
func (s *Stream[T]) line() (line []byte, err error) {
	for {
		part, err := s.lines.ReadSlice('\n')
		if int64(len(line)+len(part)) > s.client.most {
			return nil, errTooLarge
		}
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// Close ends the answer, whether it was read or not.
func (s *Stream[T]) Close() error { return s.body.Close() }

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

// call sends a request and decodes the answer, a single JSON value.
func (c *Client) call(
	ctx context.Context, method, path string, query url.Values, request, into any) error {
	body, err := c.do(ctx, method, path, query, request)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // only read
	if err := json.NewDecoder(&bounded{body, c.mostOf(path)}).Decode(into); err != nil {
		return c.brokenOff(err)
	}
	return nil
}

// do sends a request and returns the body of the answer, or the daemon's error.
func (c *Client) do(
	ctx context.Context, method, path string,
	query url.Values, request any) (io.ReadCloser, error) {
	var content io.Reader
	if request != nil {
		text, err := json.Marshal(request)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	target := "http://informd" + path + "?" + query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer func() { _ = response.Body.Close() }() // only read
	failure := Error{Code: response.StatusCode}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if json.Unmarshal(text, &failure) != nil || failure.Message == "" {
		failure.Message = fmt.Sprintf("%s answers %s: is it informd's control socket?",
			c.socket, response.Status)
	}
	return nil, &failure
}

// unreachable returns why there was no answer.
func (c *Client) unreachable(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which the user did not write
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED),
		errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w on %s", ErrNotRunning, c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf(
			"%s belongs to another user: ask as the user that informd runs as", c.socket)
	case errors.Is(err, syscall.EINVAL) && len(c.socket) > socket.MaxPath:
		return fmt.Errorf("the path %s is longer than the %d bytes that a socket may have",
			c.socket, socket.MaxPath)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("%s: more processes connect than informd can look at", c.socket)
	case errors.Is(err, errStranger):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf(
			"the program that listens on %s closed the connection without an answer", c.socket)
	}
	return fmt.Errorf("ask the informd on %s: %w", c.socket, err)
}

// bounded fails with errTooLarge once left bytes were read.
type bounded struct {
	io.Reader
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

var errTooLarge = errors.New("too large")

func (c *Client) brokenOff(err error) error {
	if errors.Is(err, errTooLarge) {
		return fmt.Errorf("the answer on %s is larger than one of informd can be: "+
			"is it informd's control socket?", c.socket)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the answer of the informd on %s broke off: %w", c.socket, err)
}
