package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/klauspost/compress/s2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// recordVersion is the first byte of each record. A new meaning of the bytes needs a new version.
const recordVersion = 1

// These are the forms of an object on disk.
const (
	noObject   = iota
	byIdentity // namespace, name, uid, resourceVersion; used for Secrets
	packed     // with s2
	packedWith // with s2 and the dictionary whose id comes first
)

// maxText bounds an unpacked text, in bytes. No API server accepts an object of that size.
const maxText = 64 << 20

// references are what the records of one owner refer to.
type references interface {
	// dictionary returns the id of a dictionary and notes that a record uses it. It returns the
	// zero id for a dictionary without text.
	dictionary(*object.Dictionary) dictionaryID
	// repeat reports whether the log has the record of an object already. Then the record that is
	// being made leaves it out at a position, and repeat notes that.
	repeat(o *object.Object, at int) bool
	// wrote notes where the record that is being made holds the record of an object.
	wrote(o *object.Object, from, to int)
}

func appendObject(b []byte, o *object.Object, secret bool, refer references) []byte {
	if o == nil {
		return append(b, noObject)
	}
	if secret {
		b = append(b, byIdentity)
		for _, s := range [...]string{o.Namespace(), o.Name(), o.UID(), o.ResourceVersion()} {
			b = appendName(b, s)
		}
		return b
	}
	if refer.repeat(o, len(b)) {
		return b
	}
	from := len(b)
	b = appendPacked(b, o, refer)
	refer.wrote(o, from, len(b))
	return b
}

func appendPacked(b []byte, o *object.Object, refer references) []byte {
	text, with, ok := o.Packed()
	if !ok {
		text, with = s2.Encode(nil, text), nil
	}
	if with != nil {
		if id := refer.dictionary(with); id != (dictionaryID{}) {
			return appendBytes(append(append(b, packedWith), id[:]...), text)
		}
	}
	return appendBytes(append(b, packed), text)
}

// dictionaryOf returns the dictionary with an id.
type dictionaryOf func(dictionaryID) (*object.Dictionary, error)

// object reads an object and leaves it packed. id names the dictionary that packs it, or is zero.
func (r *reader) object(get dictionaryOf) (o *object.Object, id dictionaryID, err error) {
	var with *object.Dictionary
	switch r.byte() {
	case noObject:
		return nil, id, nil
	case byIdentity:
		return object.FromIdentity(r.string(), r.string(), r.string(), r.string()), id, nil
	case packedWith:
		if r.left = r.left[copy(id[:], r.left):]; len(r.left) == 0 {
			return nil, id, errRecord
		}
		if with, err = get(id); err != nil {
			return nil, id, err
		}
	case packed:
	default:
		return nil, id, errRecord
	}
	text := r.bytes()
	if r.bad {
		return nil, id, errRecord
	}
	o, err = object.FromPacked(bytes.Clone(text), with)
	return o, id, err
}

func appendObjectRecord(
	b []byte, o *object.Object, inside []string, secret bool, refer references,
) []byte {
	return appendObject(appendStrings(append(b, recordVersion), inside), o, secret, refer)
}

// hasOccasion is set in the byte of a delta's type if the delta has an occasion. An earlier informd
// wrote none.
const hasOccasion = 0x80

func (r *reader) delta(get dictionaryOf) (d delta.Delta, err error) {
	kind := r.byte()
	d.Type, d.Round = delta.Type(kind&^hasOccasion), r.varint()
	if kind&hasOccasion != 0 {
		d.Occasion = uint32(r.uvarint())
	}
	if !delta.All.Has(d.Type) || d.Type > delta.Synced {
		return d, errRecord
	}
	if d.Object, _, err = r.object(get); err != nil {
		return d, err
	}
	if d.Old, _, err = r.object(get); err != nil {
		return d, err
	}
	if d.Object == nil {
		return d, errRecord
	}
	return d, nil
}

func appendDelta(b []byte, d delta.Delta, secret bool, refer references) []byte {
	kind := byte(d.Type)
	if d.Occasion != 0 {
		kind |= hasOccasion
	}
	b = binary.AppendVarint(append(b, kind), d.Round)
	if d.Occasion != 0 {
		b = binary.AppendUvarint(b, uint64(d.Occasion))
	}
	return appendObject(appendObject(b, d.Object, secret, refer), d.Old, secret, refer)
}

// These are the forms of a payload on disk.
const (
	noPayload = iota
	plainPayload
	packedPayload // with s2
)

// smallPayload is the size in bytes below which packing does not pay.
const smallPayload = 256

func appendPayload(b []byte, payload json.RawMessage) []byte {
	switch {
	case payload == nil:
		return append(b, noPayload)
	case len(payload) < smallPayload:
		return appendBytes(append(b, plainPayload), payload)
	}
	return appendBytes(append(b, packedPayload), s2.Encode(nil, payload))
}

