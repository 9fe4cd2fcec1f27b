package state

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/fields"
)

// A log is a file of cuts, which is only appended to. Nearly every cut is one frame:
//
//	length of the payload, 4 bytes, big-endian
//	CRC-32C of the payload, 4 bytes, big-endian
//	payload: the changes of the store's keys, in order
//
// A change is a byte that says which, the length of the key as a uvarint, and the key. For set and
// add the value follows: its length as a uvarint, and its parts, up to that length. A part begins
// with a uvarint n. If n is even, n/2 bytes follow. If n is odd, the part is n/2 bytes that are in
// the log already, and a uvarint says at which offset. So a log holds the text of an object once,
// however many deliveries carry it.
//
// A cut that is larger than a frame may be has several frames. The highest bit of the length says
// that more of them follow. A reader takes the cut if all of them are whole. A store whose logs may
// have such cuts is of partedFormat.
//
// The first frame says which log it is and how long the log before it is. A reader ends at the
// first frame that is not whole, and goes on to the next log only if it has read this one to its
// end. So what it reads are all cuts up to some moment. A frame that is whole but malformed is
// damage.
const (
	setChange    = iota + 1
	addChange    // sets a key that neither the store nor an earlier log has
	deleteChange // of one key
	dropChange   // of all keys with a prefix
)

const (
	logPrefix   = "cuts-" // begins the names of logs; the number follows
	logMark     = logOf + "1"
	logOf       = "informd cuts " // begins the first frame of a log; the version of its format follows
	frameHeader = 8
	// maxFrame bounds the payload of a frame, and so a value.
	maxFrame = math.MaxInt32
	// moreFrames is a bit of a frame's length: the next frame belongs to the same cut.
	moreFrames = 1 << 31
	// maxPart is the length at which a frame ends, and the next change begins another one. So the
	// memory that a cut takes on its way is bounded, however much was recorded while a disk was away.
	maxPart = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func logName(number uint64) string { return fmt.Sprintf("%s%08d", logPrefix, number) }

// logNumber reads the number from the name of a log.
func logNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, logPrefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil && logName(number) == name
}

