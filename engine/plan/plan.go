// Package plan compiles a configuration into what the engine runs: the informers that its sources share, every
// expression compiled, every rule on its source. A Plan is immutable. Compile reports every mistake at once, each where
// it was written, and does nothing else: no cluster, no process, no file.
package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
)

// Plan is a compiled configuration.
type Plan struct {
	Informers []*Informer // one per distinct Selection, in the order in which sources ask for them
	Sources   []*Source
	Rules     []*Rule
	Handlers  []config.Handler // those that a rule delivers to; the others have nothing to do
}

// Selection says which objects an informer watches: the identity by which sources share it.
type Selection struct {
	Resource                     schema.GroupVersionResource
	Namespace                    string // empty: all
	LabelSelector, FieldSelector string // canonical
}

// Informer is what is watched once for every source that asks for the same.
type Informer struct {
	Selection
	// Indexes by the name under which the informer has them, which is their text: sources that index alike share it.
	Indexes map[string]*expr.Program
	// View are all paths that the rules' where, when and payload and the indexes read.
	View *object.Paths
	// Keep are the paths to keep in the cache: View, what rules read of the objects to attach others, for their actions or as they look into a
	// source of the informer, identity and labels. nil keeps whole objects: one of the sources does, or all of an object is
	// read.
	Keep  *object.Paths
	Rules []*Rule
}

// Source is a view over informers: one per namespace, or one for all.
type Source struct {
	Name      string
	Resource  schema.GroupVersionResource
	Informers []*Informer
	Indexes   map[string]string // from the source's own names to those of the informers
}

// Rule is a compiled rule on its source.
type Rule struct {
	rule.Rule
	Source  *Source
	Handler string // empty if the rule has Actions
	Every   bool
	Resync  time.Duration // 0: never
	// OwnChanges says that changes that the rule itself made are delivered to it.
	OwnChanges bool
	// Prune are the resources of which the rule deletes what it applied for an object and does not yield any more, in order; nil
	// if it does not.
	Prune []schema.GroupVersionResource
	// LooksInto are the other sources that its expressions look into, in order of their names.
	LooksInto []*Source
}
