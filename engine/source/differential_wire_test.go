package source

import (
	"io"
	"math/rand/v2"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// fickle is a transport that delivers answers in pieces of random sizes and counts the initial
// states that it delivered. On request it breaks a watch within a frame.
type fickle struct {
	name   string // of the side; the server knows the side by this name
	mu     sync.Mutex
	random *rand.Rand
	states int
	left   int // bytes until a watch breaks; negative if none is to break
}

func newFickle(name string, random *rand.Rand) *fickle {
	return &fickle{name: name, random: random, left: -1}
}

func (f *fickle) under(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent = f.name
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err != nil || answer.StatusCode != http.StatusOK {
				return answer, err
			}
			q := r.URL.Query()
			f.mu.Lock()
			defer f.mu.Unlock()
			if !q.Has("watch") && !isPosition(r) || q.Has("sendInitialEvents") {
				f.states++
			}
			answer.Body = &pieces{ReadCloser: answer.Body, from: f, breaks: q.Has("watch")}
			return answer, nil
		})
	}
	return config
}

// breakAfter makes the watch break after the given number of further bytes.
func (f *fickle) breakAfter(bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = bytes
}

func (f *fickle) listed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.states
}

// size returns how many bytes of at most most may be read now. broken is true if the connection
// breaks here.
func (f *fickle) size(most int, breaks bool) (n int, broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random.IntN(2) == 0 {
		most = min(most, 1+f.random.IntN(1<<f.random.IntN(13)))
	}
	switch {
	case !breaks || f.left < 0:
		return most, false
	case f.left == 0:
		f.left = -1
		return 0, true
	}
	return min(most, f.left), false
}

func (f *fickle) count(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left >= 0 {
		f.left = max(f.left-n, 0)
	}
}

type pieces struct {
	io.ReadCloser
	from   *fickle
	breaks bool
	broken bool
}

func (p *pieces) Read(into []byte) (int, error) {
	n, broken := p.from.size(len(into), p.breaks)
	if p.broken = p.broken || broken; p.broken {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := p.ReadCloser.Read(into[:n])
	if p.breaks {
		p.from.count(n)
	}
	return n, err
}
