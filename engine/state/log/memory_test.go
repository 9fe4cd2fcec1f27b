package log

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"
	"testing"
)

// memory is Files in memory. It knows what was synced.
type memory struct {
	mu    sync.Mutex
	files map[string]*memoryFile
	fails error // of each write and sync, if it is not nil
}

type memoryFile struct {
	of     *memory
	text   []byte
	synced int
}

func newMemory() *memory { return &memory{files: make(map[string]*memoryFile)} }

func (m *memory) Create(name string) (Writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := &memoryFile{of: m}
	m.files[name] = f
	return f, m.fails
}

func (m *memory) Open(name string) (Reader, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.files[name]
	if f == nil {
		return nil, 0, fs.ErrNotExist
	}
	return f, int64(len(f.text)), nil
}

func (m *memory) Continue(name string, at int64) (Writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.files[name]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	return &memoryTail{f, int(at)}, m.fails
}

// memoryTail is a file that is written on from an offset.
type memoryTail struct {
	*memoryFile
	at int
}

func (t *memoryTail) Write(p []byte) (int, error) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.of.fails != nil {
		return 0, t.of.fails
	}
	rest := len(t.text) - t.at
	t.text = append(t.text[:t.at], append(bytes.Clone(p), t.text[t.at+min(rest, len(p)):]...)...)
	t.at += len(p)
	return len(p), nil
}

func (m *memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[name] == nil {
		return fs.ErrNotExist
	}
	delete(m.files, name)
	return nil
}

func (m *memory) List(dir string) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.files {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	return names, nil
}

func (m *memory) SyncDir(string) error         { return m.fails }
func (m *memory) Join(dir, name string) string { return path.Join(dir, name) }

func (m *memory) text(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.files[name].text)
}

// with returns a copy in which a file has another text; nil removes it.
func (m *memory) with(name string, text []byte) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	other := newMemory()
	for n, f := range m.files {
		other.files[n] = &memoryFile{of: other, text: bytes.Clone(f.text)}
	}
	if other.files[name] = (&memoryFile{of: other, text: bytes.Clone(text)}); text == nil {
		delete(other.files, name)
	}
	return other
}

func (f *memoryFile) Write(p []byte) (int, error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.of.fails != nil {
		return 0, f.of.fails
	}
	f.text = append(f.text, p...)
	return len(p), nil
}

func (f *memoryFile) ReadAt(p []byte, at int64) (int, error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if at > int64(len(f.text)) {
		return 0, io.EOF
	}
	n := copy(p, f.text[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memoryFile) Sync() error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.of.fails != nil {
		return f.of.fails
	}
	f.synced = len(f.text)
	return nil
}

func (*memoryFile) Close() error { return nil }

var errSick = errors.New("the disk is sick")

// start begins a log in a directory.
func start(t testing.TB, files Files, number uint64) *Log {
	t.Helper()
	l, err := Start(files, "/log", number, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// put appends a cut that sets keys to values, in turns.
func put(t testing.TB, l *Log, pairs ...string) (end Position) {
	t.Helper()
	var f Frame
	f.Reset(l.End())
	for i := 0; i < len(pairs); i += 2 {
		f.Change(Set, []byte(pairs[i]))
		f.Value([]byte(pairs[i+1]), nil)
	}
	end, err := l.Append(&f)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// found returns what contents make of the keys, in the end.
func found(t testing.TB, all ...*Contents) map[string]string {
	t.Helper()
	is := make(map[string]string)
	for _, c := range all {
		for _, prefix := range c.Dropped() {
			for key := range is {
				if bytes.HasPrefix([]byte(key), prefix) {
					delete(is, key)
				}
			}
		}
		for _, key := range c.Keys() {
			value, isSet, err := c.Value(nil, key)
			if err != nil {
				t.Fatal(err)
			}
			if is[key] = string(value); !isSet {
				delete(is, key)
			}
		}
	}
	return is
}
