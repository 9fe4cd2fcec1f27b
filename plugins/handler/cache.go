package handler

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
)

// CacheUser is implemented by handlers that read informd's cache. UseCache is called once per start of the process, after
// Describe and before Configure, whether the operator lets the handler read anything or not.
type CacheUser interface {
	UseCache(Cache)
}

// Cache is what informd has in its cache, by the names of the operator's Sources; as far as the handler's manifest has
// access.read, as in access: {read: [pods, nodes]}.
//
// What is read of a source is at least as fresh as any event of that source that the handler has been sent, and may be newer;
// sources do not wait for each other. Objects are JSON as in events: as the API server has it, without metadata.managedFields; of a source with keep: needed, what is kept of it. They
// are the caller's. Keys are NAMESPACE/NAME, or NAME for objects without a namespace; what is in the order of keys is ordered
// by the namespaces, then by the names.
//
// A source that has not synced yet is waited for, up to 10 seconds. ctx bounds every call; give it a deadline, as that of
// Handle has one. Errors wrap [ErrDenied], [ErrUnknown] or ctx's; with any other, as with a source that the cluster does not
// serve, it is worth to try again later: return it from Handle for a retry. All methods may be called concurrently; a few dozen
// calls are answered at a time, the others wait.
type Cache interface {
	// Get gives an object; found tells whether there is one. namespace is empty for objects that have none.
	Get(ctx context.Context, source, namespace, name string) (object json.RawMessage, found bool, err error)
	// GetMany gives objects by their keys: as many elements as keys, in that order, and nil where there is no such object.
	GetMany(ctx context.Context, source string, keys ...string) ([]json.RawMessage, error)
	// List gives objects in the order of their keys, all of one moment, and an error at last if there is one. It does not
	// hold more than some of them at a time. The whole of it has to be taken within two minutes.
	List(ctx context.Context, source string, o ListOptions) iter.Seq2[json.RawMessage, error]
	// ByIndex gives the objects that an index of the source has under the value, in the order of their keys.
	ByIndex(ctx context.Context, source, index, value string) ([]json.RawMessage, error)
	// IndexKeys gives the keys of these objects, in order.
	IndexKeys(ctx context.Context, source, index, value string) ([]string, error)
	// IndexValues gives the values that an index has, each once, sorted.
	IndexValues(ctx context.Context, source, index string) ([]string, error)
}

// ListOptions say which objects List gives. The zero ListOptions are all.
type ListOptions struct {
	Namespace string // empty: all
	Selector  string // by labels, as kubectl's -l has it: tier in (web, api),!canary. At most 1 KiB
	Limit     int    // at most so many; 0: all
	After     string // only objects whose key comes after this one
}

var (
	// ErrDenied says that the manifest's access.read does not name the source. The error's text has the line that would.
	ErrDenied = errors.New("not allowed")
	// ErrUnknown says that there is no source, or index, of that name.
	ErrUnknown = errors.New("unknown")
)
