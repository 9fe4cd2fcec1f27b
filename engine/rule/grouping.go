package rule

import (
	"encoding/json"
	"time"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
)

// Group identifies the changes of a rule that have something in common. The zero Group means none.
type Group = count.Value

// Grouping says which changes of a rule come as one event: those that have By in common. The first
// event comes once Wait is over, and the next ones leave Every between them. It is immutable.
type Grouping struct {
	By          *expr.Program // nil: the object, by namespace and name
	Wait, Every time.Duration
}

// Items is the name under which actions find the changes of a group. Each has an event, a namespace,
// a name, a uid and a payload; those that it does not have are nil.
const Items = "items"

// Of returns the group of a change. If By fails, it is the group of the object alone, besides the
// error.
func (g *Grouping) Of(d delta.Delta, look Lookup) (Group, error) {
	if g.By == nil {
		return valueOf(nil, d, nil)
	}
	of, err := valueOf(g.By, d, look.Tree(d.Object))
	return of, join(nil, "group.by", err)
}

// valueOf returns what identifies the value of by for a change, whose object has this tree. Without
// by, and if by fails, that is the object.
func valueOf(by *expr.Program, d delta.Delta, tree any) (count.Value, error) {
	object := count.ValueOf("object " + d.Key().String())
	if by == nil {
		return object, nil
	}
	v, err := by.Value(&expr.Env{Object: tree})
	if err != nil {
		return object, err
	}
	text, _ := json.Marshal(v) // cannot fail: Value gives what can be encoded. It sorts keys
	return count.ValueOf("by " + string(text)), nil
}
