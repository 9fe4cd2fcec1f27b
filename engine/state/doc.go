// Package state is the durable record on disk: the objects that the engine has seen and the events
// that it still has to deliver. A restart resumes from it, however the last process ended.
//
// While the daemon runs, memory is the truth and the [Store] is written behind it. The Store takes
// records of what memory holds: the objects of informers ([Objects]), waiting deliveries ([Lane]),
// rules and dead letters. A newer record replaces an older one that is not written yet. So a
// delivery that is acknowledged before it was written costs no write. The engine reads the Store at
// the start, and later for deliveries that only the disk holds ([Lane.Load]). The Store knows no
// queue and no rule, and decides nothing.
//
// # Guarantees
//
// Records are written in cuts. After any crash, the disk holds everything recorded between one
// [Store.Begin] and its [Store.End], or nothing of it. It holds nothing without everything recorded
// before. One synced transaction writes the records of each [Options.FlushEvery]. A cut larger than
// 16 MiB takes several transactions, and so does one larger than 3 MiB that holds only first lists.
// Their order is: deliveries and letters by number, rules, deliveries that are gone, objects. Until
// the last transaction the informers concerned have no resourceVersion to resume from. A crash in
// between repeats changes. Of several changes of one object, the server's list then has only the
// last.
//
// A crash loses at most what was recorded during the last FlushEvery and the duration of a write.
// The API server reports those changes again.
//
// Nothing wrong is loaded. The disk's content has checksums, decoding checks every record, and any
// bytes decode to a record or an error. A store that is damaged, foreign, of another version or of
// another cluster is set aside as a whole. Setting aside renames it, in the same directory, to a
// name that says why, and the daemon starts empty. The last three are kept. A store that ten starts
// in a row did not survive is set aside too, so that no content of a disk can make the daemon fail
// forever. If damage shows only while the daemon runs, nothing more is written, and the next start
// sets the store aside.
//
// Callers do not wait for the disk, except to read, and in [Store.Written]. A disk that is full,
// read-only, failing or slow delays writes. [Status].Trouble says so, and the log has one line when
// the trouble begins and one when it ends. Everything is written once the disk recovers. Meanwhile
// memory holds one record for each object, delivery and letter that changed, and about a hundred
// bytes for each that is gone. [Lane.Room] returns false.
//
// If the disk accepts no writes when the daemon starts, or has too little room, the store is only
// read: everything is loaded as usual and nothing is written. The store tries to write again every
// few seconds. Once the disk accepts writes, everything recorded since is written on top of what
// was loaded. That requires that the disk still holds what was loaded. Otherwise nothing is written
// any more, and the next start resumes from the disk's content. A store that turns out to be
// unusable is set aside once the disk allows it. So is a store that can neither be written nor
// read, or whose opening takes longer than 20 seconds. Everything recorded since the start is then
// written to a new store.
//
// No text of a Secret reaches the disk: see [ObjectsOptions], [LaneOptions] and [Store.PutLetter].
//
// One process at a time uses a directory: see [LockedError]. The directory has mode 0700, its files
// 0600.
//
// # Bounds on disk
//
// Objects and deliveries take the space that an [object.Packer] leaves of them, and about as much
// again until Pebble has merged its files. A lane takes [LaneOptions].MaxBytes plus its deliveries
// in memory. The caller that puts letters must bound them. An informer has at most eight
// dictionaries after a start, 64 KiB each; a start removes those without a reference. Records of
// informers and rules that no longer exist remain until [Store.DropInformer] and [Store.DropRule].
package state
