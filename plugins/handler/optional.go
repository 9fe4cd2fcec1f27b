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
	// Concurrency is how many events the handler takes at once. informd uses it or the operator's
	// number, whichever is smaller. 0 means no limit. serve.Remote keeps to it over all
	// connections.
	Concurrency int
	// WindowBytes is how many bytes of events the handler takes at once. A larger event goes alone.
	// 0 means 4 MiB. informd uses at most 64 MiB.
	WindowBytes int64
	// ConfigSchema, if any, is a JSON Schema of the config. informd only shows it; Configure
	// decides. At most 1 MiB.
	ConfigSchema json.RawMessage
	// Capabilities names optional parts of the protocol that the handler uses, at most 64. Either
	// side ignores those that it does not know.
	Capabilities []string
}

// Configurer is implemented by handlers that take a config. Configure is called once per start of
// the process, before the first event. config is JSON, and empty if the manifest has none. An error
// refuses the config: informd shows its text to the operator and delivers nothing. A handler
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
