// The file system, as a log needs it.

package log

import "io"

// Files is the file system, as a log needs it. Its methods, and those of its files, are safe for
// concurrent use. The error about a file that does not exist wraps fs.ErrNotExist.
type Files interface {
	// Create makes an empty file, or empties the one with this name.
	Create(name string) (Writer, error)
	// Continue opens a file to write on from an offset. What the file has there is overwritten.
	Continue(name string, at int64) (Writer, error)
	// Open opens a file to read it, and returns its length.
	Open(name string) (r Reader, length int64, err error)
	Remove(name string) error
	// List returns the names of the files in a directory, without the directory.
	List(dir string) (names []string, err error)
	// SyncDir returns when the disk has the entries of a directory.
	SyncDir(dir string) error
	// Join makes a path of a directory and a name.
	Join(dir, name string) string
}

// Writer is a file that is written from its beginning to its end.
type Writer interface {
	io.WriteCloser
	// Sync returns when the disk has everything that was written before.
	Sync() error
}

// Reader is a file that is read.
type Reader interface {
	io.ReaderAt
	io.Closer
	// Sync returns when the disk has the file as it is read.
	Sync() error
}
