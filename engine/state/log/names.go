// The names of files, and the errors about them.

package log

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

const prefix = "cuts-" // begins the names of files; the number follows

// NewestName is the name of the file that says which file of the log is the newest. It only serves
// to notice that somebody has removed that one, so it is not synced.
const NewestName = "NEWEST"

// Name returns the name of the file with a number.
func Name(number uint64) string { return fmt.Sprintf("%s%08d", prefix, number) }

// IsName reports whether a name is that of a file of a log, or resembles one.
func IsName(name string) bool { return strings.HasPrefix(name, prefix) }

// NumberOf reads the number from the name of a file.
func NumberOf(name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil && Name(number) == name
}

// Numbers returns the numbers of the files in a directory, in order.
func Numbers(files Files, dir string) (numbers []uint64, err error) {
	names, err := files.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if n, ok := NumberOf(name); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// noteNewest notes that a file was made and is the newest. Errors of the disk do not matter here:
// the next start then does not notice if the file is missing.
func noteNewest(files Files, dir string, number uint64) {
	f, err := files.Create(files.Join(dir, NewestName))
	if err != nil {
		return
	}
	_, _ = f.Write(strconv.AppendUint(nil, number, 10))
	_ = f.Close()
}

// newest returns the number of the newest file that was made, or 0 if it is not known. The file may
// have been removed since, because its content is elsewhere.
func newest(files Files, dir string) uint64 {
	f, length, err := files.Open(files.Join(dir, NewestName))
	if err != nil {
		return 0
	}
	defer f.Close()
	text, _ := io.ReadAll(io.NewSectionReader(f, 0, min(length, 32)))
	n, _ := strconv.Atoi(strings.TrimSpace(string(text))) // an unreadable file counts as 0
	return uint64(n)
}

// VersionError means that a file is of a newer format. Nothing has happened to it.
type VersionError struct {
	Found, Reads uint64 // the version of the format, and the newest that can be read
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("a log is of format %d, and this informd reads format %d", e.Found, e.Reads)
}

// ErrMalformed means that a whole frame, or a value in it, makes no sense. A crash does not leave
// that.
var ErrMalformed = errors.New("a cut in a log is malformed")

// ErrShort means that a file is shorter than this process has written it.
var ErrShort = errors.New("the log is shorter than it was written")
