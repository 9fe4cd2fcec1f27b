// The record of a dead letter.

package records

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state/fields"
	"github.com/informd/informd/plugins/handler"
)

// Flags of letters, beside isSecret. Records from before they existed have none of them.
const (
	isConfidential = 1 << iota
	isPlain
	isGroup // its items come last
)

// AppendLetter appends the record of a letter. It writes no reason that may quote a Secret. Of a
// letter about a Secret it writes no payload, and only who the object is.
func AppendLetter(b []byte, l *delivery.Letter, refer References) []byte {
	secret := l.OfSecret()
	flags := flag(secret, isSecret) | flag(l.Confidential, isConfidential) |
		flag(l.Plain, isPlain) | flag(l.IsGroup, isGroup)
	b = append(b, Version, flags)
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
		b = fields.AppendText(b, s)
	}
	b = binary.AppendVarint(b, int64(l.Attempts))
	b = fields.AppendTime(fields.AppendTime(b, l.Since), l.Died)
	b = appendPayload(appendDelta(b, l.Delta, secret, refer), payload)
	if l.IsGroup {
		b = appendItems(b, l.Items, secret, refer)
	}
	return b
}

// ReadLetter reads what AppendLetter wrote. A letter without a reason is confidential.
func ReadLetter(b []byte, get DictionaryOf) (l delivery.Letter, err error) {
	r := fields.Reader{Left: b}
	readVersion(&r)
	flags := r.Byte() // the resource says, too, that it is a Secret
	var resource string
	for _, s := range [...]*string{
		&l.ID, &l.Rule, &l.Handler, &resource, &l.Key.Namespace, &l.Key.Name, &l.Reason,
	} {
		*s = r.Text()
	}
	l.Resource = handler.Resource(object.ResourceOf(resource))
	l.Confidential = l.Reason == "" || flags&isConfidential != 0
	l.Plain = flags&isPlain != 0
	l.Attempts = int(r.Varint())
	l.Since, l.Died = r.Time(), r.Time()
	if l.Delta, err = readDelta(&r, get); err != nil {
		return delivery.Letter{}, err
	}
	if l.Payload, err = readPayload(&r); err != nil {
		return delivery.Letter{}, err
	}
	if l.IsGroup = flags&isGroup != 0; l.IsGroup {
		if l.Items, err = readItems(&r, get); err != nil {
			return delivery.Letter{}, err
		}
	}
	return l, r.End()
}
