package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/nearest"
)

// madeUpRule is the rule of events that name none.
const madeUpRule = "try"

// read is an event that was read, and where.
type read struct {
	handler.Event
	at document // without a file: the event is made up
}

// events reads events from a file, or from standard input if path is "-". Each document is an event
// as the log builtin writes it, a dead letter as informd dead show -o json prints it, an object as
// kubectl prints it, which was added, or a change as informd record writes it, and kubectl with
// --output-watch-events. With manifests, a change becomes the event that each rule of the handler
// makes of it; notes name objects that no rule selects. Without a path, there is one event, which is made up.
func (s subject) events(path string, stdin io.Reader) (events []read, notes []string, err error) {
	if path == "" {
		ev, err := s.madeUpEvent()
		return []read{{Event: ev}}, nil, err
	}
	documents, err := readDocuments(path, stdin)
	if err != nil {
		return nil, nil, err
	}
	seen := make(history)
	for i, d := range documents {
		if d.isMark() {
			continue
		}
		d, kind := d.watched()
		about, o := d.object()
		var change delta.Delta
		if o != nil {
			if change, err = seen.change(kind, about, o); err != nil {
				return nil, nil, d.mistake("%w", err)
			}
		}
		if o != nil && s.plan != nil {
			made, err := s.selected(schema.GroupVersionResource(about.resource()), change)
			if err != nil {
				return nil, nil, d.mistake("%w", err)
			}
			for _, ev := range made {
				events = append(events, read{ev, d})
			}
			if len(made) == 0 {
				note := d.mistake("no rule of handler %s selects the %s %s when it is %s",
					s.Name, about.Kind, o.Key(), kind)
				notes = append(notes, note.Error())
			}
			continue
		}
		ev, err := eventOf(d)
		if err != nil {
			return nil, nil, err
		}
		if o != nil {
			ev.Event = kind.String()
			if kind == delta.Updated {
				ev.Old = change.Old.JSON()
			}
		}
		ev.Attempt = max(1, ev.Attempt)
		if ev.Rule == "" {
			ev.Rule = s.rule().Name
		}
		if ev.ID == "" {
			ev.ID = fmt.Sprintf("%s/%d", ev.Rule, i+1)
		}
		fillItems(&ev)
		events = append(events, read{ev, d})
	}
	if len(events) == 0 && len(notes) > 0 {
		return nil, nil, errors.New(notes[0])
	}
	if len(events) == 0 {
		if path == "-" {
			path = "standard input"
		}
		return nil, nil, fmt.Errorf("%s: there is no event in it", path)
	}
	return events, notes, nil
}

// watchTypes are the kinds of change as a watch has them.
var watchTypes = map[string]delta.Type{
	"ADDED": delta.Added, "MODIFIED": delta.Updated, "DELETED": delta.Deleted,
}

// watched returns the object of a change as kubectl get --output-watch-events prints it, and the
// kind of change. It returns any other document as it is, and Added.
func (d document) watched() (document, delta.Type) {
	var change struct {
		Type   string
		Object json.RawMessage
	}
	if json.Unmarshal(d.json, &change) == nil && len(change.Object) > 0 {
		if kind, ok := watchTypes[change.Type]; ok {
			d.json = change.Object
			return d, kind
		}
	}
	return d, delta.Added
}

// isMark reports whether a document is a line of a recording, or of a watch, that is no change.
func (d document) isMark() bool {
	var line struct{ Type, Event, Kind string }
	if json.Unmarshal(d.json, &line) != nil || line.Event != "" || line.Kind != "" {
		return false
	}
	return slices.Contains([]string{"RECORDING", "LISTED", "BOOKMARK", "ERROR"}, line.Type)
}

// history has the states of objects that a file has had so far, by kind and key.
type history map[[2]string]*object.Object

// change returns the change that leads to o, and remembers o.
func (h history) change(kind delta.Type, about identity, o *object.Object) (delta.Delta, error) {
	at := [2]string{about.APIVersion + " " + about.Kind, o.Key()}
	d := delta.Delta{Type: kind, Object: o}
	if kind != delta.Added {
		d.Old = h[at]
	}
	if kind == delta.Updated && d.Old == nil {
		return d, fmt.Errorf("%s %s is MODIFIED, and nothing before it has its old state: "+
			"put that before it, as ADDED", about.Kind, o.Key())
	}
	h[at] = o
	return d, nil
}

// object returns the object that a document is, as kubectl prints it; nil if it is none.
func (d document) object() (about identity, o *object.Object) {
	var event struct {
		Event json.RawMessage `json:"event"`
		identity
	}
	if json.Unmarshal(d.json, &event) != nil || len(event.Event) > 0 || event.Kind == "" {
		return about, nil
	}
	o, err := object.FromJSON(d.json)
	if err != nil || o.Name() == "" {
		return about, nil // eventOf says what is wrong
	}
	return event.identity, o
}