func (r *reader) payload() (json.RawMessage, error) {
	form := r.byte()
	if form == noPayload {
		return nil, nil
	}
	text := r.bytes()
	switch {
	case r.bad:
	case form == plainPayload:
		return append(json.RawMessage{}, text...), nil
	case form == packedPayload:
		if n, err := s2.DecodedLen(text); err == nil && n <= maxText {
			return s2.Decode(nil, text)
		}
	}
	return nil, errRecord
}

const (
	isStale = 1 << iota
	wasSent
	wasRedriven
	isPaused
	isSecret
	isUndecided
	hasAnswer // the answer follows the payload; records from before answers existed lack this flag
	hasItems  // the items of a group come last; records from before groups existed lack this flag

	// Flags that mean something else in records of rules and in those of deliveries.
	wasRenamed = wasSent  // of a rule: its ID and former names come last
	hasRule    = isPaused // of a delivery: the name that its id begins with comes last
)

// Flags of letters, beside isSecret. Records from before they existed have none of them.
const (
	isConfidential = 1 << iota
	isPlain
	isGroup // its items come last
)

func flag(on bool, bit byte) byte {
	if on {
		return bit
	}
	return 0
}

func appendDelivery(b []byte, r *laneRecord, secret bool, refer references) []byte {
	d, answer := &r.Value, r.Value.Answer.Record()
	answered := answer != nil && !secret
	flags := flag(d.Stale, isStale) | flag(r.Sent, wasSent) | flag(r.Redriven, wasRedriven) |
		flag(d.Undecided, isUndecided) | flag(answered, hasAnswer) |
		flag(len(d.Items) > 0, hasItems) | flag(d.Rule != "", hasRule)
	b = append(b, recordVersion, flags)
	for _, n := range [...]int{d.Attempts, d.Failures, d.Backoff, d.Losses} {
		b = binary.AppendVarint(b, int64(n))
	}
	b = appendTime(appendTime(b, r.Since), r.Due)
	b = appendDelta(b, d.Delta, secret, refer)
	if secret {
		b = append(b, noPayload)
	} else if b = appendPayload(b, d.Payload); answered {
		b = appendPayload(b, answer)
	}
	if len(d.Items) > 0 {
		b = appendItems(b, d.Items, secret, refer)
	}
	if d.Rule != "" {
		b = appendName(b, d.Rule)
	}
	return b
}

func appendItems(b []byte, items []delivery.Item, secret bool, refer references) []byte {
	b = binary.AppendUvarint(b, uint64(len(items)))
	for i := range items {
		item := &items[i]
		b = append(b, flag(item.Stale, isStale)|flag(item.Undecided, isUndecided))
		b = appendDelta(b, item.Delta, secret, refer)
		if secret {
			b = append(b, noPayload)
			continue
		}
		b = appendPayload(b, item.Payload)
	}
	return b
}

