package shim

import (
	"encoding/json"

	"github.com/informd/informd/plugins/host/confine"
)

// Order says what a shim is to start. It travels to it as JSON.
type Order struct {
	Name    string         // of the handler, for ps
	Path    Text           // what is executed
	Args    []Text         // with the program's name before them
	Env     []Text         // all of it
	Dir     Text           // working directory; empty: the daemon's
	Confine *confine.Order // what the process does to itself before it becomes the handler; nil: nothing
	// Remove are directories that are of no use without the process. The shim removes them if the daemon is gone; as long
	// as it lives, that is left to it.
	Remove []string

	Cgroup bool // set by Start
}

// Text is a string of any bytes, as the system knows them. As JSON, whose strings are less than that, it is base64.
type Text string

// Texts converts strings.
func Texts(s []string) []Text {
	out := make([]Text, len(s))
	for i := range s {
		out[i] = Text(s[i])
	}
	return out
}

// MarshalJSON makes a string of base64.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(t)) }

// UnmarshalJSON reads a string of base64.
func (t *Text) UnmarshalJSON(b []byte) error {
	var raw []byte
	err := json.Unmarshal(b, &raw)
	*t = Text(raw)
	return err
}
