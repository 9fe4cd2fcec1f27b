package handler

import (
	"context"
	"encoding/json"
)

// Describer is implemented by handlers that have something to say of themselves. Describe is called once per start of
// the process, before Configure. A handler without it is described by its executable's name and the defaults.
type Describer interface {
	Describe() Description
}

// Description is what a handler says of itself.
type Description struct {
	// Name and Version are shown to the operator. At most 128 bytes each.
	Name    string
	Version string
	// Concurrency is how many events the handler takes at once; informd uses the smaller of it and the operator's.
	// 0 means no limit of its own. serve.Remote keeps to it over all connections.
	Concurrency int
	// WindowBytes is how many bytes of events may be with the handler at once; an event that is larger goes alone.
	// 0 means 4 MiB, the default. At most 64 MiB is used.
	WindowBytes int64
	// ConfigSchema, if any, is a JSON Schema of the config that Configure takes; informd shows it, Configure decides. At
	// most 1 MiB.
	ConfigSchema json.RawMessage
	// Capabilities names optional parts of the protocol that the handler uses. Unknown ones are ignored by either
	// side. At most 64.
	Capabilities []string
}

// Configurer is implemented by handlers that take a config. Configure is called once per start of the process, before
// the first event. An error refuses the config: informd reports its text to the operator and delivers nothing. config
// is JSON, and empty where the manifest has none. A handler without Configure refuses any config that is not empty. A remote
// handler (serve.Remote) outlives informd's connections to it: it is called again with another config, between events.
type Configurer interface {
	Configure(ctx context.Context, config json.RawMessage) error
}

// HealthChecker is implemented by handlers that can tell whether they are able to do their work. It is called every
// few seconds; its error is shown to the operator and changes nothing else. Not to be able to answer within its
// deadline counts as hung, and ends the process.
type HealthChecker interface {
	Health(ctx context.Context) error
}

// Drainer is implemented by handlers that hold something back (a buffer, a connection). Drain is called after the last
// event was answered and before the process ends.
// It is not called when the process or informd itself is killed: do not answer events as done that only a drain would
// keep.
type Drainer interface {
	Drain(ctx context.Context) error
}
