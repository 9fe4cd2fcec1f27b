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
	sourceAnnotation = "informd.dev/source-object" // as v1/secrets shop/pull
)

// act evaluates the rule's own actions for the change. items are the older changes of its group.
func (p *Recipe) act(r *Result, items []delivery.Item, now time.Time) {
	if p.Rule.Actions.Prune && r.Delta.Type != delta.Deleted {
		if names := p.unread(); len(names) > 0 {
			r.Err = fmt.Errorf("the rule cannot read the sources that it looks into, "+
				"and pruning without them would delete all that it applied: %s",
				strings.Join(names, ", "))
			return
		}
	}
	var made []rule.Step
	var err error
	func() {
		defer contain("actions: ", &err)
		made, err = p.Rule.Actions.Evaluate(r.Delta, p.items(r, items), p.ActionCaches.Scope(now))
	}()
	if err != nil {
		r.fail(err)
		r.Err = handler.Reject(err)
		return
	}
	if r.Err = p.Unserved(made); r.Err != nil {
		return
	}
	if p.Rule.Actions.Prune {
		for _, step := range made {
			if err := p.label(step.Actions, r.Delta.Key()); err != nil {
				r.Err = handler.Reject(err)
				return
			}
		}
		r.PruneBy = p.PruneBy(r.Delta.Key())
	}
	r.Steps = made
}

// Unserved returns an error while nobody knows the resource of one of the actions. A rule with prune
// waits for all of its resources.
func (p *Recipe) Unserved(made []rule.Step) error {
	kinds := p.Rule.Actions.Unserved
	isUnnamed := func(a handler.Action) bool { return a.Resource.Resource == "" }
	needs := func(s rule.Step) bool { return slices.ContainsFunc(s.Actions, isUnnamed) }
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

// label adds the rule's marks to the objects that actions apply.
func (p *Recipe) label(actions []handler.Action, key delta.Key) (err error) {
	for i := range actions {
		a := &actions[i]
		if a.Verb != handler.ActionApply || a.Subresource != "" {
			continue
		}
		labels := map[string]string{RuleLabel: p.Rule.Name, SourceLabel: p.Mark(key)}
		annotations := map[string]string{sourceAnnotation: p.sourceName(key)}
		if a.Object, err = marked(a.Object, labels, annotations); err != nil {
			resource := object.ResourceName(schema.GroupVersionResource(a.Resource))
			return fmt.Errorf("%s of %s %s: %w", a.Verb, resource, a.Name, err)
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
	name := annotations[sourceAnnotation]
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
