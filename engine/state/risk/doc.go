// Package risk counts how often in a row the process has crashed in a store. A damaged store can
// make Pebble panic on a goroutine of its own, which nobody can recover. Without a count, the
// process would start and crash forever.
//
// [Begin] notes an operation that the process may not survive, as a small file in the store, and
// [Survived] removes the note. [Count] says how many ends in a row are noted. The files are not
// synced, because they count processes that ended, not machines that crashed. Errors of the disk do
// not matter: without a note, nothing is counted. [CountCrashes] makes the notes count crashes
// only.
package risk
