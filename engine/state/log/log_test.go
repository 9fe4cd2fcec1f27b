package log

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// After the end of the process, the log is read up to its last whole cut, wherever it was torn. What
// lies beyond is reported.
func TestTornLogs(t *testing.T) {
	files := newMemory()
	l := start(t, files, 7)
	ends := []int64{l.End().Offset}
	for n := range 5 {
		ends = append(ends, put(t, l, "a", fmt.Sprint("a", n), fmt.Sprint("b", n), "b").Offset)
	}
	name := "/log/" + Name(7)
	whole := files.text(name)
	for length := range len(whole) + 1 {
		left, err := Recover(files.with(name, whole[:length]), "/log", 7)
		if err != nil {
			t.Fatal(err)
		}
		cuts := len(slices.DeleteFunc(slices.Clone(ends), func(end int64) bool { return end > int64(length) })) - 1
		want, lost := make(map[string]string), []Lost(nil)
		from := int64(0)
		if cuts >= 0 {
			from = ends[cuts]
		}
		if from < int64(length) {
			lost = []Lost{{7, from, int64(length)}}
		}
		for n := range cuts {
			want["a"], want[fmt.Sprint("b", n)] = fmt.Sprint("a", n), "b"
		}
		if diff := cmp.Diff(want, found(t, left.Contents...)); diff != "" {
			t.Errorf("%d bytes: %s", length, diff)
		}
		if diff := cmp.Diff(lost, left.Lost); diff != "" {
			t.Errorf("%d bytes, lost: %s", length, diff)
		}
		left.Close()
	}
}

// A bit that flips ends the log there: nothing wrong is read, and nothing is lost in silence.
func TestFlippedBits(t *testing.T) {
	files := newMemory()
	l := start(t, files, 1)
	put(t, l, "a", "1")
	put(t, l, "a", "2")
	name := "/log/" + Name(1)
	whole := files.text(name)
	for bit := range 8 * len(whole) {
		text := slices.Clone(whole)
		text[bit/8] ^= 1 << (bit % 8)
		left, err := Recover(files.with(name, text), "/log", 1)
		if err != nil {
			t.Fatal(err)
		}
		// The bit that says that a cut goes on may flip and change nothing.
		switch a, ok := found(t, left.Contents...)["a"]; {
		case ok && a != "1" && a != "2":
			t.Errorf("bit %d: a is %q", bit, a)
		case a != "2" && len(left.Lost) != 1:
			t.Errorf("bit %d: a is %q, and what is lost is %v", bit, a, left.Lost)
		}
		left.Close()
	}
}

// Files are read in order, up to the first that does not begin where the one before it ends.
func TestFilesAreReadInOrder(t *testing.T) {
	files := newMemory()
	l := start(t, files, 3)
	for n := range 3 {
		if n > 0 {
			before := l.End()
			if last, err := l.Roll(); last != before || err != nil || l.End().File != before.File+1 {
				t.Fatalf("rolled at %v, want %v, %v", last, before, err)
			}
		}
		put(t, l, "a", fmt.Sprint(n), fmt.Sprint("b", n), "b")
	}
	for _, c := range []struct {
		name    string
		harm    uint64
		text    func([]byte) []byte
		want    int // files that are read
		lost    []uint64
		missing uint64
	}{
		{"whole", 3, func(b []byte) []byte { return b }, 3, nil, 0},
		{"the first is torn", 3, func(b []byte) []byte { return b[:len(b)-1] }, 1, []uint64{3, 4, 5}, 0},
		{"the second is torn", 4, func(b []byte) []byte { return b[:len(b)-1] }, 2, []uint64{4, 5}, 0},
		{"the second lacks a cut", 4, func(b []byte) []byte { return b[:24] }, 2, []uint64{5}, 0},
		{"the second is empty", 4, func(b []byte) []byte { return []byte{} }, 1, []uint64{5}, 0},
		{"the first is gone", 3, func([]byte) []byte { return nil }, 0, []uint64{4, 5}, 0},
		{"the last is gone", 5, func([]byte) []byte { return nil }, 2, nil, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := "/log/" + Name(c.harm)
			left, err := Recover(files.with(name, c.text(files.text(name))), "/log", 3)
			if err != nil {
				t.Fatal(err)
			}
			defer left.Close()
			var lost []uint64
			for _, l := range left.Lost {
				lost = append(lost, l.File)
			}
			if len(left.Contents) != c.want || !slices.Equal(lost, c.lost) || left.Missing != c.missing {
				t.Errorf("%d files, lost %v, missing %d", len(left.Contents), left.Lost, left.Missing)
			}
			for i, contents := range left.Contents {
				if contents.Number() != uint64(3+i) {
					t.Errorf("file %d has the number %d", i, contents.Number())
				}
			}
		})
	}
	if left, err := Recover(files, "/log", 5); err != nil || len(left.Contents) != 1 {
		t.Errorf("from the last one: %v, %v", left.Contents, err)
	}
}

