// Reading the row of files that an earlier process left.

package log

import "slices"

// Left is what an earlier process left of a log.
type Left struct {
	// Numbers are those of all files, in order.
	Numbers []uint64
	// Contents are those that count, in order: each goes on where the one before it ends. The first
	// one has the number that Recover was given. Close closes them.
	Contents []*Contents
	// Lost is what lies beyond the last whole cut, in order. A machine that lost power tears the end
	// of a log. Anything else that does is damage.
	Lost []Lost
	// Missing is the number of the newest file if that is not there, or 0. The machine has lost
	// power, or somebody has removed it.
	Missing uint64
}

// Lost is a part of a file that cannot be read, or does not count.
type Lost struct {
	File     uint64
	From, To int64 // offsets; To is the length of the file
}

// Recover reads the log of a directory, beginning at the file with a number, up to the first file
// that does not begin where the one before it ends. Earlier files do not count. It changes nothing
// on disk. If it returns an error, the result is not nil and says what was found before. The caller
// closes it in any case.
func Recover(files Files, dir string, from uint64) (left *Left, err error) {
	left = new(Left)
	if left.Numbers, err = Numbers(files, dir); err != nil {
		return left, err
	}
	expected, length, ended := from, int64(0), false
	for _, n := range left.Numbers {
		if n < from {
			continue
		}
		c, previous, err := read(files, dir, n, nil)
		if err != nil {
			return left, err
		}
		ended = ended || n != expected || n != from && previous != length
		if ended || c.length == 0 {
			_ = c.Close() // it was only read
			left.lost(n, 0, c.ofFile)
			ended = true
			continue
		}
		left.lost(n, c.length, c.ofFile)
		left.Contents = append(left.Contents, c)
		expected, length = n+1, c.length
	}
	if n := newest(files, dir); n >= from && !slices.Contains(left.Numbers, n) {
		left.Missing = n
	}
	return left, nil
}

func (l *Left) lost(number uint64, from, to int64) {
	if from < to {
		l.Lost = append(l.Lost, Lost{number, from, to})
	}
}

// Close closes the Contents.
func (l *Left) Close() {
	for _, c := range l.Contents {
		_ = c.Close() // it was only read
	}
}
