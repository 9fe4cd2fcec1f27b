// The record of a rule.

package records

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/state/fields"
)

// Rule is the record of a rule besides its deliveries.
type Rule struct {
	// ID is the name by which the state finds what it has of the rule: the first that the rule had.
	ID       string
	Name     string
	Former   []delivery.Former // the names that ids of waiting deliveries begin with, the oldest first
	Resource string            // of the rule's objects
	// Seen is the rule's where when it last saw an informer's objects, by the informer's id.
	Seen   map[string]string
	Paused bool
}

// AppendRule appends the record of a rule.
func AppendRule(b []byte, r *Rule) []byte {
	isRenamed := r.ID != "" && r.ID != r.Name || len(r.Former) > 0
	b = append(b, Version, flag(r.Paused, isPaused)|flag(isRenamed, wasRenamed))
	b = fields.AppendText(fields.AppendText(b, r.Name), r.Resource)
	seen := make([]string, 0, 2*len(r.Seen))
	for _, informer := range slices.Sorted(maps.Keys(r.Seen)) {
		seen = append(seen, informer, r.Seen[informer])
	}
	if b = fields.AppendTexts(b, seen); !isRenamed {
		return b
	}
	b = binary.AppendUvarint(fields.AppendText(b, r.ID), uint64(len(r.Former)))
	for _, f := range r.Former {
		b = binary.AppendUvarint(fields.AppendText(b, f.Rule), f.Last)
	}
	return b
}

// ReadRule reads what AppendRule wrote.
func ReadRule(b []byte) (rule Rule, err error) {
	r := fields.Reader{Left: b}
	readVersion(&r)
	flags := r.Byte()
	rule.Paused = flags&isPaused != 0
	rule.Name, rule.Resource = r.Text(), r.Text()
	rule.ID = rule.Name
	seen := r.Texts()
	if len(seen)%2 != 0 {
		return Rule{}, fields.ErrMalformed
	}
	for ; len(seen) > 0; seen = seen[2:] {
		if rule.Seen == nil {
			rule.Seen = make(map[string]string)
		}
		rule.Seen[seen[0]] = seen[1]
	}
	if flags&wasRenamed != 0 {
		rule.ID = r.Text()
		for n := r.Uvarint(); n > 0 && !r.Failed(); n-- {
			f := delivery.Former{Rule: r.Text(), Last: r.Uvarint()}
			rule.Former = append(rule.Former, f)
		}
	}
	return rule, r.End()
}
