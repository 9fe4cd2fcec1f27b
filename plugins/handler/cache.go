package handler

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
)

// CacheUser is implemented by handlers that read informd's cache. UseCache is called once per start
// of the process, after Describe and before Configure, even if the operator lets the handler read
// nothing.
type CacheUser interface {
	UseCache(Cache)
}

// Cache reads informd's cache, by the names of the operator's Sources. The handler's manifest names
// those that it may read, as in access: {read: [pods, nodes]}.
//
// What a call reads is at least as fresh as any event of that source that the handler has received,
// and may be newer. Sources do not wait for each other. Objects are JSON as in events: as the API
// server sends it, without metadata.managedFields. A source with keep: needed has only what it
// keeps. The caller owns what a call returns. Keys are NAMESPACE/NAME, or NAME for objects without
// a namespace. The order of keys is that of the namespaces, then of the names.
//
// A call waits up to 10 seconds for a source that has not synced yet. ctx bounds every call: give
// it a deadline, as Handle's has. Errors wrap [ErrDenied], [ErrUnknown] or ctx's error. After any
// other error, such as for a source that the cluster does not serve, it is worth trying again
// later: return it from Handle for a retry. All methods may be called concurrently. informd answers
// a few dozen calls at a time; others wait.
type Cache interface {
	// Get returns an object; found reports whether it exists. namespace is empty for objects that
	// have none.
	Get(ctx context.Context, source, namespace, name string) (
		object json.RawMessage, found bool, err error)
	// GetMany returns objects by their keys: one element for each key, in their order, and nil if
	// there is no such object.
	GetMany(ctx context.Context, source string, keys ...string) ([]json.RawMessage, error)
	// List yields objects in the order of their keys, all of one moment, and at last an error if
	// there is one. It holds only a page of them at a time. The caller has two minutes to take all
	// of them.
	List(ctx context.Context, source string, o ListOptions) iter.Seq2[json.RawMessage, error]
	// ByIndex returns the objects that an index of the source has under a value, in the order of
	// their keys.
	ByIndex(ctx context.Context, source, index, value string) ([]json.RawMessage, error)
	// IndexKeys returns the keys of these objects, in order.
	IndexKeys(ctx context.Context, source, index, value string) ([]string, error)
	// IndexValues returns the values that an index has, each once, sorted.
	IndexValues(ctx context.Context, source, index string) ([]string, error)
}

// ListOptions say which objects List yields. The zero ListOptions select all.
type ListOptions struct {
	Namespace string // empty: all
	Selector  string // labels, as for kubectl's -l: tier in (web, api),!canary. At most 1 KiB
	Limit     int    // the most objects to yield; 0: all
	After     string // only objects whose keys come after this one
}

var (
	// ErrDenied says that the manifest's access.read does not name the source. The error's text
	// shows the line that would.
	ErrDenied = errors.New("not allowed")
	// ErrUnknown says that no source or index has that name.
	ErrUnknown = errors.New("unknown")
)
