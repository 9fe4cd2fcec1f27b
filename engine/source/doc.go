// Package source runs one informer per resource, namespace and selectors. It hands each change to
// the informer's consumer, in order, together with the position from which another run can go on.
//
// A change takes this path through the goroutines:
//
//	API server ─▶ HTTP client ─▶ watching ─▶ Reflector ─▶ RealFIFO ─▶ listener ─▶ Consumer
//	gatherer                     stream, gate             Indexer     generation, feed
//
// While many changes come, the gatherer reads them together, so that they share the cost of waking
// up all these goroutines (gather.go).
//
// # Which parts of client-go it uses
//
// Its REST client sends requests and reads errors (client.go). This package reads the bodies
// itself: lists in list.go, watches in stream.go and framer.go. It reads each object once, from the
// bytes of the response to an entry (reader.go): compact JSON with the values of its indexes. It
// builds no trees of maps. client-go's dynamic client would first read each list into memory, and
// pass each event of a watch through one more goroutine.
//
// SharedIndexInformer lists, watches and maintains the cache. Its Indexer holds the entries, and
// IndexFuncs made of expressions maintain the indexes (index.go). Its Reflector sees the API server
// through the wire (wire.go, watching.go). The wire retries errors that the Reflector could answer
// only with a relist or an uninterruptible pause. It also resumes from a saved state (resume.go).
//
// A SharedIndexInformer lacks three things, which this package adds:
//
//   - It does not bound the queue of a handler. The gate counts the watch events in flight and
//     stops reading at the bound (gate.go).
//   - It does not say when a handler has received a relist, and it keeps bookmarks to itself. So
//     each client-go informer gets only one list, and HasSynced of its handler marks the end of
//     that list. A relist starts the next generation (generation.go). A bookmark is a mark in the
//     gate. The mark is reached when the consumer has taken everything that was in flight before
//     it.
//   - Its store runs ahead of its handlers. The feed holds the state that the consumer took last
//     (feed.go). Previous states, the split of an update with a new uid, resyncs and missed
//     deletions derive from it.
//
// A Reflector over a store of our own would need none of the three. BenchmarkPath compares the two.
// On a busy machine with two processors, the shared informer costs 2 to 3 µs more CPU time per
// event at full speed (3.9 to 5.0 µs against 1.4 to 2.2). It also costs 56 bytes more per object.
// At 1000 events a second the cost of waking up (about 60 µs either way) hides the difference. That
// is too little to give up the shared informer.
//
// # What it guarantees
//
//   - A consumer's calls never overlap. For each object they keep the server's order, and each
//     state follows from the one before.
//   - The cache is at least as fresh as the steps that the consumer has taken.
//   - The consumer gets one deletion for each object that it knows and that is gone. That holds
//     even if a watch missed the deletion, or if the cluster serves no version of the resource any
//     more. One answer is no proof of that: see absence.go.
//   - The position never runs ahead of the changes that the consumer has taken, and never moves
//     back.
//   - If a resource is not served, forbidden or failing, only its own informer waits. The informer
//     logs it once and recovers when it can.
//   - A panic of an index function or a consumer, or an unreadable object, stops nothing. The
//     informer counts each.
//   - At most 4096 watch events of an informer are in flight (each at most 16 MiB), besides up to 64
//     that it has just read, and at most eight lists run at once. The size of a list is not bounded:
//     it is the cluster's own state.
//
// An informer may also have one fixed object and no wire: see Informers.Fixed. A Hand begins it.
//
// The cache packs its texts, because objects of one resource resemble each other. The newest
// objects stay plain (recent.go), because informd is about to deliver them.
//
// # Locks
//
// watching.mu is held while events are passed on, which may wait for room, or for the consumer to
// take a list. It comes before all others. feed.mu is held while the consumer takes a step, so it
// comes before any lock of the consumer. objectCache.mu is held while client-go's store adds an
// index, and comes before client-go's locks. health.mu, gate.mu and Informers.mu are held briefly,
// and no other lock of this package is taken under them but the sayer's.
//
// The package knows nothing of rules, expressions, deliveries or disks.
package source
