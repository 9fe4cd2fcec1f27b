package state

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/informd/informd/engine/delta"
)

// The keys of the store. A hash is the first 8 bytes of the SHA-256 of a name. Names are those of
// Kubernetes objects, each after its length as a uvarint. n is big-endian. Values begin with the
// version of their own format; see records.go.
//
//	f                                 format: the text of formatMark and a uvarint, formatVersion
//	c                                 cluster
//	g                                 progress: which logs the store has; see log.go
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
	informerPrefix   = 'm'
	objectPrefix     = 'o'
	rulePrefix       = 'r'
	deliveryPrefix   = 'w'
	notePrefix       = 'n'
	letterPrefix     = 'l'
	dictionaryPrefix = 'd'
	usePrefix        = 'u'
)

const (
	formatMark    = "informd state "
	formatVersion = 2
	// logless is the version of stores without logs. They can be read.
	logless = 1
	// newestFormat is the newest version that can be read. Every new meaning of a store's bytes
	// needs a new version: an earlier informd then refuses the store, and takes it for no damage.
	newestFormat = partedFormat
	// partedFormat is the version of a store whose logs may have cuts of several frames. A start
	// reads the logs, and makes the store one of formatVersion again.
	partedFormat = 3
)

type (
	// owner identifies whose records are meant: its bytes begin their keys.
	owner [9]byte
	// dictionaryID is the key of a dictionary.
	dictionaryID [16]byte
)

func newOwner(prefix byte, name string) (o owner) {
	sum := sha256.Sum256([]byte(name))
	o[0] = prefix
	copy(o[1:], sum[:])
	return o
}

var (
	formatKey   = []byte{formatPrefix}
	clusterKey  = []byte{clusterPrefix}
	progressKey = []byte{progressPrefix}
	letters     = owner{letterPrefix}
)

func informerKey(objects owner) []byte {
	objects[0] = informerPrefix
	return objects[:]
}

func ruleKey(name string) []byte { return append([]byte{rulePrefix}, name...) }

func letterKey(id string) []byte { return append([]byte{letterPrefix}, id...) }

func dictionaryKey(id dictionaryID) []byte { return append([]byte{dictionaryPrefix}, id[:]...) }

func useKey(o owner, id dictionaryID) []byte {
	return append(append([]byte{usePrefix}, o[:]...), id[:]...)
}

func appendName(b []byte, name string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(name))), name...)
}

// appendObjectKey appends the key of an object, which also begins the keys of its deliveries.
func appendObjectKey(b []byte, o owner, key delta.Key) []byte {
	return appendName(appendName(append(b, o[:]...), key.Namespace), key.Name)
}

func appendDeliveryKey(b []byte, o owner, key delta.Key, n uint64) []byte {
	return binary.BigEndian.AppendUint64(appendObjectKey(b, o, key), n)
}

// parseDeliveryKey reads what follows the owner in the key of a delivery.
func parseDeliveryKey(key []byte) (k delta.Key, n uint64, ok bool) {
	r := reader{left: key[min(len(key), len(owner{})):]}
	k = delta.Key{Namespace: r.string(), Name: r.string()}
	if len(r.left) == 8 {
		n, r.left = binary.BigEndian.Uint64(r.left), nil
	}
	return k, n, r.end() == nil
}

// after returns the end of the range of keys that begin with prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
