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

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// Labels of the objects that a rule with prune applies. By them the rule finds what it applied for
// an object, even after a restart of the daemon.
const (
	ruleLabel   = "informd.dev/rule"
	sourceLabel = "informd.dev/source" // a digest of the object that they were applied for
)

// act evaluates the rule's own actions for the change.
func (p *Recipe) act(r *Result, now time.Time) {
	if p.rule.Actions.Prune && r.Delta.Type != delta.Deleted {
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
		made, err = p.rule.Actions.Evaluate(r.Delta, p.actions.Scope(now))
	}()
	if err != nil {
		r.fail(err)
		r.Err = handler.Reject(err)
		return
	}
	if p.rule.Actions.Prune {
		for _, step := range made {
			if err := p.label(step, r.Delta.Key()); err != nil {
				r.Err = handler.Reject(err)
				return
			}
		}
		r.PruneBy = ruleLabel + "=" + p.rule.Name + "," + sourceLabel + "=" + p.mark(r.Delta.Key())
	}
	r.Steps = made
}

// unread returns the names of the sources that the rule's actions look into and that have not
// synced.
func (p *Recipe) unread() (names []string) {
	sources := p.others
	if p.rule.Actions.ReadsIndex() {
		sources = append(slices.Clone(sources), p.own)
	}
	for _, s := range sources {
		if !s.HasSynced() {
			names = append(names, s.Name())
		}
	}
	return names
}

// label adds the rule's labels to the objects that actions apply.
func (p *Recipe) label(actions []handler.Action, key delta.Key) (err error) {
	for i := range actions {
		a := &actions[i]
		if a.Verb != handler.ActionApply || a.Subresource != "" {
			continue
		}
		labels := map[string]string{ruleLabel: p.rule.Name, sourceLabel: p.mark(key)}
		if a.Object, err = labelled(a.Object, labels); err != nil {
			resource := object.ResourceName(schema.GroupVersionResource(a.Resource))
			return fmt.Errorf("%s of %s %s: %w", a.Verb, resource, a.Name, err)
		}
	}
	return nil
}

// mark returns the label value that identifies an object of the rule's source.
func (p *Recipe) mark(key delta.Key) string {
	resource := object.ResourceName(p.rule.Source.Resource)
	digest := sha256.Sum256([]byte(resource + " " + key.String()))
	return hex.EncodeToString(digest[:16])
}

// labelled returns the object with the labels added.
func labelled(o json.RawMessage, labels map[string]string) (json.RawMessage, error) {
	tree, metadata := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	all := map[string]any{}
	if err := json.Unmarshal(o, &tree); err != nil {
		return nil, errors.New("it is not an object")
	}
	if err := json.Unmarshal(tree["metadata"], &metadata); err != nil {
		return nil, errors.New("its metadata is not a mapping")
	}
	if text := metadata["labels"]; text != nil && !bytes.Equal(text, []byte("null")) {
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, errors.New("its metadata.labels are not a mapping")
		}
	}
	for name, value := range labels {
		all[name] = value
	}
	var err error
	if metadata["labels"], err = json.Marshal(all); err != nil {
		return nil, err
	}
	if tree["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}
