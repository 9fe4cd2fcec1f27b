package prepare

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// Marks of the objects that a rule with prune applies. By the labels the rule finds what it applied
// for an object, even after a restart of the daemon. The annotation says in clear which object that
// is: its digest is the source label's value.
const (
	RuleLabel        = "informd.dev/rule"
	SourceLabel      = "informd.dev/source"
	SourceAnnotation = "informd.dev/source-object" // as v1/secrets shop/pull
)

// Bounds of the actions that are evaluated once and kept. Nearly all changes have no more.
const (
	maxKept      = 64
	maxKeptBytes = 1 << 20
)

// Walk evaluates a rule's own actions for one change, and marks what the rule is to prune: see
// [rule.Walker.Walk]. fail gets the error of an expression. Walk then returns an error that wraps
// handler.ErrReject. It may be called again, but not by visit.
type Walk func(
	of func(*rule.ActionTemplate) bool, visit func(rule.Piece) error, fail func(error),
) error

// errMany ends an evaluation of actions that are not kept.
var errMany = errors.New("more actions than are kept")

// act makes the rule's own actions for the change: it evaluates them if they are few, and otherwise
// only begins to. items are the older changes of its group.
func (p *Recipe) act(r *Result, items []delivery.Item, now time.Time) {
	if p.Rule.Actions.Prune && r.Delta.Type != delta.Deleted {
		if names := p.unread(); len(names) > 0 {
			r.Err = fmt.Errorf("the rule cannot read the sources that it looks into, "+
				"and pruning without them would delete all that it applied: %s",
				strings.Join(names, ", "))
			return
		}
	}
	var kept []rule.Piece
	actions, size := 0, 0
	walk := walkOf(p, r.Delta, p.items(r, items), now)
	err := walk(nil, func(piece rule.Piece) error {
		if len(piece.Actions) == 0 {
			return nil
		}
		actions, size = actions+len(piece.Actions), size+piece.Size
		kept = append(kept, piece)
		if actions > maxKept || size > maxKeptBytes {
			return errMany
		}
		return nil
	}, r.fail)
	isMany := errors.Is(err, errMany)
	if err != nil && !isMany {
		r.Err = err
		return
	}
	if r.Err = p.Unserved(kept); r.Err != nil {
		return
	}
	if p.Rule.Actions.Prune {
		r.PruneBy = p.PruneBy(r.Delta.Key())
	}
	if !isMany {
		r.Steps = kept
		return
	}
	r.Walk = func(
		of func(*rule.ActionTemplate) bool, visit func(rule.Piece) error, fail func(error),
	) error {
		return walk(of, func(piece rule.Piece) error {
			if err := p.Unserved([]rule.Piece{piece}); err != nil {
				return err
			}
			return visit(piece)
		}, fail)
	}
}

// walkOf returns what evaluates the actions for a change.
func walkOf(p *Recipe, d delta.Delta, items any, now time.Time) Walk {
	var walker *rule.Walker
	return func(
		of func(*rule.ActionTemplate) bool, visit func(rule.Piece) error, fail func(error),
	) (err error) {
		isVisiting, isStopped := false, false
		defer func() {
			if isVisiting {
				return // a panic of visit is not one of an expression
			}
			if cause := recover(); cause != nil {
				err = fmt.Errorf("actions: panic: %T", cause)
			}
			if err != nil && !isStopped {
				fail(err)
				err = handler.Reject(err)
			}
		}()
		if walker == nil {
			walker = p.Rule.Actions.Walker(d, items, p.ActionCaches.Scope(now))
		}
		return walker.Walk(of, func(piece rule.Piece) error {
			isVisiting = true
			err := p.label(piece.Actions, d.Key())
			if err == nil {
				err = visit(piece)
			}
			isVisiting, isStopped = false, err != nil
			return err
		})
	}
}

// Unserved returns an error while nobody knows the resource of one of the actions. A rule with prune
// waits for all of its resources.
func (p *Recipe) Unserved(made []rule.Piece) error {
	kinds := p.Rule.Actions.Unserved
	isUnnamed := func(a handler.Action) bool { return a.Resource.Resource == "" }
	needs := func(piece rule.Piece) bool { return slices.ContainsFunc(piece.Actions, isUnnamed) }
	if len(kinds) == 0 || !p.Rule.Actions.Prune && !slices.ContainsFunc(made, needs) {
		return nil
	}
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = fmt.Sprintf("%s of %s", kind.Kind, kind.GroupVersion())
	}
	return fmt.Errorf("informd has not found this kind in the cluster, and goes on when the cluster "+
		"serves it: %s", strings.Join(names, ", "))
}

// items returns what [rule.Items] stands for, the newest change last; nil if the rule has no group.
func (p *Recipe) items(r *Result, older []delivery.Item) any {
	if p.Rule.Group == nil {
		return nil
	}
	list := make([]any, 0, len(older)+1)
	add := func(d delta.Delta, payload json.RawMessage) {
		item := map[string]any{
			"event": d.Type.String(), "name": d.Object.Name(), "uid": d.Object.UID(),
			"namespace": nil, "payload": nil,
		}
		if namespace := d.Object.Namespace(); namespace != "" {
			item["namespace"] = namespace
		}
		var tree any
		if payload != nil && utiljson.Unmarshal(payload, &tree) == nil { // it always is JSON
			item["payload"] = tree
		}
		list = append(list, item)
	}
	for _, item := range older {
		add(item.Delta, item.Payload)
	}
	add(r.Delta, r.Payload)
	return list
}

