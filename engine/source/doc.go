// Package source keeps one informer per resource, namespace and selectors, and hands each change to
// the informer's consumer, in order, together with the position from which another run can go on.
//
// The way of a change, with its goroutines:
//
//	API server ─▶ dynamic client ─▶ watching ─▶ Reflector ─▶ RealFIFO ─▶ listener ─▶ Consumer
//	              codec             wire, gate               Indexer     generation, feed
//
// # What of client-go is used
//
// The dynamic client opens watches (client.go). Its serializer is our codec (codec.go, framer.go;
// list.go for lists): it reads each object once, from the bytes of the response to an entry
// (reader.go), the object as compact JSON with the values of its indexes. There are no trees of
// maps.
//
// SharedIndexInformer lists, watches and keeps the cache: its Indexer holds the entries, and
// IndexFuncs made of expressions maintain the indexes (index.go). Its Reflector sees the API server
// through the wire (wire.go, watching.go), which retries what the Reflector could only answer with
// a relist or with an uninterruptible pause, and resumes from a saved state (resume.go).
//
// Three things a SharedIndexInformer does not do, and what this package does about each:
//
//   - It does not bound what waits for a handler. The gate counts the watch events in flight and
//     stops reading at the bound (gate.go).
//   - It does not say when a handler has been told a relist, nor hand on bookmarks. So each
//     client-go informer gets one list only, whose end HasSynced of its handler tells; a relist is
//     the next generation (generation.go). A bookmark is a mark in the gate, reached when what was
//     in flight before it has been told.
//   - Its store runs ahead of its handlers. The feed keeps the state that the consumer was told
//     last (feed.go): previous states, splits of a changed uid, resyncs and missed deletions derive
//     from it.
//
// A Reflector over a store of our own would need none of the three. BenchmarkPath compares the two. On
// a busy machine with two processors, the shared informer costs 2 to 3 µs more of processor time per
// event at full speed (3.9 to 5.0 µs against 1.4 to 2.2), and 56 bytes more per object. At 1000 events
// a second the difference drowns in the cost of waking up (about 60 µs either way). That is too little
// to give up the shared informer.
//
// # What it guarantees
//
//   - A consumer's calls never overlap. Per object they are in the server's order, and each state
//     follows from the one told before.
//   - The cache is at least as fresh as what the consumer has been told.
//   - Each object that the consumer knows and that is gone is told as deleted, once: also when a
//     watch missed the deletion, and when the cluster no longer serves the resource.
//   - The position never runs ahead of the changes told, and does not move back.
//   - An informer whose resource is not served, forbidden or failing holds up nothing but itself,
//     says so once, and comes to life when it can.
//   - A panic of an index function or a consumer, or an object that cannot be read, stops nothing:
//     each is counted.
//   - At most 4096 watch events of an informer are in flight (each at most 16 MiB), and eight lists
//     run at once. What a list brings is not bounded: it is the cluster's own state.
//
// Texts in the cache are packed, for objects of one resource resemble each other. What came last
// stays plain (recent.go), for it is about to be delivered.
//
// # Locks
//
// An informer has four of its own, each for short: feed.mu is held while the consumer takes a step,
// so whatever the consumer locks comes behind it; health.mu and gate.mu are taken alone.
// Informer.indexing is held while client-go's store takes up an index, and comes before client-go's
// locks. Informers.mu is taken alone.
//
// The package does not know of rules, expressions, deliveries or disks.
package source
