package recording

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	"github.com/informd/informd/cmd/informd/control"
)

// masker masks the values of Secrets. Two masks of one masker are equal if and only if the values
// are equal. Nobody can guess a value from its mask, because the key is never written.
type masker struct{ key []byte }

func newMasker() masker {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return masker{key}
}

// maskBytes is how much of a hash a mask has. Two values out of a billion still do not meet.
const maskBytes = 12

// secret masks the JSON of a Secret.
func (m masker) secret(text []byte) json.RawMessage { return control.MaskSecretWith(text, m.value) }

// value returns the mask of a value: base64, as the data of Secrets is, of masked-HASH.
func (m masker) value(value json.RawMessage) json.RawMessage {
	hash := hmac.New(sha256.New, m.key)
	_, _ = hash.Write(value) // never fails
	mask := "masked-" + hex.EncodeToString(hash.Sum(nil)[:maskBytes])
	return json.RawMessage(`"` + base64.StdEncoding.EncodeToString([]byte(mask)) + `"`)
}
