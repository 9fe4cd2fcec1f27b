// Package log is the log of the state: frames in, positions out. It knows no record, no database
// and no caller. All that it calls are the [Files] that it is given.
//
// # Writing
//
// A log is a row of numbered files in one directory. [Start] begins it, [Log.Append] writes
// a [Frame] to the newest file, and [Log.Roll] begins the next one. [Log.Remove] removes a file
// once its content is elsewhere. A frame holds changes of keys, and is made for the [Position] at
// which the log ends: [Log.End]. So its values can refer to bytes that the file has already, and
// the caller knows where each value will be before anything is written.
//
//	var f log.Frame
//	f.Reset(l.End())
//	f.Change(log.Set, key)
//	f.Value(value, nil)
//	end, err := l.Append(&f) // the operating system has everything before end
//	...
//	end, err = l.Sync()      // the disk has everything before end
//
// # Sharing
//
// Several processes can have the same log. [Resume] then takes a function, agree, through which
// every frame goes as an [Entry]: a frame with its place. Once they agree on it, each of them writes
// it with [Log.Write], the one that made it as well. A log that has an entry already ignores it.
//
// # Reading
//
// [Recover] reads what an earlier process left: the longest row of whole cuts. It says what lies
// beyond that, which is lost. [Log.ReadBack] reads a file of this process. Both return [Contents]:
// what the file makes of each key in the end.
//
// # Guarantees
//
// A cut is one frame, or several that [Log.AppendPart] and then Append wrote. After a crash, the
// reader finds whole cuts, in order and without a gap, up to some moment. It finds every cut whose
// Append returned, if only the process ended, and every cut before the Position that Sync returned,
// if the machine lost power. A frame has a checksum: a bit that flips ends the log there, and
// Recover reports the rest as [Lost]. A frame that is whole but means nothing is [ErrMalformed].
// A file of a newer format is a *[VersionError].
//
// # Bounds
//
// A frame holds at most 2 GiB; a longer cut needs several. Nothing bounds the length of a file: the
// caller rolls. ReadBack and Recover take memory for each key that a file changes, and for one
// frame.
//
// # Errors
//
// Errors of the Files are returned as they are. After an error of Append or AppendPart, nothing
// says where the file ends, so the caller must not append any more. After an error of another
// method the Log is as before, and the call may be repeated.
//
// # Concurrency
//
// One goroutine at a time calls Append, AppendPart and Roll, and owns the Frame. One goroutine at a
// time calls Write. All other methods
// of a Log are safe for concurrent use, also with those three. A Contents belongs to one goroutine.
//
// # Format
//
// Nearly every cut is one frame:
//
//	length of the payload, 4 bytes, big-endian
//	CRC-32C of the payload, 4 bytes, big-endian
//	payload: the changes of keys, in order
//
// A change is a byte that says which, the length of the key as a uvarint, and the key. For [Set]
// and [Add] the value follows: its length as a uvarint, and its parts, up to that length. A part
// begins with a uvarint n. If n is even, n/2 bytes follow. If n is odd, the part is n/2 bytes that
// are in the file already, and a uvarint says at which offset. So a file holds a text once, however
// many values contain it.
//
// A cut that is larger than a frame may be has several frames. The highest bit of the length says
// that more of them follow; the checksum does not cover it. A reader takes the cut if all of them
// are whole.
//
// The first frame says which file it is and how long the one before it is. A reader ends at the
// first frame that is not whole, and goes on to the next file only if it has read this one to its
// end. So what it reads are all cuts up to some moment.
package log
