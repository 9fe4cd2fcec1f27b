// Package delta has the change of one object: its identity across attempts and restarts, and the
// laws by which waiting changes merge. It knows nothing of rules, queues or time.
package delta

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/informd/informd/engine/object"
)

// Type is a kind of change.
type Type uint8

// The types of a Delta.
const (
	Added   Type = iota // the object came into being
	Updated             // it changed
	Deleted             // the object is gone
	Synced              // the object was there at first sight, or a resync came round
)

var typeNames = [...]string{
	Added: "added", Updated: "updated", Deleted: "deleted", Synced: "synced",
}

// Types returns all types.
func Types() []Type { return []Type{Added, Updated, Deleted, Synced} }

// String returns the name that users write and handlers see.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", t)
}

// ParseType returns the type of a name. It is the inverse of String.
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

// All is the set of every type.
const All Set = 1<<Added | 1<<Updated | 1<<Deleted | 1<<Synced

// SetOf makes a set of types.
func SetOf(types ...Type) (s Set) {
	for _, t := range types {
		s |= 1 << t
	}
	return s
}

// Has reports whether t is in the set.
func (s Set) Has(t Type) bool { return s&(1<<t) != 0 }

// Delta is one change of one object. It is a value; the objects behind it are immutable.
type Delta struct {
	Type Type
	// Occasion distinguishes events about the same state of an object that a rule receives at
	// different times: it counts how often the rule has received all its objects again. See
	// [Delta.ID].
	Occasion uint32
	// Object is the new state. If Type is Deleted, it is the last known state. Never nil.
	Object *object.Object
	// Old is the previous state of the same uid. An Updated always has it. A Deleted has it if it
	// is known, to decide membership; expressions and handlers do not see it.
	Old *object.Object
	// Round says why a Synced delta comes. In a resync it is the round's Unix time in seconds. It is
	// Known if the handler has the object already, for example because the rule's where has changed
	// and the object is still inside. It is 0 at first sight and for all other types.
	Round int64
}

// Known is the Round of a Synced delta about an object that the handler has already, outside of a
// resync.
const Known = -1

// Key identifies an object of one resource, across uids. Deltas of one Key stay in order.
type Key struct{ Namespace, Name string }

// String returns namespace/name, or the name alone if there is no namespace.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// ParseKey returns the key of which String returned text.
func ParseKey(text string) Key {
	if namespace, name, ok := strings.Cut(text, "/"); ok {
		return Key{namespace, name}
	}
	return Key{Name: text}
}

// KeyOf returns the key of an object.
func KeyOf(o *object.Object) Key { return Key{o.Namespace(), o.Name()} }

// Key returns the key of the delta's object.
func (d Delta) Key() Key { return KeyOf(d.Object) }

// ID returns the id of d's delivery under a rule: rule/uid/event/resourceVersion. After that comes
// ~occasion, unless it is 0, and for a resync /round. It is the same on every attempt and after a
// restart, and no other event has it.
func (d Delta) ID(rule string) string {
	return ID(rule, d.Object.UID(), d.Object.ResourceVersion(), d.Type, d.Occasion, d.Round)
}

// ID returns the id of a delivery: see [Delta.ID].
func ID(rule, uid, version string, of Type, occasion uint32, round int64) string {
	id := strings.Join([]string{rule, uid, of.String(), version}, "/")
	if occasion != 0 {
		id += "~" + strconv.FormatUint(uint64(occasion), 10)
	}
	if of == Synced && round > 0 {
		id += "/" + strconv.FormatInt(round, 10)
	}
	return id
}
