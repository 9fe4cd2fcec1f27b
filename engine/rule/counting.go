package rule

import (
	"encoding/json"
	"time"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
)

// Count says which of the changes that a rule selects go on: see package count. It is immutable.
type Count struct {
	Times  int
	Within time.Duration
	By     *expr.Program // what is counted apart; nil: the object, by namespace and name
	At     *expr.Program // when a change happened; nil, or of value nil: when it is evaluated
}

// Text returns a text that differs from that of every other Count.
func (c *Count) Text() string {
	text := func(p *expr.Program) *string {
		if p == nil {
			return nil
		}
		s := p.Text()
		return &s
	}
	all, _ := json.Marshal([]any{c.Times, c.Within, text(c.By), text(c.At)}) // cannot fail
	return string(all)
}

// hit returns what a change counts for, or nil if it goes on whatever has come before: the rule
// counts nothing, or the change makes it delete what it applied. If By fails, the change counts for
// its object alone; if At fails, as of now.
func (r *Rule) hit(env *expr.Env, d delta.Delta) (m *count.Hit, err error) {
	c := r.Count
	if c == nil || r.Prunes(d) {
		return nil, nil
	}
	of, err := c.Of(d, env.Object)
	m = &count.Hit{Of: of, At: env.Now}
	if c.At != nil {
		at, ok, failure := c.At.Time(&expr.Env{Object: env.Object})
		if ok {
			m.At = at
		}
		err = join(err, "count.at", failure)
	}
	return m, err
}

// PerObject returns the Count without By and At, for objects of which only the identity is left.
func (c *Count) PerObject() *Count {
	if c == nil {
		return nil
	}
	return &Count{Times: c.Times, Within: c.Within}
}

// Prunes reports whether a change makes the rule delete what it applied. Such a change is delivered
// even if the rule itself made it, and however few came before it.
func (r *Rule) Prunes(d delta.Delta) bool {
	return r.Actions != nil && r.Actions.Prune && d.Type == delta.Deleted
}

// Of returns what a change counts for, whose object has this tree. If By fails, that is the object,
// besides the error.
func (c *Count) Of(d delta.Delta, tree any) (count.Value, error) {
	of, err := valueOf(c.By, d, tree)
	return of, join(nil, "count.by", err)
}
