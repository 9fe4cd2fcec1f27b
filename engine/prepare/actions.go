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
	"github.com/informd/informd/plugins/handler"
)

// Labels of what a rule with prune applies. By them the rule finds again, in a later life of the daemon too, what it applied
// for an object.
const (
	ruleLabel   = "informd.dev/rule"
	sourceLabel = "informd.dev/source" // a digest of the object that it was applied for
)

// act makes what the rule does itself about the change.
func (p *Recipe) act(r *Result, now time.Time) {
	if p.rule.Actions.Prune && r.Delta.Type != delta.Deleted {
		if names := p.unread(); len(names) > 0 {
			r.Err = fmt.Errorf("what the rule looks into cannot be read, and to prune by nothing would delete all that it applied: %s", strings.Join(names, ", "))
			return
		}
	}
	var made []handler.Action
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
		if err := p.label(made, r.Delta.Key()); err != nil {
			r.Err = handler.Reject(err)
			return
		}
		r.PruneBy = ruleLabel + "=" + p.rule.Name + "," + sourceLabel + "=" + p.mark(r.Delta.Key())
	}
	r.Actions = made
}

// unread names the sources that the rule's actions look into, and that have not synced.
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

// label labels what actions apply for an object.
func (p *Recipe) label(actions []handler.Action, key delta.Key) (err error) {
	for i := range actions {
		a := &actions[i]
		if a.Verb != handler.ActionApply || a.Subresource != "" {
			continue
		}
		if a.Object, err = labelled(a.Object, map[string]string{ruleLabel: p.rule.Name, sourceLabel: p.mark(key)}); err != nil {
			return fmt.Errorf("%s of %s %s: %w", a.Verb, object.ResourceName(schema.GroupVersionResource(a.Resource)), a.Name, err)
		}
	}
	return nil
}

// mark returns a label's value that stands for an object of the rule's source.
func (p *Recipe) mark(key delta.Key) string {
	digest := sha256.Sum256([]byte(object.ResourceName(p.rule.Source.Resource) + " " + key.String()))
	return hex.EncodeToString(digest[:16])
}

// labelled returns an object with more labels.
func labelled(o json.RawMessage, labels map[string]string) (json.RawMessage, error) {
	tree, metadata, all := map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]any{}
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