// unread returns the names of the sources that the rule's actions look into and that have not
// synced.
func (p *Recipe) unread() (names []string) {
	sources := p.others
	if p.Rule.Actions.ReadsIndex() {
		sources = append(slices.Clone(sources), p.own)
	}
	for _, s := range sources {
		if !s.HasSynced() {
			names = append(names, s.Name())
		}
	}
	return names
}

// label adds the rule's marks to the objects that actions apply, if the rule prunes them.
func (p *Recipe) label(actions []handler.Action, key delta.Key) (err error) {
	for i := range actions {
		a := &actions[i]
		if !p.Rule.Actions.Prune || a.Verb != handler.ActionApply || a.Subresource != "" {
			continue
		}
		labels := map[string]string{RuleLabel: p.Rule.Name, SourceLabel: p.Mark(key)}
		annotations := map[string]string{SourceAnnotation: p.sourceName(key)}
		if a.Object, err = marked(a.Object, labels, annotations); err != nil {
			resource := object.ResourceName(schema.GroupVersionResource(a.Resource))
			return handler.Reject(fmt.Errorf("%s of %s %s: %w", a.Verb, resource, a.Name, err))
		}
	}
	return nil
}

// AllApplied returns the label selector of everything that a rule with prune has applied.
func (p *Recipe) AllApplied() string {
	if p.Rule.Former != "" {
		return fmt.Sprintf("%s in (%s,%s)", RuleLabel, p.Rule.Name, p.Rule.Former)
	}
	return RuleLabel + "=" + p.Rule.Name
}

// PruneBy returns the label selector of everything that the rule has applied for an object.
func (p *Recipe) PruneBy(key delta.Key) string {
	return p.AllApplied() + "," + SourceLabel + "=" + p.Mark(key)
}

// Whole names what the rule applies and prunes: the text changes when it may have applied something
// that nobody has looked for.
func (p *Recipe) Whole() string {
	var text strings.Builder
	for _, r := range p.Rule.Prune {
		text.WriteString(r.GroupResource().String() + " ")
	}
	return strings.TrimSpace(text.String())
}

// Mark returns the label value that identifies an object of the rule's source.
func (p *Recipe) Mark(key delta.Key) string { return digest(p.sourceName(key)) }

func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// sourceName returns the annotation that names an object of the rule's source.
func (p *Recipe) sourceName(key delta.Key) string {
	return object.ResourceName(p.Rule.Source.Resource) + " " + key.String()
}

// SourceOf returns the object for which the rule applied one with these labels and annotations. ok
// is false if the annotation does not say it: it is missing, as on objects that older versions
// applied, or of another resource, or does not fit the label.
func (p *Recipe) SourceOf(labels, annotations map[string]string) (key delta.Key, ok bool) {
	name := annotations[SourceAnnotation]
	resource, of, _ := strings.Cut(name, " ")
	isOurs := resource == object.ResourceName(p.Rule.Source.Resource) &&
		digest(name) == labels[SourceLabel]
	if !isOurs || of == "" {
		return delta.Key{}, false
	}
	if namespace, name, ok := strings.Cut(of, "/"); ok {
		return delta.Key{Namespace: namespace, Name: name}, true
	}
	return delta.Key{Name: of}, true
}

// Selects reports whether the rule has an object inside now.
func (p *Recipe) Selects(o *object.Object, now time.Time) bool {
	return p.isInside(o, now, func(error) {})
}

// OnlyPrunes reports whether a deletion has the rule prune, whatever the object was, and do nothing
// else.
func (p *Recipe) OnlyPrunes() bool {
	r := p.Rule
	return r.When == nil && r.Handler == "" && !r.Actions.ActsOn(delta.Deleted)
}

// marked returns the object with labels and annotations added.
func marked(o json.RawMessage, labels, annotations map[string]string) (json.RawMessage, error) {
	tree, metadata := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := json.Unmarshal(o, &tree); err != nil {
		return nil, errors.New("it is not an object")
	}
	if err := json.Unmarshal(tree["metadata"], &metadata); err != nil {
		return nil, errors.New("its metadata is not a mapping")
	}
	var err error
	for field, marks := range map[string]map[string]string{
		"labels": labels, "annotations": annotations,
	} {
		all := map[string]any{}
		if text := metadata[field]; text != nil && !bytes.Equal(text, []byte("null")) {
			if err := json.Unmarshal(text, &all); err != nil {
				return nil, fmt.Errorf("its metadata.%s are not a mapping", field)
			}
		}
		for name, value := range marks {
			all[name] = value
		}
		if metadata[field], err = json.Marshal(all); err != nil {
			return nil, err
		}
	}
	if tree["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}
