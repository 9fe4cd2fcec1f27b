package acting

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
)

// own implements dispatch.Own for one rule.
type own struct {
	writes   *action.Writes
	resource schema.GroupVersionResource
	rule     string
	former   string // the name that it had, or empty
}

// Mine implements dispatch.Own.
func (o own) Mine(key delta.Key, version string) bool {
	return o.writes.Made(o.resource, key, o.rule, version) ||
		o.former != "" && o.writes.Made(o.resource, key, o.former, version)
}

// Begun implements dispatch.Own.
func (o own) Begun() uint64 { return o.writes.Begun() }

// Writing implements dispatch.Own.
func (o own) Writing(key delta.Key, first uint64) bool {
	return o.writes.Writing(o.resource, key, o.rule, first) ||
		o.former != "" && o.writes.Writing(o.resource, key, o.former, first)
}
