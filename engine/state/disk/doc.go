// Package disk is the file system as the state needs it. It knows no file of the state, and decides
// nothing about its content.
//
//   - [Private] keeps files private to their owner from the moment they exist, and follows no link.
//   - [Patient] repeats what a disk in trouble refuses, until the disk recovers. To its user, a
//     disk that is full, read-only or failing only looks slow. It does not believe a sync that
//     succeeds after one that failed, and writes the bytes again.
//   - [ReadOnly] refuses everything that would change the disk.
//   - [Lock] keeps a directory for one process.
//   - [Tempo] and [Breath] make long work rest, so that it does not take processors from events.
//
// [IsAtFault] tells the disk's errors from those of its content. All of it is safe for concurrent
// use, unless it says otherwise.
package disk
