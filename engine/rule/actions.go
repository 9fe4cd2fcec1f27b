package rule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// Bounds of the actions of one change.
const (
	maxActions     = 1024
	maxActionBytes = 8 << 20 // JSON and names together
)

// The budget of all expressions of one Piece, or of one Evaluate: the steps of 100 expressions, and
// the memory of eight.
const (
	actionSteps  = 100 * expr.MaxSteps
	actionMemory = 8 * expr.MaxMemory
)

// Actions are the compiled actions of a rule. They are immutable and safe for concurrent use.
type Actions struct {
	Each []ActionTemplate
	// Prune deletes what the rule applied and no longer asks for. Nothing is applied for a deleted
	// object then.
	Prune bool
	// Deleted evaluates all actions for deleted objects. Otherwise only those whose if or forEach
	// mentions event are.
	Deleted bool
	// IsScheduled is Rule.IsScheduled.
	IsScheduled bool
	// Unserved are kinds whose resources nobody knows: the cluster has not served them so far. The
	// Resource of their templates has no name.
	Unserved []schema.GroupVersionKind
}

// ActionTemplate makes actions of one kind: one action, or one per element of a list. It has many
// fields because it mirrors an action of a manifest: each verb uses some of them.
type ActionTemplate struct {
	Label       string        // for error texts, as actions[0]
	ForEach     *expr.Program // compiled for expr.ForEach; nil: once
	If          *expr.Program // nil: always
	Verb        string
	Resource    schema.GroupVersionResource
	Subresource string
	// Namespace, Name, UID and ResourceVersion make strings. If Namespace or Name is nil, the
	// action takes it from the change's object. If Elsewhere is set, a nil Namespace means none.
	Namespace, Name, UID, ResourceVersion *Template
	Elsewhere                             bool
	Object                                *Template
	IsManifest                            bool // Object stands below the verb itself
	PatchType                             string
	Patch                                 *Template
	Reason, Message                       *Template
	Warning                               bool
}

func (a *ActionTemplate) each(visit func(*expr.Program)) {
	for _, p := range []*expr.Program{a.ForEach, a.If} {
		if p != nil {
			visit(p)
		}
	}
	for _, t := range []*Template{
		a.Namespace, a.Name, a.UID, a.ResourceVersion, a.Object, a.Patch, a.Reason, a.Message,
	} {
		t.Each(visit)
	}
}

// Paths returns what the actions read of the rule's own objects, in either state. A nil Actions
// reads nothing.
func (a *Actions) Paths() *object.Paths {
	p := new(object.Paths)
	a.each(func(program *expr.Program) { p.Union(program.Paths()) })
	return p
}

// Lookups returns what the actions read of objects of other sources, by source.
func (a *Actions) Lookups() Lookups {
	l := make(Lookups)
	a.each(l.add)
	return l
}

// ReadsIndex reports whether an action looks into the rule's own source.
func (a *Actions) ReadsIndex() (reads bool) {
	a.each(func(p *expr.Program) { reads = reads || p.ReadsIndex() })
	return reads
}

func (a *Actions) each(visit func(*expr.Program)) {
	if a == nil {
		return
	}
	for i := range a.Each {
		a.Each[i].each(visit)
	}
}

// AsksFor reports whether t is evaluated for a change of that type.
func (a *Actions) AsksFor(t *ActionTemplate, change delta.Type) bool {
	if change != delta.Deleted {
		return true
	}
	if a.Prune && t.Verb == handler.ActionApply && t.Subresource == "" {
		return false
	}
	reads := func(p *expr.Program) bool { return p != nil && p.ReadsEvent() }
	return a.Deleted || reads(t.If) || reads(t.ForEach)
}

// ActsOn reports whether changes of that type have any action evaluated. Prune is none.
func (a *Actions) ActsOn(change delta.Type) bool {
	return slices.ContainsFunc(a.Each, func(t ActionTemplate) bool { return a.AsksFor(&t, change) })
}

// Step holds what one template makes for a change: one action, or one for each element of its
// list. They are independent of each other.
type Step struct {
	Label   string // of the template
	Actions []handler.Action
}

// Evaluate returns the actions for a change, in the order of the manifest: at most maxActions, with
// maxActionBytes of JSON and names in all. A template that makes none has no step. If a bound is
// exceeded or an expression fails, Evaluate returns no steps and an error. The error says where it
// happened, and never holds contents of objects.
//
// items is what [Items] stands for: nil unless the rule has Group.
func (a *Actions) Evaluate(d delta.Delta, items any, look Lookup) ([]Step, error) {
	w := a.Walker(d, items, look)
	w.isWhole, w.lists = true, look
	var steps []Step
	made, isNew := 0, true
	err := w.Walk(nil, func(p Piece) error {
		if made += len(p.Actions); made > maxActions {
			return at(p.Label, errMany)
		}
		if isNew {
			steps = append(steps, Step{p.Label, p.Actions})
		} else {
			last := &steps[len(steps)-1]
			last.Actions = append(last.Actions, p.Actions...)
		}
		isNew = p.Ends
		return nil
	})
	if err != nil {
		return nil, err
	}
	return steps, nil
}

