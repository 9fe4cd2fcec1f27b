package action

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/plugins/handler"
)

// Grant is one line of what a handler may do: a spec.access.write entry.
type Grant struct {
	Resource    schema.GroupVersionResource
	Subresource string   // "" or "status": the one does not allow the other
	Verbs       []string // of handler's Action constants. event allows Events about the resource's objects
	Namespaces  []string // empty: all, and objects without one; otherwise exactly these
	Names       []string // patterns as path.Match has them; empty: all
	At          string   // where it stands in the configuration, for reports
}

// Policy is all that one handler may do. The zero Policy allows nothing.
type Policy struct {
	Handler string // its name, for reports
	Grants  []Grant
}

// Check tells whether the answer to ev may be carried out: that each of its actions is well formed (as [Validate] has it)
// and allowed. The error wraps handler.ErrReject, and says of the first action that is neither what would allow it.
func (p Policy) Check(ev *handler.Event, actions []handler.Action) error {
	if err := Validate(actions); err != nil {
		return err
	}
	return nil
}

// Validate tells whether actions can be carried out as far as that shows in themselves: a rule's own need no Policy. The
// error wraps handler.ErrReject.
func Validate(actions []handler.Action) error { return nil }