// logsIn returns the numbers of the logs in the directory named store, in order.
func logsIn(files vfs.FS, store string) (numbers []uint64, err error) {
	names, err := files.List(store)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if n, ok := logNumber(name); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// cutLog is a log that is being written. One goroutine appends; others may sync meanwhile.
type cutLog struct {
	number uint64
	id     uint64 // distinguishes the logs of this process
	path   string
	file   vfs.File
	length atomic.Int64

	mu       sync.Mutex // guards the fields below
	synced   int64      // how much of it is on disk
	isListed bool       // its entry in the directory is on disk
	isClosed bool
}

// logs counts the logs that this process has made.
var logs atomic.Uint64

// createLog makes a log that goes on where the log before it ends, after previous bytes.
func createLog(files vfs.FS, store string, number uint64, previous int64) (*cutLog, error) {
	path := files.PathJoin(store, logName(number))
	file, err := files.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	l := &cutLog{number: number, id: logs.Add(1), path: path, file: file}
	f := newFrame(l)
	f.b = append(f.b, logMark...)
	f.b = binary.AppendUvarint(binary.AppendUvarint(f.b, number), uint64(previous))
	if err := l.append(f, false); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// append writes a frame. more says that the cut goes on with the next one. When append returns, the
// operating system has the frame.
func (l *cutLog) append(f *frame, more bool) error {
	if len(f.b)-frameHeader > maxFrame {
		return fmt.Errorf("a frame of %d bytes is too large", len(f.b))
	}
	payload := f.b[frameHeader:]
	length := uint32(len(payload))
	if more {
		length |= moreFrames
	}
	binary.BigEndian.PutUint32(f.b, length)
	binary.BigEndian.PutUint32(f.b[4:], crc32.Checksum(payload, castagnoli))
	if _, err := l.file.Write(f.b); err != nil {
		return err
	}
	l.length.Add(int64(len(f.b)))
	return nil
}

// sync returns when everything that was appended before is on disk.
func (l *cutLog) sync(files vfs.FS) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	length := l.length.Load()
	if l.isClosed || l.synced == length {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	if !l.isListed {
		if err := disk.SyncDir(files, files.PathDir(l.path)); err != nil {
			return err
		}
	}
	l.synced, l.isListed = length, true
	return nil
}

func (l *cutLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed {
		return nil
	}
	l.isClosed = true
	return l.file.Close()
}

// A place says in 64 bits where a log holds the record of an object: the id of the log, the offset
// and the length. Objects beyond these limits have no place, and each delivery repeats them.
const (
	idBits, offsetBits, lengthBits = 22, 26, 16
)

// place notes where the log holds the record of o.
func (l *cutLog) place(o *object.Object, offset int64, length int) {
	if l.id < 1<<idBits && offset < 1<<offsetBits && length < 1<<lengthBits {
		o.SetPlace(l.id<<(offsetBits+lengthBits) | uint64(offset)<<lengthBits | uint64(length))
	}
}

// placeOf returns where the log holds the record of o. ok is false if it does not.
func (l *cutLog) placeOf(o *object.Object) (offset, length int64, ok bool) {
	p := o.Place()
	offset = int64(p >> lengthBits & (1<<offsetBits - 1))
	return offset, int64(p & (1<<lengthBits - 1)), p != 0 && p>>(offsetBits+lengthBits) == l.id
}

// frame is a cut on its way into a log, or a part of it.
type frame struct {
	b  []byte // the header and the payload
	at int64  // where the frame begins in the log
	// spill writes the frame as a part of its cut, and begins the next one. It is called before a
	// change if the frame has become longer than maxPart. nil does without.
	spill   func() error
	maxPart int
	err     error // of spill
}

func newFrame(l *cutLog) *frame {
	f := new(frame)
	f.reset(l)
	return f
}

func (f *frame) reset(l *cutLog) {
	f.b, f.at = append(f.b[:0], make([]byte, frameHeader)...), l.length.Load()
}

func (f *frame) isEmpty() bool { return len(f.b) == frameHeader }

// end returns where in the log the next byte of the frame goes.
func (f *frame) end() int64 { return f.at + int64(len(f.b)) }

func (f *frame) change(kind byte, key []byte) {
	if f.spill != nil && f.err == nil && len(f.b) > f.maxPart {
		f.err = f.spill()
	}
	f.b = fields.AppendBytes(append(f.b, kind), key)
}

// value appends a value: text, with bytes of the log inserted. It returns the offset in the log at
// which the last part of text begins.
func (f *frame) value(text []byte, inserts []insert) (last int64) {
	length := len(text)
	for _, i := range inserts {
		length += int(i.length)
	}
	f.b = binary.AppendUvarint(f.b, uint64(length))
	from := 0
	for _, i := range inserts {
		f.plain(text[from:i.at])
		f.b = binary.AppendUvarint(f.b, uint64(i.length)<<1|1)
		f.b = binary.AppendUvarint(f.b, uint64(i.offset))
		from = i.at
	}
	return f.plain(text[from:])
}

func (f *frame) plain(part []byte) (offset int64) {
	if len(part) > 0 {
		f.b = append(binary.AppendUvarint(f.b, uint64(len(part))<<1), part...)
	}
	return f.end() - int64(len(part))
}

// insert stands for bytes of the log in a value.
type insert struct {
	at     int   // position in the text where they are left out
	offset int64 // in the log
	length int64
}

// final is what a log makes of a key in the end.
type final struct {
	kind   byte   // setChange, addChange or deleteChange
	length uint32 // of the value
	value  int64  // offset of the value in the log
}

// contents is what a log holds: for each key that it changes, what it makes of it in the end.
type contents struct {
	file    vfs.File
	dropped [][]byte // prefixes whose keys go before the others are set
	finals  map[string]final
	length  int64         // of the whole frames
	ofFile  int64         // the length of the file
	in      *bufio.Reader // value uses it again and again
}

// size returns about how many bytes the store gets.
func (c *contents) size() (sum uint64) {
	for key, f := range c.finals {
		sum += uint64(len(key)) + uint64(f.length)
	}
	return sum
}

// changes reports whether the log changes a key. c may be nil.
func (c *contents) changes(key string) bool {
	if c == nil {
		return false
	}
	_, ok := c.finals[key]
	return ok
}

// readLog reads the log with a number. Its changes end at the first frame that is not whole. The
// length of the contents is 0 if not even the first frame is, or if it belongs to another log.
// previous is the length of the log before it. The caller closes contents.file.
// readLog rests with pause, which may be nil.
func readLog(
	files vfs.FS, store string, number uint64, pause *disk.Breath,
) (c *contents, previous int64, err error) {
	file, err := files.Open(files.PathJoin(store, logName(number)))
	if err != nil {
		return nil, 0, err
	}
	c = &contents{file: file, finals: make(map[string]final)}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	c.ofFile = info.Size()
	in := bufio.NewReaderSize(io.NewSectionReader(file, 0, c.ofFile), 256<<10)
	var payload []byte
	var more bool
	whole := int64(0) // where the cut of several frames ends that is being read
	for {
		pause.Take()
		if payload, more, err = readFrame(in, payload, c.ofFile-c.length); err != nil {
			return nil, 0, errors.Join(err, file.Close())
		}
		if payload == nil {
			return c, previous, nil
		}
		if more && c.length >= whole {
			whole, err = c.endOfCut(c.length+frameHeader+int64(len(payload)), pause)
			if err != nil {
				return nil, 0, errors.Join(err, file.Close())
			}
			if whole == 0 {
				return c, previous, nil
			}
		}
		if c.length == 0 {
			r := fields.Reader{Left: payload}
			mark := r.Take(len(logMark))
			if version, ok := newerLog(mark); ok {
				err := &VersionError{Of: "log", Found: version, Reads: 1}
				return nil, 0, errors.Join(err, file.Close())
			}
			if string(mark) != logMark || r.Uvarint() != number {
				return c, 0, nil
			}
			previous = int64(r.Uvarint())
		} else if !c.add(payload) {
			return nil, 0, errors.Join(damage("a cut in a log is malformed"), file.Close())
		}
		c.length += frameHeader + int64(len(payload))
	}
}

// newerLog reports whether a mark begins a log of a newer format, and of which version.
func newerLog(mark []byte) (version uint64, ok bool) {
	text, ok := bytes.CutPrefix(mark, []byte(logOf))
	if !ok {
		return 0, false
	}
	version, err := strconv.ParseUint(string(text), 10, 64)
	return version, err == nil && version > 1
}

// endOfCut returns where the cut ends whose next frame begins at an offset, or 0 if one of its
// frames is not whole.
func (c *contents) endOfCut(at int64, pause *disk.Breath) (end int64, err error) {
	in := bufio.NewReaderSize(io.NewSectionReader(c.file, at, c.ofFile-at), 256<<10)
	var payload []byte
	for more := true; more; at += frameHeader + int64(len(payload)) {
		pause.Take()
		if payload, more, err = readFrame(in, payload, c.ofFile-at); payload == nil {
			return 0, err
		}
	}
	return at, nil
}

// readFrame returns the payload of the next frame, or nil if it is not whole. more says that the
// next frame belongs to the same cut. It uses the memory of buf. left is how long the rest of the
// log is.
func readFrame(in io.Reader, buf []byte, left int64) (payload []byte, more bool, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return nil, false, unlessEnd(err)
	}
	length := int64(binary.BigEndian.Uint32(header[:]))
	more = length&moreFrames != 0
	if length &^= moreFrames; length > left-frameHeader || length == 0 {
		return nil, false, nil
	}
	buf = slices.Grow(buf[:0], int(length))[:length]
	if _, err := io.ReadFull(in, buf); err != nil {
		return nil, false, unlessEnd(err)
	}
	if crc32.Checksum(buf, castagnoli) != binary.BigEndian.Uint32(header[4:]) {
		return nil, false, nil
	}
	return buf, more, nil
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// add adds the changes of the next frame. It reports whether they are well-formed.
func (c *contents) add(payload []byte) bool {
	r := fields.Reader{Left: payload}
	for len(r.Left) > 0 {
		kind, key := r.Byte(), r.Bytes()
		at := c.length + frameHeader + int64(len(payload)-len(r.Left))
		switch kind {
		case setChange, addChange:
			length := skipValue(&r)
			if kind == setChange && c.finals[string(key)].kind == addChange {
				kind = addChange
			}
			c.finals[string(key)] = final{kind, length, at}
		case deleteChange:
			if c.finals[string(key)].kind == addChange {
				delete(c.finals, string(key))
			} else {
				c.finals[string(key)] = final{kind: kind}
			}
		case dropChange:
			c.dropped = append(c.dropped, bytes.Clone(key))
			for k := range c.finals {
				if strings.HasPrefix(k, string(key)) {
					delete(c.finals, k)
				}
			}
		default:
			return false
		}
		if r.Failed() {
			return false
		}
	}
	return true
}

// skipValue reads past a value, and returns its length.
func skipValue(r *fields.Reader) uint32 {
	length := r.Uvarint()
	if length > maxFrame {
		r.Fail()
	}
	for left := length; left > 0 && !r.Failed(); {
		n := r.Uvarint()
		part := n >> 1
		if part == 0 || part > left {
			r.Fail()
			return 0
		}
		left -= part
		if n&1 == 1 {
			r.Uvarint()
		} else {
			r.Take(int(part))
		}
	}
	return uint32(length)
}

// value reads the value at an offset into buf, and returns it.
func (c *contents) value(buf []byte, at int64) ([]byte, error) {
	if c.in == nil {
		c.in = bufio.NewReaderSize(nil, 4<<10)
	}
	in := c.in
	in.Reset(io.NewSectionReader(c.file, at, c.length-at))
	length, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	if length > uint64(c.length)*maxRepeats {
		return nil, fields.ErrMalformed
	}
	buf = slices.Grow(buf[:0], int(length))[:length]
	for at := 0; at < len(buf); {
		n, err := binary.ReadUvarint(in)
		if err != nil {
			return nil, err
		}
		if n>>1 == 0 || n>>1 > uint64(len(buf)-at) {
			return nil, fields.ErrMalformed
		}
		part := buf[at : at+int(n>>1)]
		at += len(part)
		if n&1 == 0 {
			_, err = io.ReadFull(in, part)
		} else {
			var offset uint64
			if offset, err = binary.ReadUvarint(in); err == nil {
				_, err = c.file.ReadAt(part, int64(offset))
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// maxRepeats bounds a value by the length of its log: it holds the bytes of an object twice at
// most.
const maxRepeats = 3
