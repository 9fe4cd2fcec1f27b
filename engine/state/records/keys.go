// The keys.

package records

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/fields"
)

// The keys of the store. A hash is the first 8 bytes of the SHA-256 of a name. Names are those of
// Kubernetes objects, each after its length as a uvarint. n is big-endian. Values begin with the
// version of their own format.
//
//	f                                 format: the text of FormatMark and a uvarint, the version.
//	                                  Replicas set it by an entry of the log that does nothing else
//	c                                 cluster
//	g                                 progress: which logs the database has
//	m hash(informer)                  informer: id, kept, resourceVersion
//	o hash(informer) namespace name   object
//	r rule                            rule
//	w hash(rule) namespace name n     delivery that waits
//	n hash(rule) name                 what a rule remembers under a name
//	l id                              dead letter
//	d dictionary                      a dictionary; the key is the first 16 bytes of its SHA-256
//	u owner dictionary                no value: the owner's records may refer to the dictionary.
//	                                  An owner is o or w and a hash as above, or l and eight
//	                                  zeros.
//
// A dictionary is written in the cut that first refers to it. The cut that removes the last
// reference removes it.
const (
	formatPrefix     = 'f'
	clusterPrefix    = 'c'
	progressPrefix   = 'g'
	InformerPrefix   = 'm'
	ObjectPrefix     = 'o'
	RulePrefix       = 'r'
	DeliveryPrefix   = 'w'
	NotePrefix       = 'n'
	LetterPrefix     = 'l'
	DictionaryPrefix = 'd'
	UsePrefix        = 'u'
)

// The record of the format is a mark and the version of the format.
const (
	FormatMark    = "informd state "
	FormatVersion = 4 // the version of a new store without replicas
	// Logless is the version of stores without logs. They can be read.
	Logless = 1
	// NewestFormat is the newest version that can be read. Every new meaning of a store's bytes
	// needs a new version: an earlier informd then refuses the store, and takes it for no damage.
	NewestFormat = PartedFormat
	// PartedFormat is the version of a store whose logs may have cuts of several frames. A start
	// reads the logs, and makes the store one of FormatVersion again. Versions 2 and 3 were these two
	// before deltas had occasions.
	PartedFormat = 5
	// FirstShared is the version of a replica's store until an entry of the log sets another one. It
	// must not change: replicas of all versions begin with it.
	FirstShared = 4
	// SharedFormat is the version in which this informd writes a store that replicas share.
	SharedFormat = PartedFormat
)

type (
	// Owner identifies whose records are meant: its bytes begin their keys.
	Owner [9]byte
	// DictionaryID is the key of a dictionary.
	DictionaryID [16]byte
)

// NewOwner returns the owner of the records of a kind that belong to a name. prefix is
// ObjectPrefix, DeliveryPrefix or NotePrefix.
func NewOwner(prefix byte, name string) (o Owner) {
	sum := sha256.Sum256([]byte(name))
	o[0] = prefix
	copy(o[1:], sum[:])
	return o
}

// These are the keys of single records, and the owner of all letters. They must not be changed.
var (
	FormatKey   = []byte{formatPrefix}
	ClusterKey  = []byte{clusterPrefix}
	ProgressKey = []byte{progressPrefix}
	Letters     = Owner{LetterPrefix}
)

// InformerKey returns the key of the informer that owns objects.
func InformerKey(objects Owner) []byte {
	objects[0] = InformerPrefix
	return objects[:]
}

// RuleKey returns the key of a rule.
func RuleKey(name string) []byte { return append([]byte{RulePrefix}, name...) }

// LetterKey returns the key of a dead letter.
func LetterKey(id string) []byte { return append([]byte{LetterPrefix}, id...) }

// DictionaryKey returns the key of a dictionary.
func DictionaryKey(id DictionaryID) []byte { return append([]byte{DictionaryPrefix}, id[:]...) }

// UseKey returns the key that says that records of an owner may refer to a dictionary.
func UseKey(o Owner, id DictionaryID) []byte {
	return append(append([]byte{UsePrefix}, o[:]...), id[:]...)
}

// ParseUseKey reads a key that UseKey made.
func ParseUseKey(key []byte) (o Owner, id DictionaryID, ok bool) {
	if len(key) != 1+len(o)+len(id) {
		return o, id, false
	}
	copy(id[:], key[1+copy(o[:], key[1:]):])
	return o, id, true
}

// DictionaryIDOf returns the id of a dictionary by its text.
func DictionaryIDOf(text []byte) DictionaryID {
	sum := sha256.Sum256(text)
	return DictionaryID(sum[:16])
}

// AppendObjectKey appends the key of an object, which also begins the keys of its deliveries.
func AppendObjectKey(b []byte, o Owner, key delta.Key) []byte {
	return fields.AppendText(fields.AppendText(append(b, o[:]...), key.Namespace), key.Name)
}

// AppendDeliveryKey appends the key of the delivery with the number n.
func AppendDeliveryKey(b []byte, o Owner, key delta.Key, n uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendObjectKey(b, o, key), n)
}

// ParseDeliveryKey reads what follows the owner in the key of a delivery.
func ParseDeliveryKey(key []byte) (k delta.Key, n uint64, ok bool) {
	r := fields.Reader{Left: key[min(len(key), len(Owner{})):]}
	k = delta.Key{Namespace: r.Text(), Name: r.Text()}
	if len(r.Left) == 8 {
		n = binary.BigEndian.Uint64(r.Take(8))
	}
	return k, n, r.End() == nil
}

// After returns the end of the range of keys that begin with prefix.
func After(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
