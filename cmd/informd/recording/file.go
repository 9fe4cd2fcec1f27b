package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/internal/ownfile"
)

// file is a recording that is being written.
type file struct {
	made     string               // the path; "" for a file that replaces another, and for standard output
	replaces *ownfile.Replacement // nil for a new file, and for standard output

	mu     sync.Mutex // guards all below
	out    *os.File   // nil for standard output
	buffer *bufio.Writer
	zip    *gzip.Writer // nil if the file is not compressed
	text   bytes.Buffer // of one line
	dirty  bool         // something was written since the last flush
	err    error        // the first one; then nothing is written any more
}

const bufferSize = 64 << 10

// create creates a recording, which only its user can read. With force it replaces a file that is
// there, but only once keep is called. The path - means standard output. A path that ends in .gz
// makes it compressed.
func create(path string, force bool, stdout io.Writer) (*file, error) {
	f := new(file)
	var err error
	switch {
	case path == "-":
		f.buffer = bufio.NewWriterSize(stdout, bufferSize)
	case force:
		if f.replaces, err = ownfile.NewReplacement(path, 0o600); err != nil {
			return nil, err
		}
		f.out = f.replaces.File
	default:
		f.out, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%s exists: give another name, or --force to replace it", path)
		}
		if err != nil {
			return nil, err
		}
		f.made = path
	}
	if f.out != nil {
		f.buffer = bufio.NewWriterSize(f.out, bufferSize)
	}
	if strings.HasSuffix(path, ".gz") {
		f.zip = gzip.NewWriter(f.buffer)
	}
	return f, nil
}

// write writes lines at the present time, one right after the other.
func (f *file) write(lines ...line) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now().UTC().Truncate(time.Millisecond)
	for _, l := range lines {
		l.Time = now
		f.text.Reset()
		encoder := json.NewEncoder(&f.text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(l); err != nil {
			f.failed(err)
			break
		}
		var to io.Writer = f.buffer
		if f.zip != nil {
			to = f.zip
		}
		if f.err == nil {
			_, err := to.Write(f.text.Bytes())
			f.failed(err)
			f.dirty = true
		}
	}
	return f.err
}

// flush hands everything so far to the system.
func (f *file) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.dirty || f.err != nil {
		return f.err
	}
	if f.zip != nil {
		f.failed(f.zip.Flush())
	}
	f.failed(f.buffer.Flush())
	f.dirty = false
	return f.err
}

// close ends the file.
func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.zip != nil && f.err == nil {
		f.failed(f.zip.Close())
	}
	if f.err == nil {
		f.failed(f.buffer.Flush())
	}
	if f.out != nil {
		f.failed(f.out.Close())
	}
	return f.err
}

// keep puts a file that replaces another one in its place. What is written later comes there, too.
func (f *file) keep() error {
	if f.replaces == nil {
		return nil
	}
	return f.replaces.Keep()
}

// discard ends the file, and removes it. A file that it was to replace stays.
func (f *file) discard() {
	_ = f.close() // there is another error
	if f.made != "" {
		_ = os.Remove(f.made)
	}
	if f.replaces != nil {
		f.replaces.Discard()
	}
}

// failed notes the first error. f.mu is held.
func (f *file) failed(err error) {
	if f.err == nil && err != nil {
		f.err = fmt.Errorf("write the recording: %w", err)
	}
}