// A cut of several frames counts when its last one is there.
func TestCutsOfSeveralFrames(t *testing.T) {
	files := newMemory()
	l := start(t, files, 1)
	put(t, l, "a", "0")
	before := l.End()
	var f Frame
	f.Reset(before)
	parts := 0
	f.SpillAt(40, func() error {
		parts++
		end, err := l.AppendPart(&f)
		f.Reset(end)
		return err
	})
	for n := range 10 {
		f.Change(Set, fmt.Append(nil, "key", n))
		f.Value([]byte("a value"), nil)
	}
	if f.Err() != nil || parts < 3 {
		t.Fatalf("%d parts, %v", parts, f.Err())
	}
	name := "/log/" + Name(1)
	for _, whole := range []bool{false, true} {
		if whole {
			if _, err := l.Append(&f); err != nil {
				t.Fatal(err)
			}
		}
		left, err := Recover(files, "/log", 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(found(t, left.Contents...)); got != 1+10*map[bool]int{true: 1}[whole] {
			t.Errorf("whole %v: %d keys", whole, got)
		}
		if length := left.Contents[0].Length(); !whole && length != before.Offset || whole && length != int64(len(files.text(name))) {
			t.Errorf("whole %v: %d bytes count", whole, length)
		}
		left.Close()
	}
}

// A value may repeat bytes that the file has, and what a file makes of a key is what it did last.
func TestContents(t *testing.T) {
	files := newMemory()
	l := start(t, files, 1)
	var f Frame
	f.Reset(l.End())
	f.Change(Set, []byte("text"))
	at := f.Value([]byte("0123456789"), nil)
	f.Change(Add, []byte("refers"))
	f.Value([]byte("<>"), []Insert{{At: 1, Offset: at + 2, Length: 5}})
	f.Change(Add, []byte("gone"))
	f.Value([]byte("x"), nil)
	f.Change(Set, []byte("p/1"))
	f.Value([]byte("x"), nil)
	f.Change(Drop, []byte("p/"))
	f.Change(Set, []byte("p/2"))
	f.Value(nil, nil)
	f.Change(Delete, []byte("gone"))
	f.Change(Delete, []byte("other"))
	if _, err := l.Append(&f); err != nil {
		t.Fatal(err)
	}
	pauses := 0
	c, err := l.ReadBack(1, func() { pauses++ })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if want := []string{"other", "p/2", "refers", "text"}; !slices.Equal(c.Keys(), want) {
		t.Errorf("keys %q, want %q", c.Keys(), want)
	}
	want := map[string]string{"text": "0123456789", "refers": "<23456>", "p/2": ""}
	if diff := cmp.Diff(want, found(t, c)); diff != "" {
		t.Error(diff)
	}
	if d := c.Dropped(); len(d) != 1 || string(d[0]) != "p/" {
		t.Errorf("dropped %q", d)
	}
	if !c.Changes("other") || c.Changes("gone") || (*Contents)(nil).Changes("text") || pauses == 0 {
		t.Error("it does not know what it changes")
	}
}

// Sync says what the disk has, and has it do so for all files.
func TestSync(t *testing.T) {
	files := newMemory()
	l := start(t, files, 1)
	put(t, l, "a", "1")
	if _, err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	want := put(t, l, "a", "2")
	if end, err := l.Sync(); end != want || err != nil {
		t.Errorf("synced up to %v, want %v, %v", end, want, err)
	}
	for _, number := range []uint64{1, 2} {
		if f := files.files["/log/"+Name(number)]; f.synced != len(f.text) {
			t.Errorf("%d of %d bytes of file %d are synced", f.synced, len(f.text), number)
		}
	}
	put(t, l, "a", "3")
	files.fails = errSick
	if _, err := l.Sync(); !errors.Is(err, errSick) {
		t.Errorf("the disk is sick: %v", err)
	}
	files.fails = nil
	if end, err := l.Sync(); end != l.End() || err != nil {
		t.Errorf("synced up to %v, %v", end, err)
	}
}

// A frame is for one position. One that was made for another would refer to other bytes.
func TestFramesAreForAPosition(t *testing.T) {
	l := start(t, newMemory(), 1)
	var f Frame
	f.Reset(l.End())
	f.Change(Delete, []byte("a"))
	put(t, l, "b", "1")
	if end, err := l.Append(&f); err == nil {
		t.Errorf("it is appended up to %v", end)
	}
}

// Start goes on with a number, and removes the files before. Remove removes those that it made.
func TestFilesAreRemoved(t *testing.T) {
	files := newMemory()
	l := start(t, files, 1)
	if _, err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	expect := func(want ...uint64) {
		t.Helper()
		if got, err := Numbers(files, "/log"); !slices.Equal(got, want) || err != nil {
			t.Errorf("files %v, want %v, %v", got, want, err)
		}
	}
	expect(1, 2)
	l, err := Start(files, "/log", 3, []uint64{1, 2, 2}) // as if another process removed one
	if err != nil {
		t.Fatal(err)
	}
	expect(3)
	if _, err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	size := l.Size()
	if err := l.Remove(3); err != nil {
		t.Fatal(err)
	}
	expect(4)
	if now := l.Size(); now <= 0 || now >= size {
		t.Errorf("%d bytes, and %d before", now, size)
	}
	if _, err := l.ReadBack(3, nil); err == nil {
		t.Error("a file that was removed is read")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// What this process wrote and the disk does not have is an error, not an end.
func TestReadBackOfAShortFile(t *testing.T) {
	files := newMemory()
	l := start(t, files, 1)
	put(t, l, "a", "1")
	f := files.files["/log/"+Name(1)]
	f.text = f.text[:len(f.text)-1]
	if _, err := l.ReadBack(1, nil); !errors.Is(err, ErrShort) {
		t.Errorf("it is read: %v", err)
	}
}

// A frame that is whole but means nothing is damage, not the end of a log.
func TestFramesThatMeanNothing(t *testing.T) {
	l := start(t, newMemory(), 1)
	var f Frame
	f.Reset(l.End())
	f.Change(Delete, []byte("x"))
	f.b = append(f.b, 200)
	if _, err := l.Append(&f); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ReadBack(1, nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("it is taken for the end: %v", err)
	}
}

// A frame keeps a large buffer while large cuts come, even with small ones between them.
func TestFrameBuffer(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		name             string
		capacity, length int
		cuts             int
		want             bool
	}{
		{"small", mib, 100, 1000, true},
		{"in use", 4 * mib, mib / 4, 1000, true},
		{"in use until now", 4 * mib, mib/4 - 1, 15, true},
		{"no longer in use", 4 * mib, mib/4 - 1, 16, false},
		{"large", 8 * mib, 8 * mib, 1000, true},
		{"too large", 8*mib + 1, 8 * mib, 1, false},
	} {
		f := Frame{b: make([]byte, c.length, c.capacity)}
		for range c.cuts {
			f.shrink()
		}
		if got := f.b != nil; got != c.want {
			t.Errorf("%s: it is kept: %v", c.name, got)
		}
	}
	f := Frame{b: make([]byte, 4*mib)}
	for n := range 1000 {
		length := 100
		if n%10 == 9 {
			length = mib
		}
		f.b = f.b[:length]
		if f.shrink(); f.b == nil {
			t.Fatalf("it was dropped after %d cuts, of which every tenth was large", n+1)
		}
	}
}

func TestAppendDropsALargeBuffer(t *testing.T) {
	t.Parallel()
	l := start(t, newMemory(), 1)
	f := Frame{b: make([]byte, 16<<20)}
	f.Reset(l.End())
	f.Change(Delete, []byte("x"))
	if _, err := l.Append(&f); err != nil {
		t.Fatal(err)
	}
	if n := cap(f.b); n > 1<<20 {
		t.Errorf("a buffer of %d bytes is kept", n)
	}
}

// FuzzRead checks that any bytes are read as a log up to some frame, and that nothing beyond it is
// made up.
func FuzzRead(f *testing.F) {
	files := newMemory()
	l := start(f, files, 1)
	var frame Frame
	frame.Reset(l.End())
	frame.Change(Set, []byte("object"))
	at := frame.Value([]byte("a text that is not short"), nil)
	frame.Change(Add, []byte("delivery"))
	frame.Value([]byte("of it"), []Insert{{At: 2, Offset: at, Length: 20}})
	frame.Change(Drop, []byte("x"))
	frame.Change(Delete, []byte("y"))
	if _, err := l.Append(&frame); err != nil {
		f.Fatal(err)
	}
	text := files.text("/log/" + Name(1))
	f.Add(text)
	f.Add(text[:len(text)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		c, _, err := read(newMemory().with("/log/"+Name(1), append([]byte{}, b...)), "/log", 1, nil)
		if newer := new(VersionError); errors.Is(err, ErrMalformed) || errors.As(err, &newer) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.Length() > int64(len(b)) {
			t.Errorf("%d of %d bytes", c.Length(), len(b))
		}
		for _, key := range c.Keys() {
			_, _, _ = c.Value(nil, key)
		}
		_ = c.Close()
	})
}
