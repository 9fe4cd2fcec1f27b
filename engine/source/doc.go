// Package source keeps one shared informer per distinct resource, namespace and selectors, on client-go's own shared
// index informer, and tells its listeners what changed.
//
// The way of a change:
//
//	API server ─▶ client ─▶ watching ─▶ gate ─▶ client-go (reflector, queue, store, indexes) ─▶ handler ─▶ listeners
//	                 │ codec: framer, stream decoder, object decoder
//
// The client (client.go) is client-go's REST client and the dynamic client on top of it, with a serializer of our own in
// it. That is the seam by which objects are never trees of maps here: the codec (codec.go, framer.go; list.go for lists)
// reads each object once, from the bytes of the response to an entry (reader.go, entry.go), which is what client-go's
// queue and store hold: the object as compact JSON with its identity, and the values that indexes have for it. What
// listeners look at is decoded in the same pass.
//
// The wire (wire.go, watching.go) is the API server as client-go's reflector sees it: it retries what the reflector
// could only answer with a relist or with an uninterruptible pause, tells the informer's [State], and lets a bounded
// number of lists at once. The gate bounds what client-go has taken in and not yet handed on. The handler (handler.go)
// remembers the state of each object that listeners were last told of; everything that they are told derives from
// that: previous states, missed deletions, splits of a changed uid, what is there for a late listener, resyncs, and
// the deletions when a resource goes away.
//
// What was told is recorded, if anybody wants to go on from there in another run (restore.go): each change in the same call in
// which it is told, never from the store, which runs ahead. Such a run begins with what was saved as its cache, and with
// the server's watch from there (resume.go); or, where the server has no such history, with a list that is compared.
// How far everything was told is known by barriers (barrier.go), which go through client-go like a change.
//
// Texts in the cache are packed: objects of one resource resemble each other. What came last is still plain (recent.go),
// for it is about to be delivered.
//
// What it guarantees
//   - A listener's calls never overlap, and come in order. What it was told of an object is what the store had, or older:
//     the store is at least as fresh.
//   - Each object that a listener was told of and that is gone is told as deleted, once: also when the deletion was
//     missed, and when the resource itself has gone.
//   - An informer whose resource is not served, forbidden or failing holds up nothing but itself, says so once, and comes
//     to life when it can.
//   - Neither an index function nor a listener that panics, nor an object that cannot be read, stops anything: they are
//     counted.
//   - Nothing is buffered without bound but what a list brings, which is the size of the cluster's own state.
//
// It does not know of rules, expressions, deliveries or disks.
package source