var (
	errMany         = fmt.Errorf("more than %d actions", maxActions)
	errLargeActions = fmt.Errorf("the actions exceed %d MiB", maxActionBytes>>20)
)

// one makes the template's action for the current item, if its if holds.
func (e *evaluation) one(t *ActionTemplate) error {
	if t.If != nil {
		if ok, err := t.If.Bool(&e.env); err != nil {
			return at("if", err)
		} else if !ok {
			return nil
		}
	}
	out := handler.Action{
		Verb: t.Verb, Resource: handler.Resource(t.Resource), Subresource: t.Subresource,
		PatchType: t.PatchType, Warning: t.Warning,
	}
	if !e.walker.isWhole {
		e.room = maxActionBytes
	}
	room := e.room
	var err error
	if t.Object != nil {
		if err = e.object(t, &out); err != nil && !t.IsManifest {
			err = at("object", err)
		}
	} else {
		err = e.target(t, &out)
	}
	if err != nil {
		return at(t.Verb, err)
	}
	return e.add(out, room-e.room)
}

// target fills in an action on an existing object.
func (e *evaluation) target(t *ActionTemplate, out *handler.Action) (err error) {
	if !t.Elsewhere {
		out.Namespace, out.Name = e.walker.change.Object.Namespace(), e.walker.change.Object.Name()
	}
	for _, field := range []struct {
		name       string
		template   *Template
		to         *string
		mayBeEmpty bool
	}{
		{"namespace", t.Namespace, &out.Namespace, true},
		{"name", t.Name, &out.Name, false},
		{"uid", t.UID, &out.UID, false},
		{"resourceVersion", t.ResourceVersion, &out.ResourceVersion, false},
		{"reason", t.Reason, &out.Reason, false},
		{"message", t.Message, &out.Message, true},
	} {
		if field.template == nil {
			continue
		}
		*field.to, err = e.text(field.template)
		if err == nil && *field.to == "" && !field.mayBeEmpty {
			err = errEmpty
		}
		if err != nil {
			return at(field.name, err)
		}
	}
	if t.Patch == nil {
		return nil
	}
	field, want, first := "merge", "a map", byte('{')
	if t.PatchType == handler.JSONPatch {
		field, want, first = "json", "a list of operations", byte('[')
	}
	if out.Patch, err = e.json(t.Patch); err == nil && out.Patch[0] != first {
		err = fmt.Errorf("it must give %s", want)
	}
	if err != nil {
		return at(field, err)
	}
	return nil
}

var errEmpty = errors.New("it is empty")

// object fills in the object of an apply or a create, and its identity.
func (e *evaluation) object(t *ActionTemplate, out *handler.Action) (err error) {
	if out.Object, err = e.json(t.Object); err != nil {
		return err
	}
	var whole map[string]json.RawMessage
	if out.Object[0] != '{' || json.Unmarshal(out.Object, &whole) != nil {
		return errors.New("it must give a map")
	}
	var metadata map[string]json.RawMessage
	text := whole["metadata"]
	if len(text) == 0 || text[0] != '{' || json.Unmarshal(text, &metadata) != nil {
		return at("metadata", errors.New("it must be a map with a name"))
	}
	if _, ok := metadata["generateName"]; ok {
		err := errors.New("it would make another object at each repeat: give the object a name")
		return at("metadata", at("generateName", err))
	}
	for _, field := range []struct {
		name string
		to   *string
	}{{"namespace", &out.Namespace}, {"name", &out.Name}} {
		text, ok := metadata[field.name]
		if ok && (text[0] != '"' || json.Unmarshal(text, field.to) != nil) {
			return at("metadata", at(field.name, errors.New("it must be a string")))
		}
	}
	if out.Name == "" {
		return at("metadata", at("name", errNil))
	}
	return nil
}

// json returns the JSON of a template, which must not be nil.
func (e *evaluation) json(t *Template) (json.RawMessage, error) {
	text, err := t.Render(&e.env, e.room)
	switch {
	case errors.Is(err, errLarge) && e.walker.isWhole:
		return nil, errLargeActions
	case errors.Is(err, errLarge):
		return nil, errLargeAction
	case err != nil:
		return nil, err
	case text == nil:
		return nil, errNil
	}
	e.room -= len(text)
	return text, nil
}

// text returns a template's value as a string. Numbers and booleans become their text.
func (e *evaluation) text(t *Template) (string, error) {
	text, err := e.json(t)
	if err != nil {
		return "", err
	}
	switch text[0] {
	case '"':
		var s string
		err := json.Unmarshal(text, &s)
		return s, err
	case '{', '[', 'n':
		return "", errors.New("it must be a string")
	}
	return string(text), nil
}
