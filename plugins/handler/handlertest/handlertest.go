// Package handlertest is a conformance suite for handlers: it runs an executable as informd would and checks, clause by
// clause, that it keeps its side of the contract in plugins/handler, and bears what may come from the other.
//
//	func TestConformance(t *testing.T) {
//		handlertest.Run(t, handlertest.Options{
//			Command:   []string{"./oncall"},
//			Config:    json.RawMessage(`{"channel":"#ops"}`),
//			BadConfig: json.RawMessage(`{"chanel":"#ops"}`),
//		})
//	}
//
// Run is for Go tests. Check is the same for other programs: `informd handler check` prints what it yields.
//
// It knows nothing of what the handler does with an event: what its work comes to is for the handler's own tests, with
// which the suite shares the events that it sends.
//
// The files: check.go runs the clauses one after the other; events.go, reads.go, life.go and wire.go hold them, those about
// events, about what a handler reads and asks for, about processes, and about what goes over the wire; cache.go makes up a cache
// for it; byhand.go starts a handler as another program could, and remote.go connects to one that was started.
package handlertest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// Options say what to test, and with what.
type Options struct {
	// Command is the executable and its arguments.
	Command []string
	// Remote, in the place of Command, is where the handler runs that somebody else has started (serve.Remote): its Host,
	// Port and DNS, and the files and the name for TLS. What is about starting and ending a process is not checked then.
	Remote *host.RemoteSpec
	// Dir is its working directory; default: the test's.
	Dir string
	// Env is its environment, as KEY=VALUE. PATH, HOME and TMPDIR, unless they are in it, and what the protocol needs
	// are added; nothing else is.
	Env []string
	// Config is one that the handler accepts; empty if it takes none.
	Config json.RawMessage
	// BadConfig is one that it must refuse. Default: {"handlertest-unknown-field": 1}, which every handler should
	// refuse: the operator may have misspelt something.
	BadConfig json.RawMessage
	// Event makes the nth event that the suite sends, one that the handler answers with done; different n are different
	// objects. Default: an update of a ConfigMap.
	Event func(n int) handler.Event
	// Integers, if set, is called after ev, whose object or payload is {"integer":9007199254740993}, was done: it
	// returns an error unless the number (2^53+1, which a float64 cannot hold) came through the handler unharmed.
	Integers func(ev handler.Event) error
	// Cache is what the handler reads of informd's cache, by the names of the sources: its manifest's access.read has all of
	// them. None: it may read nothing.
	Cache map[string]Source
	// Timeout is for one event. Default 10 s.
	Timeout time.Duration
}

// Run runs the suite, each clause as a subtest of t.
func Run(t *testing.T, o Options) {
	t.Helper()
	if len(o.Command) == 0 && o.Remote == nil {
		t.Fatal("handlertest: no Command")
	}
	s := newSuite(o)
	for _, c := range clauses {
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
