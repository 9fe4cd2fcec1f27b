// Package state is the durable record: what the engine has seen and what it still owes, on disk, so that a restart goes on
// where the last process ended, however that ended.
//
// Memory is the truth while the daemon runs; a Store is written behind it. It is given records of what memory holds: objects
// that are known ([Informer]), deliveries that wait ([Lane]), rules and dead letters. Records that are not written yet
// replace each other, so a delivery that is acknowledged before it was written never costs a write. The Store is read
// at the start, and for what memory left to the disk alone ([Lane.Load]). It knows no queue and no rule, and decides
// nothing.
//
// # What is guaranteed
//
// One cut: what is recorded between one [Store.Begin] and its [Store.End] is found on disk together or not at all, after
// whatever crash, and nothing is found without all that was recorded before it. What is written every
// [Options.FlushEvery] is one transaction, synced. Only if that is larger than 16 MiB, or than 3 MiB where it tells of no informer
// but those that are being told their first list, are there several: deliveries and letters in the order of their numbers, then rules and what of deliveries is gone, then objects; and until the last one the informers
// concerned have no resourceVersion to be resumed from. A crash in between repeats changes; of those that come in between
// the server's list has the last.
//
// A crash loses at most what was recorded in the last FlushEvery and the duration of a write. The API server tells that
// again.
//
// Nothing wrong is loaded: what is on disk has checksums, every record is checked as it is decoded, and decoding is total.
// A store that is damaged, foreign, of another version or of another cluster is set aside whole, renamed beside itself
// under a name that says why, and the daemon starts empty. The last three are kept. So is a store
// that ten starts in a row did not survive: no content of a disk can make the daemon fail for ever. Where damage shows only
// while the daemon runs, nothing more is written, and the next start sets the store aside.
//
// Callers do not wait for the disk, except to read, and who asks to: [Store.Written]. A disk that is full, read-only, failing or slow delays what is written
// ([Status].Trouble says so, one line in the log, and one when it is over), and everything is written once the disk recovers.
// Meanwhile memory holds one record per object, delivery and letter that changed, and the key of what is gone (about a hundred
// bytes each), and [Lane.Room] says no.
//
// A disk that takes no writes when the daemon starts, or has too little room to begin with, is read: everything on it is
// loaded as usual, and nothing is written. Every few seconds it is tried again; once the disk takes writes, everything that was
// recorded since is written on top of what was loaded. If the process ends before, the next start finds what this one found.
// What is there by then must be what was loaded: if it is not, nothing is written any more, and the next start goes on
// from there. What turns out to be of no use is set aside once the disk lets it. Only a store that can neither be written
// nor read, or whose opening takes longer than 20 seconds, is not known: it is set aside once the disk recovers, and
// everything recorded since the start is written instead.
//
// No text of a secret reaches the disk: see [InformerOptions], [LaneOptions] and [Letter].
//
// Only one process has a directory: see [LockedError]. The directory is made with mode 0700, files in it with 0600.
//
// # Bounds on disk
//
// Objects and deliveries cost what a [object.Packer] leaves of them, and about as much again until Pebble has merged its
// files. A lane takes [LaneOptions].MaxBytes and what waits in memory; letters are bounded by who puts them. The
// dictionaries of an informer are at most eight after a start, 64 KiB each; those that nothing refers to are removed at the
// next. What is kept of informers and rules that nobody asks for any more remains until [Store.DropInformer] and
// [Store.DropRule].
package state
