// Package handlertest is a conformance suite for handlers. It runs an executable as informd would
// and checks, clause by clause, that it keeps its side of the contract in plugins/handler, and that
// it bears whatever the other side may do.
//
//	func TestConformance(t *testing.T) {
//		handlertest.Run(t, handlertest.Options{
//			Command:   []string{"./oncall"},
//			Config:    json.RawMessage(`{"channel":"#ops"}`),
//			BadConfig: json.RawMessage(`{"chanel":"#ops"}`),
//		})
//	}
//
// Run is for Go tests. Check is the same for other programs: `informd handler check` prints what it
// yields. NewCache is for Go tests that call a handler's methods themselves.
//
// The suite speaks the protocol itself, from the handshake line to the last answer, and imports
// nothing of informd's daemon. It does not know what the handler does with an event: that is for
// the handler's own tests.
//
// The files: check.go runs the clauses one after the other. events.go, reads.go, life.go and
// wire.go hold them: clauses about events, about what a handler reads and asks for, about
// processes, and about the wire. process.go and remote.go start a handler or connect to one,
// session.go sends it events within its window, keeper.go starts it again where it must, and
// cache.go, cacheservice.go and selector.go let it read a made-up cache. fakecache.go has that
// cache for tests without a process.
package handlertest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// Options say what to test, and with what. They have many fields because each is an input of its
// own that a test may leave out.
type Options struct {
	// Command is the executable and its arguments.
	Command []string
	// Remote, instead of Command, says where a handler runs that somebody else has started
	// (serve.Remote). The clauses about starting and ending a process are not checked then.
	Remote *RemoteHandler
	// Dir is the handler's working directory; default: the test's.
	Dir string
	// Env is the handler's environment, as KEY=VALUE. The suite adds PATH, HOME and TMPDIR, unless
	// Env has them, and what the protocol needs; nothing else.
	Env []string
	// Config is a config that the handler accepts; empty if it takes none.
	Config json.RawMessage
	// BadConfig is a config that the handler must refuse. The default,
	// {"handlertest-unknown-field": 1}, is one that every handler should refuse: an operator may
	// misspell a field.
	BadConfig json.RawMessage
	// Event returns the nth event that the suite sends, one that the handler answers with done.
	// Different n are different objects. Default: an update of a ConfigMap.
	Event func(n int) handler.Event
	// Integers, if set, is called after ev was done, whose object or payload is
	// {"integer":9007199254740993}. It returns an error unless the number (2^53+1, which a float64
	// cannot hold) reached its destination unharmed.
	Integers func(ev handler.Event) error
	// Cache is what the handler can read of informd's cache, by the names of the sources, as if its
	// manifest's access.read named all of them. Without it the handler may read nothing.
	Cache map[string]Source
	// Timeout is the time limit of one event. Default 10 s.
	Timeout time.Duration
	// Allow, if set, returns an error for an action that the handler may not ask for: what the
	// manifest's access.write does not allow.
	Allow func(ev handler.Event, action handler.Action) error
	// Only, if set, is the one clause to check: one of Clauses. The first one is checked before it.
	Only string
	// Debug suits a debugger. Nothing has a time limit, nobody asks for the handler's health, and
	// the handler has one event at a time.
	Debug bool
}

// RemoteHandler says where a handler runs, and how informd speaks TLS with it.
type RemoteHandler struct {
	// Host is a name or an address.
	Host string
	Port uint16
	// DNS is the address and port of the server that resolves Host; empty: the system's.
	DNS string
	// CA is a PEM file with the authorities that may have signed the handler's certificate. Cert
	// and Key are PEM files with the certificate that the handler is shown.
	CA, Cert, Key string
	// ServerName is the name that the handler's certificate must be for. Default: Host.
	ServerName string
}

// Run runs the suite, each clause as a subtest of t.
func Run(t *testing.T, o Options) {
	t.Helper()
	if len(o.Command) == 0 && o.Remote == nil {
		t.Fatal("handlertest: no Command")
	}
	s := newSuite(o)
	for _, c := range s.clauses() {
		t.Run(c.name, func(t *testing.T) {
			r := s.check(t.Context(), c)
			for _, line := range r.Log {
				t.Log(line)
			}
			for _, problem := range r.Problems {
				t.Error(problem)
			}
			if r.NotChecked != "" {
				t.Skip(r.NotChecked)
			}
		})
	}
}
