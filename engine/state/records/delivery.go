// The record of a delivery that waits, and its flags.

package records

import (
	"encoding/binary"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/state/fields"
)

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
	yields     = isSecret // of a delivery: its delay does; an earlier informd ignores that
)

// Delivery is a delivery as the queue records it.
type Delivery = queue.Record[delivery.Delivery]

func flag(on bool, bit byte) byte {
	if on {
		return bit
	}
	return 0
}

// AppendDelivery appends the record of a delivery that waits. Of one about a Secret it writes no
// payload and no answer, and only who the object is.
func AppendDelivery(b []byte, r *Delivery, secret bool, refer References) []byte {
	d, answer := &r.Value, r.Value.Answer.Record()
	answered := answer != nil && !secret
	flags := flag(d.Stale, isStale) | flag(r.Sent, wasSent) | flag(r.Redriven, wasRedriven) |
		flag(d.Undecided, isUndecided) | flag(answered, hasAnswer) |
		flag(len(d.Items) > 0, hasItems) | flag(d.Rule != "", hasRule) |
		flag(r.Yields, yields)
	b = append(b, Version, flags)
	for _, n := range [...]int{d.Attempts, d.Failures, d.Backoff, d.Losses} {
		b = binary.AppendVarint(b, int64(n))
	}
	b = fields.AppendTime(fields.AppendTime(b, r.Since), r.Due)
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
		b = fields.AppendText(b, d.Rule)
	}
	return b
}

// ReadDelivery reads what AppendDelivery wrote, and leaves the objects packed.
func ReadDelivery(b []byte, get DictionaryOf) (out Delivery, err error) {
	r := fields.Reader{Left: b}
	readVersion(&r)
	flags := r.Byte()
	d := &out.Value
	d.Stale, out.Sent, out.Redriven = flags&isStale != 0, flags&wasSent != 0, flags&wasRedriven != 0
	d.Undecided, out.Yields = flags&isUndecided != 0, flags&yields != 0
	for _, n := range [...]*int{&d.Attempts, &d.Failures, &d.Backoff, &d.Losses} {
		*n = int(r.Varint())
	}
	out.Since, out.Due = r.Time(), r.Time()
	if d.Delta, err = readDelta(&r, get); err != nil {
		return Delivery{}, err
	}
	if d.Payload, err = readPayload(&r); err != nil {
		return Delivery{}, err
	}
	if flags&hasAnswer != 0 {
		answer, err := readPayload(&r)
		if err != nil {
			return Delivery{}, err
		}
		d.Answer = delivery.Recorded(answer)
	}
	if flags&hasItems != 0 {
		if d.Items, err = readItems(&r, get); err != nil {
			return Delivery{}, err
		}
	}
	if flags&hasRule != 0 {
		d.Rule = r.Text()
	}
	return out, r.End()
}

func appendItems(b []byte, items []delivery.Item, secret bool, refer References) []byte {
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

func readItems(r *fields.Reader, get DictionaryOf) (items []delivery.Item, err error) {
	for n := r.Uvarint(); n > 0; n-- { // a count that is too high ends at the end of the record
		flags := r.Byte()
		item := delivery.Item{Stale: flags&isStale != 0, Undecided: flags&isUndecided != 0}
		if item.Delta, err = readDelta(r, get); err != nil {
			return nil, err
		}
		if item.Payload, err = readPayload(r); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}