func (r *reader) items(get dictionaryOf) (items []delivery.Item, err error) {
	for n := r.uvarint(); n > 0; n-- { // a count that is too high ends at the end of the record
		flags := r.byte()
		item := delivery.Item{Stale: flags&isStale != 0, Undecided: flags&isUndecided != 0}
		if item.Delta, err = r.delta(get); err != nil {
			return nil, err
		}
		if item.Payload, err = r.payload(); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func readDelivery(b []byte, get dictionaryOf) (out laneRecord, err error) {
	r := reader{left: b}
	r.version()
	flags := r.byte()
	d := &out.Value
	d.Stale, out.Sent, out.Redriven = flags&isStale != 0, flags&wasSent != 0, flags&wasRedriven != 0
	d.Undecided = flags&isUndecided != 0
	for _, n := range [...]*int{&d.Attempts, &d.Failures, &d.Backoff, &d.Losses} {
		*n = int(r.varint())
	}
	out.Since, out.Due = r.time(), r.time()
	if d.Delta, err = r.delta(get); err != nil {
		return laneRecord{}, err
	}
	if d.Payload, err = r.payload(); err != nil {
		return laneRecord{}, err
	}
	if flags&hasAnswer != 0 {
		answer, err := r.payload()
		if err != nil {
			return laneRecord{}, err
		}
		d.Answer = delivery.Recorded(answer)
	}
	if flags&hasItems != 0 {
		if d.Items, err = r.items(get); err != nil {
			return laneRecord{}, err
		}
	}
	if flags&hasRule != 0 {
		d.Rule = r.string()
	}
	return out, r.end()
}

// appendLetter appends the record of a letter. It writes no reason that may quote a Secret. Of a
// letter about a Secret it writes no payload, and only who the object is.
func appendLetter(b []byte, l *delivery.Letter, refer references) []byte {
	secret := l.OfSecret()
	flags := flag(secret, isSecret) | flag(l.Confidential, isConfidential) |
		flag(l.Plain, isPlain) | flag(l.IsGroup, isGroup)
	b = append(b, recordVersion, flags)
	reason, payload := l.Reason, l.Payload
	if secret && !l.Plain || l.Quotes() {
		reason = ""
	}
	if secret {
		payload = nil
	}
	resource := object.ResourceName(schema.GroupVersionResource(l.Resource))
	for _, s := range [...]string{
		l.ID, l.Rule, l.Handler, resource, l.Key.Namespace, l.Key.Name, reason,
	} {
		b = appendName(b, s)
	}
	b = binary.AppendVarint(b, int64(l.Attempts))
	b = appendTime(appendTime(b, l.Since), l.Died)
	b = appendPayload(appendDelta(b, l.Delta, secret, refer), payload)
	if l.IsGroup {
		b = appendItems(b, l.Items, secret, refer)
	}
	return b
}

// readLetter reads the record of a letter. A letter without a reason is confidential.
func readLetter(b []byte, get dictionaryOf) (l delivery.Letter, err error) {
	r := reader{left: b}
	r.version()
	flags := r.byte() // the resource says, too, that it is a Secret
	var resource string
	for _, s := range [...]*string{
		&l.ID, &l.Rule, &l.Handler, &resource, &l.Key.Namespace, &l.Key.Name, &l.Reason,
	} {
		*s = r.string()
	}
	l.Resource = handler.Resource(object.ResourceOf(resource))
	l.Confidential = l.Reason == "" || flags&isConfidential != 0
	l.Plain = flags&isPlain != 0
	l.Attempts = int(r.varint())
	l.Since, l.Died = r.time(), r.time()
	if l.Delta, err = r.delta(get); err != nil {
		return delivery.Letter{}, err
	}
	if l.Payload, err = r.payload(); err != nil {
		return delivery.Letter{}, err
	}
	if l.IsGroup = flags&isGroup != 0; l.IsGroup {
		if l.Items, err = r.items(get); err != nil {
			return delivery.Letter{}, err
		}
	}
	return l, r.end()
}

func appendRule(b []byte, r *RuleMemory) []byte {
	isRenamed := r.ID != "" && r.ID != r.Name || len(r.Former) > 0
	b = append(b, recordVersion, flag(r.Paused, isPaused)|flag(isRenamed, wasRenamed))
	b = appendName(appendName(b, r.Name), r.Resource)
	seen := make([]string, 0, 2*len(r.Seen))
	for _, informer := range slices.Sorted(maps.Keys(r.Seen)) {
		seen = append(seen, informer, r.Seen[informer])
	}
	if b = appendStrings(b, seen); !isRenamed {
		return b
	}
	b = binary.AppendUvarint(appendName(b, r.ID), uint64(len(r.Former)))
	for _, f := range r.Former {
		b = binary.AppendUvarint(appendName(b, f.Rule), f.Last)
	}
	return b
}

func readRule(b []byte) (rule RuleMemory, err error) {
	r := reader{left: b}
	r.version()
	flags := r.byte()
	rule.Paused = flags&isPaused != 0
	rule.Name, rule.Resource = r.string(), r.string()
	rule.ID = rule.Name
	seen := r.strings()
	if len(seen)%2 != 0 {
		return RuleMemory{}, errRecord
	}
	for ; len(seen) > 0; seen = seen[2:] {
		if rule.Seen == nil {
			rule.Seen = make(map[string]string)
		}
		rule.Seen[seen[0]] = seen[1]
	}
	if flags&wasRenamed != 0 {
		rule.ID = r.string()
		for n := r.uvarint(); n > 0 && !r.bad; n-- {
			f := delivery.Former{Rule: r.string(), Last: r.uvarint()}
			rule.Former = append(rule.Former, f)
		}
	}
	return rule, r.end()
}

// informerRecord is the record of an informer, without its objects.
type informerRecord struct{ id, kept, resourceVersion string }

func (i informerRecord) append(b []byte) []byte {
	return appendStrings(append(b, recordVersion), []string{i.id, i.kept, i.resourceVersion})
}

func readInformer(b []byte) (i informerRecord, err error) {
	r := reader{left: b}
	r.version()
	if fields := r.strings(); len(fields) == 3 {
		return informerRecord{fields[0], fields[1], fields[2]}, r.end()
	}
	return i, errRecord
}

func (c Cluster) append(b []byte) []byte {
	return appendName(appendName(append(b, recordVersion), c.UID), c.Server)
}

func readCluster(b []byte) (c Cluster, err error) {
	r := reader{left: b}
	r.version()
	c.UID, c.Server = r.string(), r.string()
	return c, r.end()
}

// formatOf returns the record of a version of the store's format.
func formatOf(version uint64) []byte { return binary.AppendUvarint([]byte(formatMark), version) }

var errForeign = errors.New("informd did not write it")

// readFormat reads the version of the store's format. The error is a *VersionError if this informd
// cannot read it.
func readFormat(b []byte) (version uint64, err error) {
	text, ok := bytes.CutPrefix(b, []byte(formatMark))
	if !ok {
		return 0, errForeign
	}
	r := reader{left: text}
	if version = r.uvarint(); r.end() != nil {
		return 0, errRecord
	}
	if version < logless || version > newestFormat {
		return 0, &VersionError{Found: version, Reads: newestFormat}
	}
	return version, nil
}