// rule returns the first rule of the handler, or one that is made up and has no source.
func (s subject) rule() config.Rule {
	if s.manifests != nil {
		for _, r := range s.manifests.Rules {
			if r.Handler == s.Name {
				return r
			}
		}
	}
	return config.Rule{Name: madeUpRule}
}

const whatIsAnEvent = "An event is what the log builtin writes, informd dead show -o json prints, " +
	"an object as kubectl get -o yaml prints it, or a change as informd record or " +
	"kubectl get --output-watch-events prints it"

// eventOf returns the event that a document is, or that it is about.
func eventOf(d document) (ev handler.Event, err error) {
	var about struct {
		Event json.RawMessage `json:"event"`
		identity
	}
	if err := json.Unmarshal(d.json, &about); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
			field := strings.TrimPrefix(e.Field, "identity.")
			return ev, d.mistake("not an event: its field %q cannot be a %s", field, e.Value)
		}
		return ev, d.mistake("not an event. %s", whatIsAnEvent)
	}
	switch {
	case len(about.Event) > 0 && about.Event[0] == '{': // a dead letter
		d.json = about.Event
		return eventOf(d)
	case len(about.Event) == 0 && about.Kind != "" && about.Metadata.Name != "":
		ev = handler.Event{Event: handler.Added, Resource: about.resource(), Object: d.json}
	default:
		if err := json.Unmarshal(withResource(d.json), &ev); err != nil {
			if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				err = fmt.Errorf("its field %q cannot be a %s", e.Field, e.Value)
			}
			return ev, d.mistake("not an event: %w", err)
		}
		ev.Epoch = handler.Epoch{} // nobody leads here, and handlers refuse older ones
		if ev.Event == "" {
			return ev, d.mistake("not an event: it has no field \"event\". %s", whatIsAnEvent)
		}
		if err := misspelt(d.json, ev); err != nil {
			return ev, d.mistake("not an event: %w", err)
		}
		about = struct {
			Event json.RawMessage `json:"event"`
			identity
		}{}
		if len(ev.Object) > 0 {
			_ = json.Unmarshal(ev.Object, &about) // what is missing stays missing
		}
	}
	fill := func(to *string, from string) {
		if *to == "" {
			*to = from
		}
	}
	if ev.Name == "" {
		fill(&ev.Namespace, about.Metadata.Namespace)
	}
	fill(&ev.Name, about.Metadata.Name)
	fill(&ev.UID, about.Metadata.UID)
	fill(&ev.ResourceVersion, about.Metadata.ResourceVersion)
	if ev.Resource == (handler.Resource{}) && about.Kind != "" {
		ev.Resource = about.resource()
	}
	if ev.Name == "" {
		return ev, d.mistake("not an event: it has no field \"name\"")
	}
	return ev, nil
}

// misspelt returns an error about a name in an event, or in its items, that is probably meant to be
// another. Fields of other names are nobody's: who wrote the event may add some.
func misspelt(text json.RawMessage, ev handler.Event) error {
	kinds := []string{handler.Added, handler.Updated, handler.Deleted, handler.Synced}
	if !slices.Contains(kinds, ev.Event) {
		return fmt.Errorf("its event is %q: want %s", ev.Event, strings.Join(kinds, ", "))
	}
	var is map[string]json.RawMessage
	if err := json.Unmarshal(text, &is); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		isField := func(field string) bool { return strings.EqualFold(field, name) }
		near := nearest.Name(name, eventFields)
		if near != "" && !slices.ContainsFunc(eventFields, isField) {
			return fmt.Errorf("it has no field %q; did you mean %s?", name, near)
		}
	}
	var items []json.RawMessage
	if len(ev.Items) > 0 {
		_ = json.Unmarshal(is["items"], &items) // it was read before
	}
	for i, item := range items {
		if err := misspelt(item, ev.Items[i]); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return nil
}

// eventFields are the names of an event's fields in JSON.
var eventFields = func() (names []string) {
	for field := range reflect.TypeFor[handler.Event]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}()

// fillItems gives each item of an event what it has in common with the event, and an id. The last
// one is the event itself.
func fillItems(ev *handler.Event) {
	for i := range ev.Items {
		item := &ev.Items[i]
		item.Rule, item.Attempt = ev.Rule, ev.Attempt
		if item.Resource == (handler.Resource{}) {
			item.Resource = ev.Resource
		}
		switch {
		case item.ID != "":
		case i == len(ev.Items)-1:
			item.ID = ev.ID
		default:
			item.ID = fmt.Sprintf("%s/%d", ev.ID, i+1)
		}
	}
}

