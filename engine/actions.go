package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// Labels of what a rule with prune has applied. By them it finds again, in whatever life of the daemon, what it applied for an
// object.
const (
	ruleLabel   = "informd.dev/rule"
	sourceLabel = "informd.dev/source" // a digest of what it was applied for
)

// addActions has a rule act, if it does, and know its own changes again, if it may make any.
func (e *Engine) addActions(r *runningRule, h config.Handler, o *dispatch.LaneOptions) {
	if r.Actions == nil && len(h.Write) == 0 {
		return
	}
	if !r.OwnChanges {
		r.knowsOwn = true
		o.Own = own{e.acting.writes, r.Source.Resource, r.Name}
	}
	o.Acts, o.Renew = true, r.renew
	o.Secret = r.secretly.Load
	if r.Actions != nil {
		r.actionReads, r.actionInto = r.Actions.Paths(), e.into(r.Actions.Lookups())
		o.Actions = r.act
	}
}

// seesSecrets tells whether text of a secret may come to be in an answer, or in a reason.
func (e *Engine) seesSecrets(r *runningRule, h config.Handler) bool {
	if r.isSecret() {
		return true
	}
	for _, s := range r.LooksInto {
		if s.Resource == secrets {
			return true
		}
	}
	return slices.ContainsFunc(h.Read, func(name config.Text) bool {
		return slices.ContainsFunc(e.sources, func(s *runningSource) bool { return s.Name == name.String() && s.Resource == secrets })
	})
}

// deciding is what the actions of one change see.
type deciding struct{ rule *runningRule }

// Tree implements rule.Lookup.
func (l deciding) Tree(o *object.Object) any {
	if o == nil {
		return nil
	}
	return o.Decode(l.rule.actionReads)
}

// Old implements rule.Lookup.
func (l deciding) Old(o *object.Object) any { return l.Tree(o) }

// Now implements rule.Lookup.
func (l deciding) Now() time.Time { return time.Now() }

// ByIndex implements expr.Cache.
func (l deciding) ByIndex(index, value string) iter.Seq[any] {
	return find(into{l.rule.view, l.rule.actionReads}, index, value, nil)
}

// Lookup implements expr.Cache.
func (l deciding) Lookup(source, index, value string) iter.Seq[any] {
	return find(l.rule.actionInto[source], index, value, nil)
}

// act makes what a rule does itself about a change, of the caches as they are now. Dispatchers call it, concurrently.
func (r *runningRule) act(_ context.Context, d delta.Delta) (actions []handler.Action, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("actions: panic: %T", p)
			r.failures.add(err)
			err = handler.Reject(err)
		}
	}()
	if r.Actions.Prune && d.Type != delta.Deleted {
		if names := r.unread(); len(names) > 0 {
			return nil, fmt.Errorf("what the rule looks into cannot be read, and to prune by nothing would delete all that it applied: %s", strings.Join(names, ", "))
		}
	}
	made, err := r.Actions.Evaluate(d, deciding{r})
	if err != nil {
		r.failures.add(err)
		return nil, handler.Reject(err)
	}
	mark := sourceMark(r.resource(), d.Key())
	for _, a := range made {
		if r.Actions.Prune && a.Verb == handler.ActionApply && a.Subresource == "" {
			if a.Object, err = labelled(a.Object, map[string]string{ruleLabel: r.Name, sourceLabel: mark}); err != nil {
				return nil, handler.Reject(fmt.Errorf("%s of %s %s: %w", a.Verb, resourceName(schema.GroupVersionResource(a.Resource)), a.Name, err))
			}
		}
		actions = append(actions, a)
	}
	for _, resource := range r.Prune {
		actions = append(actions, action.Prune(resource, ruleLabel+"="+r.Name+","+sourceLabel+"="+mark))
	}
	return actions, nil
}

// prunes tells whether a change, once delivered, has the rule delete what it applied: whoever made it, then, the rule hears of
// it.
func (r *runningRule) prunes(d delta.Delta) bool {
	return r.Actions != nil && r.Actions.Prune && d.Type == delta.Deleted
}

// unread are the sources that the rule's actions look into and of which not everything is known, or nothing.
func (r *runningRule) unread() (names []string) {
	sources := r.others
	if r.Actions.ReadsIndex() {
		sources = append(slices.Clone(sources), r.view)
	}
	for _, s := range sources {
		if !s.HasSynced() {
			names = append(names, s.Name())
		}
	}
	return names
}

// sourceMark is a label's value that stands for an object.
func sourceMark(resource string, key delta.Key) string {
	digest := sha256.Sum256([]byte(resource + " " + key.String()))
	return hex.EncodeToString(digest[:16])
}

// labelled is an object with more labels.
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

// renew is a change with the object as it is by now: for a handler as if it had been merged with what made it so. What a rule does
// itself is decided anew. Dispatchers call it, concurrently.
func (r *runningRule) renew(d delta.Delta) (match rule.Match, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			r.failures.add(fmt.Errorf("panic: %T", p))
			match, ok = rule.Match{}, false
		}
	}()
	if now, ok := r.view.Get(d.Object.Namespace(), d.Object.Name()); ok && d.Type != delta.Deleted && now.UID() == d.Object.UID() {
		d.Object = now
	}
	if r.Actions != nil {
		decoder := object.NewDecoder(r.reads)
		look := &lookup{decoder: decoder, old: decoder, rule: r}
		if !r.isInside(d.Object, look) {
			return rule.Match{}, false
		}
		match, ok, err := r.Decide(d, look)
		r.failures.add(err)
		return match, ok
	}
	match = rule.Match{Delta: d}
	if r.Payload != nil {
		if match.Payload, _ = r.remerge(d); match.Payload == nil { // that it fails was counted
			match.Payload = notKept
		}
	}
	return match, true
}

// versionOf is a change as action.Writes.Made knows it; "" if it is none of anybody's.
func versionOf(d delta.Delta) string {
	switch d.Type {
	case delta.Synced:
		return ""
	case delta.Deleted:
		return action.DeletionOf(d.Object.UID())
	}
	from := ""
	if d.Old != nil {
		from = d.Old.ResourceVersion()
	}
	return action.ChangeOf(from, d.Object.ResourceVersion())
}
