package ruletest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/simulate"
	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handler"
)

// came is an event that came in a test.
type came struct {
	at     time.Time      // by the clock of the test
	after  time.Duration  // of the test, without what the clock was set by
	fields map[string]any // in the form in which tests write events
	lane   string         // events of one rule and object are in order
	by     string         // who got it, for people
	// resources are those of the actions, which an action with an object does not show.
	resources []string
}

// newCame returns an event in the form in which tests write events. clockStart is the start of the
// test by the clock as it is set now.
func newCame(ev simulate.Event, clockStart time.Time) came {
	e := ev.Event
	c := came{at: ev.At, after: ev.At.Sub(clockStart), lane: ev.Rule + " " + e.Namespace + "/" + e.Name}
	c.fields = changeFields(&e)
	set := func(field string, value any, has bool) {
		if has {
			c.fields[field] = value
		}
	}
	set("rule", ev.Rule, true)
	set("attempt", json.Number(fmt.Sprint(e.Attempt)), true)
	set("dead", ev.Dead, ev.Dead != "")
	var items []any
	for i := range e.Items {
		items = append(items, changeFields(&e.Items[i]))
	}
	set("items", items, len(items) > 0)
	if e.Attached != nil {
		attached := make(map[string]any)
		for name, objects := range e.Attached {
			list := make([]any, 0, len(objects))
			for _, o := range objects {
				list = append(list, decode(o))
			}
			attached[name] = list
		}
		c.fields["attached"] = attached
	}
	var actions []any
	for _, a := range ev.Actions {
		actions = append(actions, actionFields(a))
		c.resources = append(c.resources, resourceOf(a))
	}
	set("actions", actions, len(actions) > 0)
	switch {
	case ev.Handler != "" && ev.Handler != engine.OwnActions:
		c.by = "to handler " + ev.Handler
	case len(ev.Actions) > 0:
		c.by = "actions of the rule"
	default:
		c.by = "no action of the rule"
	}
	return c
}

// newFailure returns the failure of an expression in the form in which tests write it. rule is empty
// for an index or a metric.
func newFailure(rule string, f engine.ExpressionFailure, clockStart time.Time) came {
	c := came{
		at: f.At, after: f.At.Sub(clockStart),
		lane:   rule + " " + f.Key.String() + " failed", // in any order with events
		fields: map[string]any{"error": f.Reason},
	}
	for field, value := range map[string]string{
		"rule": rule, "namespace": f.Key.Namespace, "name": f.Key.Name,
	} {
		if value != "" {
			c.fields[field] = value
		}
	}
	return c
}

// isFailure reports whether c is no event: an expression has failed.
func (c came) isFailure() bool { return c.fields["error"] != nil }

// changeFields returns what an event and each of its items say about a change.
func changeFields(e *handler.Event) map[string]any {
	f := map[string]any{"event": e.Event, "name": e.Name}
	set := func(field string, value any, has bool) {
		if has {
			f[field] = value
		}
	}
	set("namespace", e.Namespace, e.Namespace != "")
	set("payload", decode(e.Payload), e.Payload != nil)
	set("object", decode(e.Object), e.Object != nil)
	set("old", decode(e.Old), e.Old != nil)
	return f
}

// resourceOf returns the resource of an action as manifests write it.
func resourceOf(a handler.Action) string {
	resource := object.ResourceName(schema.GroupVersionResource(a.Resource))
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	return resource
}

// actionFields returns an action in the form in which manifests write it. An object that says its
// kind stands for itself.
func actionFields(a handler.Action) map[string]any {
	f := map[string]any{"resource": resourceOf(a)}
	set := func(name, value string) {
		if value != "" {
			f[name] = value
		}
	}
	if a.Verb == handler.ActionApply || a.Verb == handler.ActionCreate {
		o, _ := decode(a.Object).(map[string]any)
		o = named(o, a)
		if isManifest(o) && a.Subresource == "" {
			return map[string]any{a.Verb: o}
		}
		f["object"] = o
		return map[string]any{a.Verb: f}
	}
	set("namespace", a.Namespace)
	set("name", a.Name)
	set("uid", a.UID)
	set("resourceVersion", a.ResourceVersion)
	set("reason", a.Reason)
	set("message", a.Message)
	if a.Warning {
		f["warning"] = true
	}
	if a.Patch != nil {
		form := "merge"
		if a.PatchType == handler.JSONPatch {
			form = "json"
		}
		f[form] = decode(a.Patch)
	}
	return map[string]any{a.Verb: f}
}

// isManifest reports whether an object says its kind, so that it needs no resource beside it.
func isManifest(o map[string]any) bool { return o["apiVersion"] != nil && o["kind"] != nil }

// actionsAs returns the actions in the forms in which a test writes them: one that it writes with a
// resource and an object has these.
func (c came) actionsAs(want any) any {
	got, _ := c.fields["actions"].([]any)
	written, _ := want.([]any)
	if len(written) != len(got) || len(c.resources) != len(got) {
		return c.fields["actions"]
	}
	out := slices.Clone(got)
	for i := range out {
		for _, verb := range []string{handler.ActionApply, handler.ActionCreate} {
			is, as := under(got[i], verb), under(written[i], verb)
			if !isManifest(is) || as["resource"] == nil && as["object"] == nil {
				continue
			}
			o, wantedObject := maps.Clone(is), under(as, "object")
			for _, field := range []string{"apiVersion", "kind"} {
				if wantedObject[field] == nil {
					delete(o, field) // the resource says it
				}
			}
			out[i] = map[string]any{verb: map[string]any{"resource": c.resources[i], "object": o}}
		}
	}
	return out
}

