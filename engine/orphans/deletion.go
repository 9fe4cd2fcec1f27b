package orphans

import (
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// Orphaned returns the deletion of an object that went while nobody looked. Only its name is known.
// Its mark stands in for the uid, so that the event has an id of its own.
func (r *Rule) Orphaned(key delta.Key) delta.Delta { return r.deletion(key, "") }

// IsOrphaned reports whether Orphaned made d. While it waited, the object may have come, perhaps
// for another informd.
func (r *Rule) IsOrphaned(d delta.Delta) bool { return r.isMade(d, "") }

// Late returns the deletion of an object that has been spared. Its event has an id of its own, too.
func (r *Rule) Late(key delta.Key) delta.Delta { return r.deletion(key, lateMark) }

// IsLate reports whether Late made d.
func (r *Rule) IsLate(d delta.Delta) bool { return r.isMade(d, lateMark) }

const lateMark = "withdrawn-"

func (r *Rule) deletion(key delta.Key, mark string) delta.Delta {
	last := object.FromIdentity(key.Namespace, key.Name, mark+r.Recipe.Mark(key), "")
	return delta.Delta{Type: delta.Deleted, Object: last}
}

func (r *Rule) isMade(d delta.Delta, mark string) bool {
	return d.Type == delta.Deleted && d.Object.UID() == mark+r.Recipe.Mark(d.Key())
}
