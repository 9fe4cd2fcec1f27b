// Package state is the durable record: what the engine has seen and what it still has to deliver, on
// disk. A restart resumes from it, however the last process ended.
//
// While the daemon runs, memory is the truth and the [Store] is written behind it. The Store takes
// records of what memory holds: the objects of informers ([Objects]), deliveries that wait ([Lane]), rules and
// dead letters. A record that is not written yet is replaced by a newer one, so a delivery that is
// acknowledged before it was written costs no write. The Store is read at the start, and for
// deliveries that memory has left to the disk ([Lane.Load]). It knows no queue and no rule, and
// decides nothing.
//
// # Guarantees
//
// One cut: after any crash, everything recorded between one [Store.Begin] and its [Store.End] is found
// on disk together or not at all, and nothing is found without everything recorded before it. What is
// written every [Options.FlushEvery] is one synced transaction. A cut larger than 16 MiB takes several
// transactions, and so does one larger than 3 MiB that has nothing but first lists. The order is then:
// deliveries and letters by number, rules, deliveries that are gone, objects. Until the last
// transaction the informers concerned have no resourceVersion to resume from. A crash in between
// repeats changes; of those that come in between, the server's list has the last.
//
// A crash loses at most what was recorded during the last FlushEvery and the duration of a write. The
// API server tells that again.
//
// Nothing wrong is loaded. What is on disk has checksums, every record is checked while it is decoded,
// and decoding is total. A store that is damaged, foreign, of another version or of another cluster is
// set aside as a whole: it is renamed beside itself, under a name that says why, and the daemon starts
// empty. The last three are kept. A store that ten starts in a row did not survive is set aside too,
// so that no content of a disk can make the daemon fail for ever. If damage shows only while the daemon
// runs, nothing more is written, and the next start sets the store aside.
//
// Callers do not wait for the disk, except to read, and in [Store.Written]. A disk that is full,
// read-only, failing or slow delays what is written; [Status].Trouble says so, and so does one line in
// the log when it begins and one when it is over. Everything is written once the disk recovers.
// Meanwhile memory holds one record for each object, delivery and letter that changed, and about a
// hundred bytes for each that is gone. [Lane.Room] refuses.
//
// If the disk takes no writes when the daemon starts, or has too little room, the store is read:
// everything is loaded as usual and nothing is written. The store tries again every few seconds. Once
// the disk takes writes, everything that was recorded since is written on top of what was loaded. That
// requires that the disk still holds what was loaded; otherwise nothing is written any more, and the
// next start resumes from what is there. A store that turns out to be unusable is set aside once the
// disk allows it. So is a store that can neither be written nor read, or whose opening takes longer
// than 20 seconds; everything recorded since the start is then written instead.
//
// No text of a Secret reaches the disk: see [ObjectsOptions], [LaneOptions] and [Letter].
//
// One process at a time uses a directory: see [LockedError]. The directory has mode 0700, its files
// 0600.
//
// # Bounds on disk
//
// Objects and deliveries take the space that an [object.Packer] leaves of them, and about as much again
// until Pebble has merged its files. A lane takes [LaneOptions].MaxBytes and what waits in memory.
// Whoever puts letters bounds them. An informer has at most eight dictionaries after a start, 64 KiB
// each; a start removes those without a reference. Records of informers and rules that no longer
// exist remain until [Store.DropInformer] and [Store.DropRule].
package state