// under returns the fields below a field, or nil.
func under(v any, field string) map[string]any {
	m, _ := v.(map[string]any)
	in, _ := m[field].(map[string]any)
	return in
}

// as returns the fields of the event in the forms in which a test writes them.
func (c came) as(want map[string]any) map[string]any {
	if want["actions"] == nil {
		return c.fields
	}
	fields := maps.Clone(c.fields)
	if actions := c.actionsAs(want["actions"]); actions != nil {
		fields["actions"] = actions
	}
	return fields
}

// named adds the name of an action's object to it, if only the action has it.
func named(o map[string]any, a handler.Action) map[string]any {
	if o == nil {
		o = make(map[string]any)
	}
	metadata, _ := o["metadata"].(map[string]any)
	if metadata == nil {
		metadata = make(map[string]any)
		o["metadata"] = metadata
	}
	if metadata["name"] == nil {
		metadata["name"] = a.Name
	}
	if metadata["namespace"] == nil && a.Namespace != "" {
		metadata["namespace"] = a.Namespace
	}
	return o
}

// String describes the event on one line: +5m added shop/web-0 (rule pending, to handler print).
func (c came) String() string {
	return printable.Line("+"+config.ShortDuration(c.after)+" "+c.text(), maxLine)
}

// text describes the event without its time.
func (c came) text() string {
	name, _ := c.fields["name"].(string)
	if namespace, ok := c.fields["namespace"].(string); ok {
		name = namespace + "/" + name
	}
	if c.isFailure() {
		text := "an expression failed"
		if name != "" {
			text += " on " + name
		}
		if rule, ok := c.fields["rule"].(string); ok {
			text += " (rule " + rule + ")"
		}
		return text
	}
	attempt := ""
	if n := fmt.Sprint(c.fields["attempt"]); n != "1" {
		attempt = ", attempt " + n
	}
	items := ""
	if n := len(c.items()); n > 1 {
		items = fmt.Sprintf(", %d items", n)
	}
	return fmt.Sprintf("%v %s (rule %v, %s%s%s)",
		c.fields["event"], name, c.fields["rule"], c.by, attempt, items)
}

// details describes what the event carries, a line each.
func (c came) details() (lines []string) {
	for _, field := range []string{"payload", "attached", "actions", "dead", "error"} {
		if v, ok := c.fields[field]; ok {
			lines = append(lines, field+": "+shown(v))
		}
	}
	if len(c.items()) > 1 {
		lines = append(lines, "items: "+shown(c.expectedItems(nil)))
	}
	return lines
}

func (c came) items() []any {
	items, _ := c.fields["items"].([]any)
	return items
}

// Bounds of what reports show, in bytes.
const (
	maxLine  = 500
	maxValue = 300
)

// shown returns a value on one line, as YAML, shortened.
func shown(v any) string {
	if v == nil {
		return "nothing"
	}
	return printable.Line(flow(v), maxValue)
}

// expected returns the event as a test would expect it: what tells it apart, and what it carries.
// shape has the fields that the test gave before; of objects only what it gave stays.
func (c came) expected(shape map[string]any) map[string]any {
	e := make(map[string]any)
	for _, field := range []string{
		"rule", "event", "namespace", "name", "payload", "actions", "dead", "error",
	} {
		if v, ok := c.fields[field]; ok {
			e[field] = v
		}
	}
	isFirst := c.isFailure() || fmt.Sprint(c.fields["attempt"]) == "1"
	if shape["attempt"] != nil || !isFirst {
		e["attempt"] = c.fields["attempt"]
	}
	for field, was := range shape {
		v := c.fields[field]
		if field == "actions" {
			v = c.actionsAs(was)
		}
		if v != nil && field != "items" {
			e[field] = project(was, v)
		}
	}
	was, isGiven := shape["items"].([]any)
	if n := len(c.items()); n > 1 || n > 0 && isGiven { // a single item says nothing new
		e["items"] = c.expectedItems(was)
	}
	return e
}

// expectedItems returns the items as a test would expect them: the fields that the test gave
// before, or what tells an item apart and its payload.
func (c came) expectedItems(shapes []any) (items []any) {
	for i, item := range c.items() {
		fields, _ := item.(map[string]any)
		shape := map[string]any{"event": nil, "namespace": nil, "name": nil, "payload": nil}
		if len(shapes) == len(c.items()) {
			if was, _ := shapes[i].(map[string]any); len(was) > 0 {
				shape = was
			}
		}
		items = append(items, project(shape, fields))
	}
	return items
}

// project returns the part of a value that has the shape of another one.
func project(shape, v any) any {
	s, ok := shape.(map[string]any)
	m, isMap := v.(map[string]any)
	if !ok || !isMap || len(s) == 0 {
		return v
	}
	out := make(map[string]any)
	for name, was := range s {
		if is, ok := m[name]; ok {
			out[name] = project(was, is)
		}
	}
	return out
}
