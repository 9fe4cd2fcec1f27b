// One object in the shared memory.

package steps

import (
	"encoding/binary"
	"sync/atomic"
	"time"
	"unicode/utf8"
	"unsafe"
)

// A record has a word, then the other fields. The word is 0 while the record is empty. It is written
// last, and cleared first, so a process that dies in between leaves no half record. Longer texts
// have no record.
const (
	deathsAt   = 4
	timeAt     = 8
	informerAt = 16
	lengthAt   = 24 // of the resource
	resourceAt = 26
	objectAt   = 256
	versionAt  = 576
	recordSize = 640

	maxResource = objectAt - resourceAt
	maxObject   = versionAt - objectAt
	maxVersion  = recordSize - versionAt
)

// record is recordSize bytes of the shared memory.
type record []byte

// word returns the kind and the lengths of the object and the version, in 4, 12 and 16 bits.
func (r record) word() *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&r[0])) }

// fits reports whether a record has room for a suspect.
func (s Suspect) fits() bool {
	return len(s.Resource) <= maxResource && len(s.Object) <= maxObject && len(s.Version) <= maxVersion
}

// set writes what changes from step to step. The texts must fit.
func (r record) set(kind Kind, object, version string) {
	word := r.word()
	if word.Load() != 0 {
		word.Store(0)
	}
	copy(r[objectAt:versionAt], object)
	copy(r[versionAt:recordSize], version)
	word.Store(uint32(kind)<<28 | uint32(len(object))<<16 | uint32(len(version)))
}

// own writes whose steps the record is for. The resource must fit.
func (r record) own(informer uint64, resource string) {
	r.word().Store(0)
	binary.LittleEndian.PutUint64(r[informerAt:], informer)
	binary.LittleEndian.PutUint16(r[lengthAt:], uint16(len(resource)))
	copy(r[resourceAt:objectAt], resource)
}

// put writes a suspect, which must fit.
func (r record) put(s Suspect) {
	r.own(s.Informer, s.Resource)
	binary.LittleEndian.PutUint32(r[deathsAt:], uint32(s.Deaths))
	binary.LittleEndian.PutUint64(r[timeAt:], uint64(s.At.UnixNano()))
	r.set(s.Kind, s.Object, s.Version)
}

// get reads a record. ok is false if it is empty or damaged.
func (r record) get() (s Suspect, ok bool) {
	word := r.word().Load()
	object, version := int(word>>16&0xfff), int(word&0xffff)
	resource := int(binary.LittleEndian.Uint16(r[lengthAt:]))
	if word == 0 || object == 0 || object > maxObject || version > maxVersion || resource > maxResource {
		return Suspect{}, false
	}
	s = Suspect{
		Informer: binary.LittleEndian.Uint64(r[informerAt:]),
		Resource: string(r[resourceAt : resourceAt+resource]),
		Object:   string(r[objectAt : objectAt+object]), Version: string(r[versionAt : versionAt+version]),
		Kind: Kind(word >> 28), Deaths: int(binary.LittleEndian.Uint32(r[deathsAt:])),
		At: time.Unix(0, int64(binary.LittleEndian.Uint64(r[timeAt:]))),
	}
	isText := utf8.ValidString(s.Resource) && utf8.ValidString(s.Object) && utf8.ValidString(s.Version)
	return s, isText && s.Kind >= Change && s.Kind <= Round
}
