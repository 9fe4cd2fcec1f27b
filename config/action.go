package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const maxActions = 64 // of one rule

// The verbs of actions and grants.
const (
	Apply  = "apply"  // server-side apply of an object
	Create = "create" // an object that does not exist yet
	Patch  = "patch"  // an object that exists
	Delete = "delete"
	Event  = "event" // a Kubernetes Event about an object
)

var verbs = []string{Apply, Create, Patch, Delete, Event}

// Action is one thing that a rule does itself: once, or for each element of a list. It has many
// fields because it mirrors the manifest: each verb uses some of them.
type Action struct {
	ForEach Text // zero: once
	If      Text // zero: always
	Verb    string
	At      Text // the verb

	Resource    schema.GroupVersionResource // zero: the resource of the rule's source
	ResourceAt  Text                        // also of a mistaken resource; zero: none is given
	Subresource string                      // "" or status

	// Kind is that of an apply or a create whose Object stands below the verb, as a manifest. Its
	// resource follows from it: Resource has no name as long as nobody knows that.
	Kind   schema.GroupVersionKind
	KindAt Text

	// The object of a patch, delete or event; nil: that of the change. A nil UID or ResourceVersion
	// is not checked.
	Namespace, Name, UID, ResourceVersion *Value

	Object *Value // for apply and create

	JSONPatch bool // Patch is a list of operations (RFC 6902), not a merge patch (RFC 7396)
	Patch     *Value

	Reason, Message *Value // for event; Message may be nil
	Warning         bool
}

