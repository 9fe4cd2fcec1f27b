// A copy of a replica's store, as it goes from one process to another.

package state

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/log"
)

// These are the names of folders in the state directory.
const (
	copyPrefix   = "copy-"    // begins the names of copies that are being sent
	incomingName = "incoming" // a copy that is being received
	completeName = "received" // a copy that was received and takes the place of the store
)

// Snapshot returns everything that was applied before the call, and perhaps more, as a stream of
// size bytes. It copies nothing: it links the files. The caller closes the stream.
func (r *Replica) Snapshot() (content io.ReadCloser, size int64, err error) {
	d := r.current.Load() // also while a term begins: that may take until another process has this copy
	if failed := r.failed.Load(); failed != nil {
		return nil, 0, *failed
	}
	dir := r.files.PathJoin(r.dir, copyPrefix+strconv.FormatUint(r.copies.Add(1), 10))
	c := &storeCopy{files: r.opts.disk, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.remove())
		}
	}()
	if err := d.locked(func(pebble.Reader) error { return c.link(d) }); err != nil {
		return nil, 0, err
	}
	if size, err = c.measure(); err != nil {
		return nil, 0, err
	}
	return c.stream(), size, nil
}

// storeCopy is a folder with links to the files of a store, as they were at one moment.
type storeCopy struct {
	files vfs.FS
	dir   string
	parts []copied
}

// copied is a file of a copy. What it has beyond its size came later.
type copied struct {
	name, path string
	size       int64
}

// link makes the folder. The logs come first: Pebble says how much of them it depends on.
func (c *storeCopy) link(d *database) error {
	if err := c.files.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	linked := make(map[uint64]bool)
	if err := c.linkLogs(d, linked); err != nil {
		return err
	}
	store := c.files.PathJoin(c.dir, storeName)
	if err := d.pebble.Checkpoint(store); err != nil {
		return err
	}
	if err := c.linkLogs(d, linked); err != nil { // those that have begun meanwhile
		return err
	}
	return c.list(d.log.End(), linked, store)
}

// linkLogs links the files of the log that are not linked yet.
func (c *storeCopy) linkLogs(d *database, linked map[uint64]bool) error {
	newest := d.log.End().File // before Full: a file may become full meanwhile
	for _, n := range append(d.log.Full(), newest) {
		if linked[n] || n == 0 {
			continue
		}
		err := c.files.Link(d.log.Path(n), c.files.PathJoin(c.dir, log.Name(n)))
		if err != nil && !disk.IsNotExist(err) { // it was moved
			return err
		}
		linked[n] = err == nil
	}
	return nil
}

// list lists the files of the copy.
func (c *storeCopy) list(end log.Position, linked map[uint64]bool, store string) error {
	names, err := c.files.List(store)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.add(name, c.files.PathJoin(store, name), -1); err != nil {
			return err
		}
	}
	for n, isLinked := range linked {
		if !isLinked {
			continue
		}
		size := int64(-1)
		if n == end.File {
			size = end.Offset
		}
		if err := c.add(log.Name(n), c.files.PathJoin(c.dir, log.Name(n)), size); err != nil {
			return err
		}
	}
	return nil
}

// add adds a file to the copy. A size of -1 means all of it.
func (c *storeCopy) add(name, path string, size int64) error {
	if size < 0 {
		info, err := c.files.Stat(path)
		if err != nil {
			return err
		}
		size = info.Size()
	}
	c.parts = append(c.parts, copied{name, path, size})
	return nil
}

func (c *storeCopy) remove() error { return c.files.RemoveAll(c.dir) }

// measure returns how long the stream is.
func (c *storeCopy) measure() (size int64, err error) {
	w := tar.NewWriter(countBytes{&size})
	for _, part := range c.parts {
		if err := w.WriteHeader(part.header()); err != nil {
			return 0, err
		}
		if _, err := io.CopyN(w, blank{}, part.size); err != nil {
			return 0, err
		}
	}
	return size, w.Close()
}

func (p copied) header() *tar.Header {
	return &tar.Header{Name: p.name, Mode: 0o600, Size: p.size, ModTime: time.Unix(0, 0)}
}

type countBytes struct{ n *int64 }

func (c countBytes) Write(p []byte) (int, error) {
	*c.n += int64(len(p))
	return len(p), nil
}

type blank struct{}

func (blank) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// stream returns the content of the copy. It removes the copy at its end, or when it is closed.
func (c *storeCopy) stream() io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		err := c.write(w)
		_ = c.remove()            // the next start removes it otherwise
		_ = w.CloseWithError(err) // it returns nil always
	}()
	return r
}

func (c *storeCopy) write(out io.Writer) error {
	w := tar.NewWriter(out)
	for _, part := range c.parts {
		if err := w.WriteHeader(part.header()); err != nil {
			return err
		}
		f, err := c.files.Open(part.path)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, io.NewSectionReader(f, 0, part.size))
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return w.Close()
}

// Install replaces everything by a Snapshot of another process. If it fails, or the process ends
// meanwhile, the Replica has what it had before, or all of the snapshot. The Replica must follow.
func (r *Replica) Install(content io.Reader) error {
	if err := r.receive(content); err != nil {
		return fmt.Errorf("receive the state of another replica: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leader != nil {
		return errors.New("a replica that leads has no use for the state of another one")
	}
	r.unfollow()
	_ = r.log.Load().Close() // it is replaced
	err := replace(r.opts.disk, r.dir)
	if err == nil {
		err = r.begin()
	}
	if err != nil {
		return r.fail(err)
	}
	return nil
}

// receive writes a copy to disk.
func (r *Replica) receive(content io.Reader) error {
	files := r.opts.disk
	incoming := files.PathJoin(r.dir, incomingName)
	if err := files.RemoveAll(incoming); err != nil {
		return err
	}
	if err := files.MkdirAll(incoming, 0o700); err != nil {
		return err
	}
	in := tar.NewReader(content)
	for {
		part, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if part.Name == "" || strings.HasPrefix(part.Name, ".") || strings.ContainsAny(part.Name, `/\`) {
			return fmt.Errorf("it holds a file with the name %q", part.Name)
		}
		if err := r.receiveFile(files.PathJoin(incoming, part.Name), in); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, content); err != nil { // the end of the archive
		return err
	}
	if err := disk.SyncDir(files, incoming); err != nil {
		return err
	}
	if err := files.Rename(incoming, files.PathJoin(r.dir, completeName)); err != nil {
		return err
	}
	return disk.SyncDir(files, r.dir)
}

func (r *Replica) receiveFile(path string, in io.Reader) (err error) {
	f, err := r.opts.disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, in); err != nil {
		return err
	}
	return f.Sync()
}

// HasReceived reports whether a copy that was received is about to take the place of the store in a
// state directory: OpenReplica and Open complete that.
func HasReceived(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, completeName))
	return err == nil
}

// replace puts a copy that was received in the place of the store in a state directory.
func replace(files vfs.FS, dir string) error {
	store := files.PathJoin(dir, storeName)
	if err := files.RemoveAll(store); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := files.Rename(files.PathJoin(dir, completeName), store); err != nil {
		return err
	}
	return disk.SyncDir(files, dir)
}

// tidy completes an Install that an earlier process began in a state directory, and removes copies.
func tidy(files vfs.FS, dir string) error {
	names, err := files.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		switch {
		case name == completeName:
			err = replace(files, dir)
		case name == incomingName, strings.HasPrefix(name, copyPrefix):
			err = files.RemoveAll(files.PathJoin(dir, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
