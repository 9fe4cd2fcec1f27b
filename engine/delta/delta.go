// Package delta has the change of one object, its identity across attempts and restarts, and the laws by which changes
// that wait for delivery are merged. It knows nothing of rules, queues or time.
package delta

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/informd/informd/engine/object"
)

// Type is a kind of change.
type Type uint8

// The kinds of change.
const (
	Added   Type = iota // the object came into being
	Updated             // it changed
	Deleted             // it is gone
	Synced              // it was there at first sight, or a resync came round
)

var typeNames = [...]string{Added: "added", Updated: "updated", Deleted: "deleted", Synced: "synced"}

// String is the name that users write and handlers see.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", t)
}

// ParseType is the inverse of String.
func ParseType(name string) (Type, bool) {
	for t, n := range typeNames {
		if n == name {
			return Type(t), true
		}
	}
	return 0, false
}

// Set is a set of types. The zero Set is empty.
type Set uint8

// All has every type.
const All Set = 1<<Added | 1<<Updated | 1<<Deleted | 1<<Synced

// SetOf makes a Set.
func SetOf(types ...Type) (s Set) {
	for _, t := range types {
		s |= 1 << t
	}
	return s
}

// Has tells whether t is in the set.
func (s Set) Has(t Type) bool { return s&(1<<t) != 0 }

// Delta is one change of one object. It is a value; the objects behind it are immutable.
type Delta struct {
	Type Type
	// Object is the new state, for Deleted the last known one. Never nil.
	Object *object.Object
	// Old is the previous state, of the same uid. Updated always has it. Deleted has the state before its own where it
	// is known, for telling membership: expressions and handlers see none.
	Old *object.Object
	// Round tells apart the Synced of one state of an object: the Unix time of a resync's round in seconds; after a restart,
	// of what the handler was told of before, the resourceVersion that was saved. 0 at first sight, and for everything else.
	Round int64
}

// Key names the place that objects of one resource take turns in: order is kept per Key, across uids.
type Key struct{ Namespace, Name string }

// String is namespace/name, or the name alone.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// KeyOf returns the key of an object.
func KeyOf(o *object.Object) Key { return Key{o.Namespace(), o.Name()} }

// Key returns the key of the delta's object.
func (d Delta) Key() Key { return KeyOf(d.Object) }

// ID identifies a delivery of d under a rule: rule/uid/event/resourceVersion, and /round behind that for a resync. It
// is the same on every attempt and after a restart.
func (d Delta) ID(rule string) string {
	parts := []string{rule, d.Object.UID(), d.Type.String(), d.Object.ResourceVersion()}
	if d.Type == Synced && d.Round != 0 {
		parts = append(parts, strconv.FormatInt(d.Round, 10))
	}
	return strings.Join(parts, "/")
}
