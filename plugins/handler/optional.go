package handler

import (
	"context"
	"encoding/json"
)

// Describer is implemented by handlers that describe themselves. Describe is called once per start
// of the process, before Configure. Without it, the name is the executable's and the rest is
// default.
type Describer interface {
	Describe() Description
}

// Description is what a handler says about itself.
type Description struct {
	// Name and Version are for the operator. At most 128 bytes each.
	Name    string
	Version string
	// Concurrency is how many events the handler can bear at once. informd never sends more, slow
	// events included. Leave it 0, which means no limit, unless more would break the handler: events
	// that hang take these places from the others. The operator's spec.concurrency bounds the events
	// that are not slow. serve.Remote keeps to Concurrency over all connections.
	Concurrency int
	// WindowBytes is how many bytes of events the handler can bear at once. A larger event goes
	// alone. 0 means 4 MiB, and 16 MiB of slow events in addition. informd uses at most 64 MiB.
	WindowBytes int64
	// ConfigSchema, if any, is a JSON Schema of the config. informd only shows it; Configure
	// decides. At most 1 MiB.
	ConfigSchema json.RawMessage
	// Capabilities names optional parts of the protocol that the handler uses, at most 64. Either
	// side ignores those that it does not know.
	Capabilities []string
}

// Configurer is implemented by handlers that take a config. Configure is called once per start of
// the process, before the first event. config is JSON, and {} if the manifest has none:
// [DecodeConfig] decodes it. An error refuses the config: informd shows its text to the operator
// and delivers nothing. errors.Join makes several problems of one error. A handler
// without Configure refuses every config that is not empty. For a remote handler (serve.Remote),
// which outlives informd's connections, Configure is called again, between events, when the config
// changes.
type Configurer interface {
	Configure(ctx context.Context, config json.RawMessage) error
}

// HealthChecker is implemented by handlers that know whether they can do their work. Health is
// called every few seconds. informd shows its error to the operator; nothing else changes. A
// handler that misses the deadline twice in a row counts as hung, and informd ends its process.
type HealthChecker interface {
	Health(ctx context.Context) error
}

// Drainer is implemented by handlers that hold something back, such as a buffer or a connection.
// Drain is called after the last event was answered and before the process ends. It is not called
// when the process or informd is killed: do not acknowledge an event that only Drain would keep.
type Drainer interface {
	Drain(ctx context.Context) error
}

// Batcher is implemented by handlers that handle several events with less work than one after the
// other: with one write, one request or one transaction.
//
// HandleBatch does for each event what Handle does, and returns one Result for each, in the order
// of the events. It gets at most 32 events, which came together and are of different objects or
// rules. ctx ends at the first time limit of its events, or when informd no longer wants the answer
// to one of them. So an event may get less time than alone, and all of them wait for the slowest.
// Events that come meanwhile do not wait: other calls handle them. If a call panics or returns another
// number of results, each of its events goes to Handle, so that only the one to blame fails.
//
// An event that comes alone goes to Handle, and one that was in a call that took too long does so when
// it comes again. So does every event of a remote handler (serve.Remote).
//
// ctx is about no single event. For log lines about one, plugins/serve has WithEvent.
//
// Where the operator leaves spec.concurrency out, such a handler may have 64 events at once rather
// than 8, so that more of them share a call.
type Batcher interface {
	HandleBatch(ctx context.Context, events []Event) []Result
}

// Result is what Handle would return for one event of a batch.
type Result struct {
	Answer Answer
	Err    error
}
