// Package state is the durable record on disk: the objects that the engine has seen and the events
// that it still has to deliver. A restart resumes from it, however the last process ended.
//
// While the daemon runs, memory is the truth and the [Store] follows it. The Store takes records of
// what memory holds: the objects of informers ([Objects]), waiting deliveries ([Lane]), rules and
// dead letters. A newer record replaces an older one that is not written yet. The engine reads the
// Store at the start, and later for deliveries that only the disk holds ([Lane.Load]). The Store
// knows no queue and no rule, and decides nothing.
//
// # The way of a record
//
// Recording changes maps in memory. One goroutine takes everything that was recorded, as a cut, and
// appends it to a log as one frame: at once if an event waits for its records ([Store.Await]),
// otherwise within 10 ms. Then the operating system has it, and it survives the end of the process.
// A second goroutine syncs the log every [Options.FlushEvery]. Then it survives a loss of power.
//
// A log that has grown to 32 MiB is full, and the next one begins. When that is full, too, a third
// goroutine moves the first one into Pebble: what it made of each key in the end, without the keys
// that the second one changes again. Then it removes the first one. It rests most of the time,
// unless somebody waits, such as a third log that is full. An end in order moves all logs. So does
// a start after a crash. If the disk accepts no writes then, a view in memory shows Pebble as it
// would be.
//
// So Pebble gets neither all states of an object that changes often, nor a delivery that has been
// acknowledged meanwhile. The log holds an object's text once: deliveries refer to it. Pebble keeps
// no log of its own. It says which logs it has, and how much of the next one it depends on. Until a
// log is moved in whole, the start moves it once more, which changes nothing.
//
// # Guarantees
//
// Records are written in cuts. After any crash, the disk holds everything recorded between one
// [Store.Begin] and its [Store.End], or nothing of it. It holds nothing without everything recorded
// before. A frame of the log has a checksum, and a log ends at its first frame that is not whole.
//
// Once [Store.Await] has returned in time, a cut survives the end of the process. Cuts that nobody
// waited for survive it after 10 ms at most. A loss of power undoes at most what was recorded since
// the last sync began, which is FlushEvery and the time that a sync takes. The API server reports
// those changes again.
//
// Nothing wrong is loaded. The disk's content has checksums, decoding checks every record, and any
// bytes decode to a record or an error. A store of a newer version is left as it is, and the start
// fails, unless [Options].SetAside is set. A store that is damaged, foreign or of another cluster is
// set aside as a whole. Setting aside renames it, in the same directory, to a
// name that says why, and the daemon starts empty. The last three are kept. A store in which ten
// processes in a row crash is set aside too, so that no content of a disk can make the daemon fail
// forever. If damage shows only while the daemon runs, nothing more is written, and the next start
// sets the store aside.
//
// Callers do not wait for the disk, except to read, in [Store.Written], and in [Store.Await] for a
// tenth of a second at most. The operating system may block a write while its disk hangs or its
// memory is full. The first Await then waits that long, and later ones return at once until a write
// has succeeded. So events go on, although a crash would repeat them. A store with [Options].Strict
// does not give up: Await returns nil only once the log has the cut.
//
// A disk that is full, read-only, failing or slow delays writes. [Status].Trouble says so, and
// informd logs one line when the trouble begins and one when it ends. Everything is written once
// the disk recovers. Meanwhile memory holds one record for each object, delivery and letter that
// changed, and about a hundred bytes for each that is gone. Beside them it holds what waits for a
// sync: at most 16 MiB and one cut. [Lane.Room] returns false.
//
// If the disk accepts no writes when the daemon starts, or has too little room, the store is only
// read: everything is loaded as usual and nothing is written. The store tries to write again every
// few seconds. Once the disk accepts writes, the store adds everything recorded since to the
// content that it loaded, if the disk still holds that. Otherwise it writes nothing any more, and
// the next start resumes from the disk's content. A store that turns out to be unusable is set
// aside once the disk allows it. So is a store that can neither be written nor read, or whose
// opening takes longer than 20 seconds. Everything recorded since the start is then written to a
// new store.
//
// No text of a Secret reaches the disk: see [ObjectsOptions], [LaneOptions] and [Store.PutLetter].
//
// One process at a time uses a directory: see [LockedError]. The directory has mode 0700, its files
// 0600.
//
// # Replicas
//
// Several processes can have one state: see [Replica]. They agree on each frame of the log before
// any of them writes it, so their logs are the same. The process that leads has a Store, which is
// strict: Await returns nil only once more than half of the processes have the cut on disk.
//
// # Rooms
//
// Package log has the log, package records the encoding of all records, package disk the file
// system with its patience, and package risk the count of crashes. None of them knows the Store.
// Here is what remains: what is recorded, and how it comes to the log, from there into Pebble, and
// back.
//
// # Bounds on disk
//
// Objects and deliveries take the space that an [object.Packer] leaves of them, and about as much
// again until Pebble has merged its files. Three logs take 32 MiB each, and the last one somewhat
// more while another one is moved, or much more while the disk is too slow for that. A lane takes
// [LaneOptions].MaxBytes plus its deliveries in memory. The caller that puts letters must bound
// them. An informer has at most eight dictionaries after a start, 64 KiB each; a start removes
// those without a reference. Records of informers and rules that no longer exist remain until
// [Store.DropInformer] and [Store.DropRule].
package state
