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
)

// file is a recording that is being written.
type file struct {
	made string // the path, if the file is new; "" for one that was there, and standard output

	mu     sync.Mutex // guards all below
	out    *os.File   // nil for standard output
	buffer *bufio.Writer
	zip    *gzip.Writer // nil if the file is not compressed
	text   bytes.Buffer // of one line
	dirty  bool         // something was written since the last flush
	err    error        // the first one; then nothing is written any more
}

const bufferSize = 64 << 10

// create creates a recording, which only its user can read. The path - means standard output. A
// path that ends in .gz makes it compressed.
func create(path string, force bool, stdout io.Writer) (*file, error) {
	f := new(file)
	if path == "-" {
		f.buffer = bufio.NewWriterSize(stdout, bufferSize)
	} else {
		flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
		if force {
			flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		}
		out, err := os.OpenFile(path, flags, 0o600)
		switch {
		case errors.Is(err, fs.ErrExist):
			return nil, fmt.Errorf("%s exists: give another name, or --force to replace it", path)
		case err != nil:
			return nil, err
		}
		if info, err := out.Stat(); err == nil && info.Mode().IsRegular() {
			if err := out.Chmod(0o600); err != nil { // it may have been there
				return nil, errors.Join(err, out.Close())
			}
		}
		if f.out = out; !force {
			f.made = path
		}
		f.buffer = bufio.NewWriterSize(out, bufferSize)
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

// discard ends the file, and removes it if it is new.
func (f *file) discard() {
	_ = f.close() // there is another error
	if f.made != "" {
		_ = os.Remove(f.made)
	}
}

// failed notes the first error. f.mu is held.
func (f *file) failed(err error) {
	if f.err == nil && err != nil {
		f.err = fmt.Errorf("write the recording: %w", err)
	}
}