// withResource returns an event whose resource is written as in a Source, such as
// apps/v1/deployments, in the form that events have, and so is that of its items. It returns any
// other text as it is.
func withResource(text json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return text
	}
	var items []json.RawMessage
	if json.Unmarshal(fields["items"], &items) == nil && len(items) > 0 {
		for i := range items {
			items[i] = withResource(items[i])
		}
		fields["items"], _ = json.Marshal(items) // JSON can be written
		text, _ = json.Marshal(fields)
	}
	var resource string
	if json.Unmarshal(fields["resource"], &resource) != nil {
		return text
	}
	parts := strings.Split(resource, "/")
	if len(parts) == 2 {
		parts = append([]string{""}, parts...)
	}
	if len(parts) != 3 {
		return text
	}
	// Strings and JSON can be written, so nothing here fails.
	fields["resource"], _ = json.Marshal(handler.Resource{
		Group: parts[0], Version: parts[1], Resource: parts[2],
	})
	text, _ = json.Marshal(fields)
	return text
}

// identity is what an object says about itself.
type identity struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace, Name, UID, ResourceVersion string
	} `json:"metadata"`
}

// resource guesses the resource from the kind: pods for Pod.
func (i identity) resource() handler.Resource {
	gvr, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(i.APIVersion, i.Kind))
	return handler.Resource{Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource}
}

// madeUpEvent returns an event for the handler: of what its first rule selects, if there is one,
// and otherwise an update of a ConfigMap that does not exist. If the rule has no source, the event
// is that of a moment. The error then says why the rule has none now, and the event holds its object.
func (s subject) madeUpEvent() (handler.Event, error) {
	if s.plan != nil {
		if r, now := s.moment(); r != nil {
			ev, ok, err := s.event(r, now)
			if err != nil || !ok {
				ev = delivery.Event(now, nil, r.Name, handler.Resource(r.Source.Resource), 1)
			}
			switch {
			case err != nil:
				err = fmt.Errorf("rule %s: %w", r.Name, err)
			case !ok:
				err = fmt.Errorf("rule %s has no event now, because its when does not hold: "+
					"give what it looks up, with --cache", r.Name)
			}
			return ev, err
		}
	}
	if r := s.rule(); r.Source != "" {
		for _, source := range s.manifests.Sources {
			if source.Name == r.Source {
				return s.madeUpEventOf(r.Name, source), nil
			}
		}
	}
	object := func(version, value string) json.RawMessage {
		return json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{` +
			`"namespace":"default","name":"made-up","uid":"uid-1","resourceVersion":"` + version +
			`"},"data":{"key":"` + value + `"}}`)
	}
	return handler.Event{
		ID: madeUpRule + "/uid-1/updated/1002", Rule: madeUpRule,
		Event: handler.Updated, Attempt: 1,
		Resource:  handler.Resource{Version: "v1", Resource: "configmaps"},
		Namespace: "default", Name: "made-up", UID: "uid-1", ResourceVersion: "1002",
		Object: object("1002", "2"), Old: object("1001", "1"),
	}, nil
}

// madeUpEventOf returns an event of the first object in the cache that a rule of the handler
// selects, or of one that does not exist, whether a rule selects it or not.
func (s subject) madeUpEventOf(rule string, source config.Source) handler.Event {
	ev := handler.Event{
		Rule: rule, Event: handler.Added, Attempt: 1, Resource: handler.Resource(source.Resource),
		Name: "made-up", UID: "uid-1", ResourceVersion: "1002",
	}
	if len(source.Namespaces) > 0 {
		ev.Namespace = source.Namespaces[0]
	}
	for _, o := range s.cache[source.Name].objects {
		if events, err := s.selected(source.Resource, added(o)); err == nil && len(events) > 0 {
			return events[0]
		}
	}
	metadata := map[string]string{
		"name": ev.Name, "uid": ev.UID, "resourceVersion": ev.ResourceVersion,
	}
	if ev.Namespace != "" {
		metadata["namespace"] = ev.Namespace
	}
	ev.Object, _ = json.Marshal(map[string]any{ // names can be written
		"apiVersion": source.Resource.GroupVersion().String(), "metadata": metadata,
	})
	ev.ID = rule + "/uid-1/added/1002"
	if o, err := object.FromJSON(ev.Object); err == nil {
		if events, err := s.selected(source.Resource, added(o)); err == nil && len(events) > 0 {
			return events[0]
		}
	}
	return ev
}

func added(o *object.Object) delta.Delta { return delta.Delta{Type: delta.Added, Object: o} }
