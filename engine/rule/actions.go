package rule

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// Bounds of what the actions of a rule yield for one change.
const (
	maxActions     = 1024
	maxActionBytes = 8 << 20 // of JSON and names, in all
)

// What evaluating the actions for one change may cost: that of 100 expressions, and eight times as much memory as one may take.
const (
	actionSteps  = 100 * expr.MaxSteps
	actionMemory = 8 * expr.MaxMemory
)

// Actions make what is to be done about a change. They are immutable and safe for concurrent use.
type Actions struct {
	Each []ActionTemplate
	// Prune says that what was applied is deleted once it is not yielded any more, so that nothing is applied for an object
	// that is deleted.
	Prune bool
	// Deleted says that all of them are asked of deleted objects. Otherwise it is those only whose if or forEach mentions event.
	Deleted bool
}

// ActionTemplate makes actions of one kind: one, or one for each element of a list.
type ActionTemplate struct {
	Label       string        // for messages: actions[0]
	ForEach     *expr.Program // compiled for expr.ForEach; nil: once
	If          *expr.Program // nil: always
	Verb        string
	Resource    schema.GroupVersionResource
	Subresource string
	// Namespace, Name, UID and ResourceVersion make strings. A nil Namespace or Name is that of the change's object, unless
	// Elsewhere, where a nil Namespace is none.
	Namespace, Name, UID, ResourceVersion *Template
	Elsewhere                             bool
	Object                                *Template
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
	for _, t := range []*Template{a.Namespace, a.Name, a.UID, a.ResourceVersion, a.Object, a.Patch, a.Reason, a.Message} {
		t.each(visit)
	}
}

// Paths are what the actions read of the rule's own objects, of either state. A nil Actions reads nothing.
func (a *Actions) Paths() *object.Paths {
	p := new(object.Paths)
	a.each(func(program *expr.Program) { p.Union(program.Paths()) })
	return p
}

// Lookups is as Rule.Lookups, of the actions.
func (a *Actions) Lookups() Lookups {
	l := make(Lookups)
	a.each(l.add)
	return l
}

// ReadsIndex tells whether any of them looks into the rule's own source.
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

// asksFor tells whether an action is asked of a kind of change.
func (a *Actions) asksFor(t *ActionTemplate, change delta.Type) bool {
	if change != delta.Deleted {
		return true
	}
	if a.Prune && t.Verb == handler.ActionApply && t.Subresource == "" {
		return false
	}
	reads := func(p *expr.Program) bool { return p != nil && p.ReadsEvent() }
	return a.Deleted || reads(t.If) || reads(t.ForEach)
}

// Evaluate makes what is to be done about a change, in the order in which the actions are written; at most maxActions, with
// maxActionBytes in all. What exceeds that, and an expression that fails, is an error, and nothing is to be done. It says
// where it happened, and never holds contents of objects.
func (a *Actions) Evaluate(d delta.Delta, look Lookup) ([]handler.Action, error) {
	e := evaluation{
		env: environment(d, look), change: d, room: maxActionBytes,
	}
	e.env.Budget = &expr.Budget{Steps: actionSteps, Memory: actionMemory}
	for i := range a.Each {
		t := &a.Each[i]
		if !a.asksFor(t, d.Type) {
			continue
		}
		if err := e.all(t); err != nil {
			return nil, at(t.Label, err)
		}
	}
	return e.actions, nil
}

// evaluation is one Evaluate under way.
type evaluation struct {
	env     expr.Env
	change  delta.Delta
	actions []handler.Action
	room    int // bytes left
}

var (
	errMany         = fmt.Errorf("more than %d actions", maxActions)
	errLargeActions = fmt.Errorf("the actions exceed %d MiB", maxActionBytes>>20)
)

// all adds what one template makes.
func (e *evaluation) all(t *ActionTemplate) error {
	e.env.Item = nil
	if t.ForEach == nil {
		return e.one(t)
	}
	items, err := t.ForEach.Elements(&e.env)
	if err != nil {
		return at("forEach", err)
	}
	for _, e.env.Item = range items {
		if err := e.one(t); err != nil {
			return err
		}
	}
	return nil
}

// one adds what a template makes for the item in the environment, if it does.
func (e *evaluation) one(t *ActionTemplate) error {
	if t.If != nil {
		if ok, err := t.If.Bool(&e.env); err != nil {
			return at("if", err)
		} else if !ok {
			return nil
		}
	}
	if len(e.actions) == maxActions {
		return errMany
	}
	out := handler.Action{
		Verb: t.Verb, Resource: handler.Resource(t.Resource), Subresource: t.Subresource, PatchType: t.PatchType, Warning: t.Warning,
	}
	var err error
	if t.Object != nil {
		if err = e.object(t, &out); err != nil {
			err = at("object", err)
		}
	} else {
		err = e.target(t, &out)
	}
	if err != nil {
		return at(t.Verb, err)
	}
	e.actions = append(e.actions, out)
	return nil
}

// target fills in what is not about a whole object.
func (e *evaluation) target(t *ActionTemplate, out *handler.Action) (err error) {
	if !t.Elsewhere {
		out.Namespace, out.Name = e.change.Object.Namespace(), e.change.Object.Name()
	}
	for _, field := range []struct {
		name     string
		template *Template
		to       *string
	}{
		{"namespace", t.Namespace, &out.Namespace}, {"name", t.Name, &out.Name}, {"uid", t.UID, &out.UID},
		{"resourceVersion", t.ResourceVersion, &out.ResourceVersion}, {"reason", t.Reason, &out.Reason}, {"message", t.Message, &out.Message},
	} {
		if field.template == nil {
			continue
		}
		if *field.to, err = e.text(field.template); err == nil && *field.to == "" && field.name != "namespace" && field.name != "message" {
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

// object fills in the object, and what it is called.
func (e *evaluation) object(t *ActionTemplate, out *handler.Action) (err error) {
	if out.Object, err = e.json(t.Object); err != nil {
		return err
	}
	var whole map[string]json.RawMessage
	if out.Object[0] != '{' || json.Unmarshal(out.Object, &whole) != nil {
		return errors.New("it must give a map")
	}
	var metadata map[string]json.RawMessage
	if text := whole["metadata"]; len(text) == 0 || text[0] != '{' || json.Unmarshal(text, &metadata) != nil {
		return at("metadata", errors.New("it must be a map with a name"))
	}
	if _, ok := metadata["generateName"]; ok {
		return at("metadata", at("generateName", errors.New("it would make another object each time that the action is repeated: give the object a name")))
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

// json is what a template makes, which must not be nil.
func (e *evaluation) json(t *Template) (json.RawMessage, error) {
	text, err := t.render(&e.env, e.room)
	switch {
	case errors.Is(err, errLarge):
		return nil, errLargeActions
	case err != nil:
		return nil, err
	case text == nil:
		return nil, errNil
	}
	e.room -= len(text)
	return text, nil
}

// text is what a template makes as a string: of a number or boolean its text.
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
