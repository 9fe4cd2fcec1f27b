package shim

import (
	"encoding/json"

	"github.com/informd/informd/plugins/host/confine"
)

// Order says what a shim starts. It is sent to the shim as JSON.
type Order struct {
	Name    string         // of the handler, for ps
	Path    Text           // of the executable
	Args    []Text         // including the program's name
	Env     []Text         // the whole environment
	Dir     Text           // working directory; empty: the daemon's
	Confine *confine.Order // how the process confines itself at its start; nil: not at all
	// Remove lists directories that are useless without the process. The shim removes them if the
	// daemon is gone. A living daemon removes them itself.
	Remove []string

	Cgroup bool // set by Start
}

// Text is a string of any bytes, as the system allows them in paths. JSON strings cannot hold any
// bytes, so it is encoded as base64.
type Text string

// Texts converts strings.
func Texts(s []string) []Text {
	out := make([]Text, len(s))
	for i := range s {
		out[i] = Text(s[i])
	}
	return out
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(t)) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(b []byte) error {
	var raw []byte
	err := json.Unmarshal(b, &raw)
	*t = Text(raw)
	return err
}