// eventReason is the rule that plugins/handler applies.
var eventReason = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,127}$`)

// actions reads spec.actions. It returns a non-nil list if the field is there, even if it is
// mistaken.
func (r *reader) actions(spec mapping) []Action {
	r.actionsOnly(spec)
	if !spec.has("actions") {
		return nil
	}
	items := r.list(spec.get("actions"), "spec.actions", "actions")
	if len(items) > maxActions {
		r.mistake(items[maxActions], "spec.actions has %d elements, more than %d",
			len(items), maxActions)
		items = items[:maxActions]
	}
	out := make([]Action, 0, len(items))
	for i, item := range items {
		if a, ok := r.action(item, fmt.Sprintf("spec.actions[%d]", i)); ok {
			out = append(out, a)
		}
	}
	return out
}

// actionsOnly checks that the rule has a handler, actions or metrics, and the fields that belong to
// either.
func (r *reader) actionsOnly(spec mapping) {
	if !spec.has("actions") {
		if spec.has("prune") {
			r.mistake(spec.key["prune"], "spec.prune goes with spec.actions only")
		}
		if !spec.has("handler") && !spec.has("metrics") && spec.at != nil {
			r.mistake(spec.at, "spec.handler, spec.actions or spec.metrics is missing")
		}
		return
	}
	if spec.has("handler") {
		return
	}
	for _, field := range []string{"payload", "attach"} {
		if spec.has(field) && !(field == "payload" && spec.has("group")) { // items have payloads
			r.mistake(spec.key[field], "spec.%s goes to a handler, and the rule has only actions: "+
				"leave it out, or give the rule a spec.handler too", field)
		}
	}
}

func (r *reader) action(n *yaml.Node, what string) (Action, bool) {
	if r.isNotIndented(n) {
		return Action{}, false
	}
	fields := r.mapping(n, n, what, actionFields)
	a := Action{
		ForEach: r.bareExpression(fields.meant("forEach"), what+".forEach"),
		If:      r.bareExpression(fields.get("if"), what+".if"),
	}
	for _, verb := range verbs {
		switch {
		case !fields.has(verb):
		case a.Verb != "":
			r.mistake(fields.key[verb], "%s and %s exclude each other: write two actions",
				a.Verb, verb)
		default:
			a.Verb, a.At = verb, r.text(fields.key[verb])
		}
	}
	if a.Verb == "" {
		if fields.at != nil && !fields.hasUnknown {
			r.mistake(n, "%s has no verb: %s is missing", what, oneOf(verbs))
		}
		return a, false
	}
	body := fields.valueOf(a.Verb, emptyVerbs[a.Verb])
	if body == nil {
		return a, false
	}
	makesObject := a.Verb == Apply || a.Verb == Create
	if makesObject && isManifest(body) {
		r.manifestOf(&a, body, what+"."+a.Verb)
		return a, true
	}
	if makesObject && body.Kind != yaml.MappingNode {
		r.mistake(body, "%s.%s must be an object with apiVersion and kind, or a mapping of resource and "+
			"object, not %s", what, a.Verb, describe(body))
		return a, true
	}
	r.verb(&a, r.mapping(body, fields.key[a.Verb], what+"."+a.Verb, verbFields.named(a.Verb).fields))
	return a, true
}

// emptyVerbs say what to write below a verb that has nothing.
var emptyVerbs = map[string]string{
	Apply:  ": write the object below it",
	Create: ": write the object below it",
	Patch:  ": write merge below it, with what is to change",
	Delete: ": write delete: {} to delete the object that changed",
	Event:  ": write reason below it, such as {reason: Quarantined}",
}

// manifestKeys are fields of the object below apply and create.
var manifestKeys = []string{"apiVersion", "kind", "metadata", "spec", "data", "stringData"}

// isNotIndented reports, as one mistake, that what belongs below an action's verb stands beside it.
func (r *reader) isNotIndented(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	for _, verb := range verbs {
		below := child(n, verb)
		if below == nil || below.Kind != yaml.ScalarNode || below.ShortTag() != "!!null" {
			continue
		}
		belongs := verbFields.named(verb).fields.names()
		if verb == Apply || verb == Create {
			belongs = append(slices.Clone(belongs), manifestKeys...)
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i]; slices.Contains(belongs, key.Value) {
				r.mistake(key, "%s belongs to %s: indent it, and what follows, by two more spaces",
					quote(key.Value), verb)
				return true
			}
		}
	}
	return false
}

// bareExpression reads an expression beside fields that take templates.
func (r *reader) bareExpression(n *yaml.Node, what string) Text {
	if n != nil && n.Kind == yaml.ScalarNode && strings.HasPrefix(n.Value, "${") {
		r.mistake(n, "%s is already an expression: write it without ${ and }", what)
		return Text{}
	}
	return r.expression(n, what)
}

// verb reads the mapping below the verb.
func (r *reader) verb(a *Action, f mapping) {
	field := func(name string) *Value { return r.template(f.get(name), f.path+name) }
	if a.Verb == Apply || a.Verb == Create {
		a.target(r, f.get("resource"), f.path+"resource")
		a.Object = r.object(f.get("object"), f.path+"object")
		return
	}
	a.target(r, f.get("resource"), f.path+"resource")
	a.Namespace, a.Name = field("namespace"), field("name")
	a.UID, a.ResourceVersion = field("uid"), field("resourceVersion")
	for _, name := range []string{"namespace", "name", "uid", "resourceVersion"} {
		r.endsWithBreak(f.get(name), f.path+name)
	}
	switch a.Verb {
	case Patch:
		a.JSONPatch, a.Patch = r.patch(f)
	case Event:
		a.Reason, a.Message = r.template(f.get("reason"), f.path+"reason"), field("message")
		reason := f.get("reason")
		r.endsWithBreak(reason, f.path+"reason")
		if t := a.Reason; t != nil && !isEventReason(t) {
			r.mistake(reason, "%sreason must be one word in CamelCase, "+
				"such as Quarantined, of at most 128 letters and digits", f.path)
		}
		a.Warning = f.boolean("warning")
	}
}

// target reads the action's resource and subresource.
func (a *Action) target(r *reader, n *yaml.Node, what string) {
	a.Resource, a.Subresource = r.target(n, what, a.Verb == Apply || a.Verb == Patch)
	a.ResourceAt = r.text(n)
}

// target reads VERSION/RESOURCE or GROUP/VERSION/RESOURCE. It takes a /status after it only if
// status is set.
func (r *reader) target(
	n *yaml.Node, what string, status bool) (gvr schema.GroupVersionResource, subresource string) {
	s := r.str(n, what)
	if s == "" {
		return gvr, ""
	}
	resource, isStatus := strings.CutSuffix(s, "/status")
	if strings.Contains(s, "${") {
		r.mistake(n, "%s must be a constant, such as v1/pods: "+
			"informd must know before the rule runs which resources it changes", what)
		return gvr, ""
	}
	gvr, fault := parseResource(resource)
	switch {
	case fault != "":
		fault = strings.Replace(fault,
			"a subresource cannot be watched", "the only subresource is status", 1)
		r.mistake(n, "%s %s: %s", what, quote(s), fault)
		return schema.GroupVersionResource{}, ""
	case isStatus && !status:
		r.mistake(n, "%s %s: the subresource status goes with apply and patch only", what, quote(s))
		return schema.GroupVersionResource{}, ""
	case isStatus:
		return gvr, "status"
	}
	return gvr, ""
}

// object reads the object of an apply or a create, and checks what is known of its identity.
func (r *reader) object(n *yaml.Node, what string) *Value {
	if n == nil || r.reported[n] {
		return nil
	}
	switch {
	case n.Kind == yaml.MappingNode:
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && strings.HasPrefix(n.Value, "${"):
		r.endsWithBreak(n, what)
		return r.template(n, what)
	default:
		r.mistake(n,
			"%s must be a mapping, or an expression that gives one, such as \"${item}\", not %s",
			what, describe(n))
		return nil
	}
	metadata := child(n, "metadata")
	switch {
	case metadata == nil:
		r.mistake(n, "%s needs metadata with a name", what)
	case metadata.Kind != yaml.MappingNode && metadata.ShortTag() != "!!str": // an expression
		r.mistake(metadata, "%s.metadata must be a mapping, not %s", what, describe(metadata))
	case metadata.Kind == yaml.MappingNode && child(metadata, "generateName") != nil:
		r.mistake(child(metadata, "generateName"), "%s.metadata.generateName would create another "+
			"object each time the action is repeated: give the object a name", what)
	case metadata.Kind == yaml.MappingNode && child(metadata, "name") == nil:
		r.mistake(metadata, "%s.metadata needs a name", what)
	case metadata.Kind == yaml.MappingNode:
		r.withoutOwn(metadata, what)
		for _, name := range []string{"name", "namespace"} {
			n := child(metadata, name)
			if n == nil || n.Kind != yaml.ScalarNode {
				continue
			}
			r.endsWithBreak(n, what+".metadata."+name)
			if tag := n.ShortTag(); tag != "!!str" && tag != "!!null" {
				r.mistake(n, "%s.metadata.%s must be a string, not %s: put it in quotes",
					what, name, describe(n))
			}
		}
	}
	return r.template(n, what)
}

// withoutOwn reports what a manifest of kubectl get -o yaml has in its metadata and no write may have.
func (r *reader) withoutOwn(metadata *yaml.Node, what string) {
	for _, name := range []string{"uid", "resourceVersion", "managedFields"} {
		n := child(metadata, name)
		isConstant := n != nil && (n.Kind != yaml.ScalarNode ||
			n.ShortTag() != "!!null" && !strings.Contains(n.Value, "${"))
		if isConstant {
			r.mistake(n, "%s.metadata.%s is the API server's: leave it out", what, name)
		}
	}
}

// endsWithBreak reports a text in a block that ends with a line break, where there can be none.
func (r *reader) endsWithBreak(n *yaml.Node, what string) {
	if n == nil || n.Kind != yaml.ScalarNode || !strings.HasSuffix(n.Value, "\n") {
		return
	}
	block, strip := "|", "|-"
	switch {
	case n.Style&yaml.FoldedStyle != 0:
		block, strip = ">", ">-"
	case n.Style&yaml.LiteralStyle == 0:
		return
	}
	r.mistake(n, "%s would end with a line break: write %s instead of %s", what, strip, block)
}

// child returns the value of a key, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func (r *reader) patch(f mapping) (isJSON bool, patch *Value) {
	switch {
	case f.has("merge") && f.has("json"):
		r.mistake(f.key["json"], "%smerge and %sjson exclude each other", f.path, f.path)
		return false, nil
	case f.has("json"):
		return true, r.operations(f.get("json"), f.path+"json")
	case f.has("merge"):
		n := f.get("merge")
		if n != nil && (n.Kind == yaml.SequenceNode ||
			n.Kind == yaml.ScalarNode && !strings.HasPrefix(n.Value, "${")) {
			r.mistake(n, "%smerge must be a mapping of what is to change, not %s",
				f.path, describe(n))
			return false, nil
		}
		r.endsWithBreak(n, f.path+"merge")
		return false, r.template(n, f.path+"merge")
	case f.at != nil && !f.hasUnknown:
		r.mistake(f.at, "%smerge or %sjson is missing", f.path, f.path)
	}
	return false, nil
}

// operations has the operations of RFC 6902, with the field that each needs beside path.
var operations = map[string]string{
	"add": "value", "replace": "value", "test": "value",
	"remove": "",
	"move":   "from", "copy": "from",
}

// operations reads a JSON patch.
func (r *reader) operations(n *yaml.Node, what string) *Value {
	if n != nil && n.Kind == yaml.ScalarNode && strings.HasPrefix(n.Value, "${") {
		r.endsWithBreak(n, what)
		return r.template(n, what)
	}
	for i, item := range r.list(n, what, "operations") {
		f := r.mapping(item, item, fmt.Sprintf("%s[%d]", what, i), operationFields)
		if f.at == nil {
			continue
		}
		for _, pointer := range []*yaml.Node{f.get("path"), f.get("from")} {
			if pointer == nil || pointer.Kind != yaml.ScalarNode || pointer.Value == "" {
				continue
			}
			if !strings.HasPrefix(pointer.Value, "/") && !strings.HasPrefix(pointer.Value, "${") {
				r.mistake(pointer, "a path of a JSON patch begins with /: write %q",
					"/"+pointer.Value)
			}
		}
		op := f.get("op")
		if op == nil || strings.Contains(op.Value, "${") {
			continue
		}
		names := []string{"add", "copy", "move", "remove", "replace", "test"}
		if r.choice(op, f.path+"op", names); r.reported[op] {
			continue
		}
		if needs := operations[op.Value]; needs != "" && !f.has(needs) {
			r.mistake(item, "the operation %s needs a %s", op.Value, needs)
		}
	}
	return r.template(n, what)
}

// prune reads spec.prune: whether the rule deletes what it applied and no longer applies.
func (r *reader) prune(spec mapping, rule Rule) bool {
	prune := spec.boolean("prune")
	switch {
	case !prune || len(rule.Actions) == 0 || !spec.has("source"):
	case !slices.ContainsFunc(rule.Actions, Action.Prunes):
		r.mistake(spec.key["prune"], "spec.prune deletes what the rule has applied, "+
			"and the rule has no action apply")
	case !slices.Contains(rule.Events, "deleted") && !r.reported[spec.value["events"]]:
		at, hint := spec.key["events"], ""
		if at == nil { // of a rule with a schedule
			at, hint = spec.key["prune"], "; write events: [synced, deleted]"
		}
		r.mistake(at, "spec.prune needs the event deleted: "+
			"it deletes what was applied for an object when the object goes%s", hint)
	}
	return prune
}

// Prunes reports whether spec.prune covers what the action makes.
func (a Action) Prunes() bool { return a.Verb == Apply && a.Subresource == "" }

// isEventReason reports whether t is a valid reason of an event, or may become one when its
// expressions are evaluated.
func isEventReason(t *Value) bool {
	if t.Kind != ValueTemplate {
		return false
	}
	text := t.Text.String()
	return strings.Contains(text, "${") || eventReason.MatchString(text)
}
