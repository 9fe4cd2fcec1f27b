// Package plan compiles a configuration into what the engine runs: the informers that sources
// share, every expression, every rule with its source. A Plan is immutable. Compile reports every
// mistake at once, each at its place. It uses no cluster, process or file.
package plan

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

// Plan is a compiled configuration.
type Plan struct {
	Informers []*Informer // one per Selection, in the order in which sources first ask for them
	Sources   []*Source
	Alone     []*Source // of rules without a source, in their order
	Rules     []*Rule
	Metrics   []*Metric        // in the order of the sources and rules
	Handlers  []config.Handler // those that a rule delivers to; the others have nothing to do
}

// Handler returns the handler with that name, if a rule delivers to it.
func (p *Plan) Handler(name string) (h config.Handler, ok bool) {
	for _, h := range p.Handlers {
		if h.Name == name {
			return h, true
		}
	}
	return config.Handler{}, false
}

// AllInformers returns the informers of the cluster, and those of rules without a source.
func (p *Plan) AllInformers() []*Informer {
	all := slices.Clone(p.Informers)
	for _, s := range p.Alone {
		all = append(all, s.Informers...)
	}
	return all
}

// Informer is one watch, shared by every source with its selection.
type Informer struct {
	object.Selection
	// Indexes by their names in the informer, which are their texts: sources that write the same
	// expression share an index.
	Indexes map[string]*expr.Program
	// View has all paths that indexes, metrics, and where, when and payload of the rules read.
	View *object.Paths
	// Keep has the paths that stay in the cache: View, identity, labels, and what rules read of
	// objects that they attach, look up or act on. It is nil if whole objects stay, because a
	// source asks for that or an expression reads all of an object.
	Keep  *object.Paths
	Rules []*Rule
	// Gauges are over the informer's objects.
	Gauges []*Metric
	// Fixed is the one object that the informer has, as JSON; nil for an informer of the cluster.
	// It stands for a rule without a source, and watches nothing.
	Fixed json.RawMessage
}

// Source is a view over informers: one per namespace, or one for all namespaces.
//
// A rule without a source has one of its own, which is among Plan.Alone and has no name. It has one
// informer, which has one object: the rule itself.
type Source struct {
	Name      string // empty: of a rule without a source
	Resource  schema.GroupVersionResource
	Informers []*Informer
	Indexes   map[string]string // from the source's names to those of the informers
	// Digest is the digest of the manifest without its metrics: two Sources with the same one are
	// written alike.
	Digest Digest
}

// Digest is a digest of a manifest's content, whatever file or place holds it.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a manifest of package config.
func DigestOf(manifest any) Digest {
	text, _ := json.Marshal(manifest) // everything in a Config can be written
	return sha256.Sum256(text)
}

// IsRule reports whether the source is that of a rule without one.
func (s *Source) IsRule() bool { return s.Name == "" }

// Rule is a compiled rule with its source. It has many fields because a manifest has many settings
// besides the expressions, which are in the embedded Rule.
type Rule struct {
	rule.Rule
	// Reads is what Paths returns. Rules that read the same share it. Nobody may change it.
	Reads        *object.Paths
	Former       string // the name that it had before it was renamed, or empty
	Digest       Digest // see Source.Digest; with its metrics
	EventsDigest Digest // of the manifest without its metrics: of all that shapes the rule's events
	Source       *Source
	Handler      string // empty if the rule only has Actions, or metrics
	Every        bool
	// Rounds says when the rule receives all members as Synced; nil: never. OnlyInRounds says that
	// it does not receive them at first sight.
	Rounds       timing.Timetable
	OnlyInRounds bool
	// OwnChanges makes the rule receive changes that it made itself.
	OwnChanges bool
	// Prune has the resources, sorted, of which the rule deletes objects that it no longer applies;
	// nil if it prunes nothing.
	Prune []schema.GroupVersionResource
	// LooksInto has the other sources that the rule's expressions look into, sorted by name.
	LooksInto []*Source
}
