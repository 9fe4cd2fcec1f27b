package action

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/informd/informd/plugins/handler"
)

// create performs a create. An object that exists is fine if the rule created it, because the
// action may be a repeat.
func (t task) create(ctx context.Context, kind kind) (outcome, error) {
	body, err := objectBody(t.action, kind.name, seen{})
	if err != nil {
		return outcome{}, handler.Reject(err)
	}
	o, f := t.post(ctx, t.action, body)
	if f == nil || f.reason != exists {
		return t.posted(o, f)
	}
	there, refused := t.get(ctx)
	switch {
	case refused != nil:
		return t.failed(o, refused)
	case there.UID == "":
		return o, f // it is gone again
	case there.DeletionTimestamp != nil:
		return o, errors.New("an object of the same name is being deleted: " +
			"when that is gone, informd creates this one")
	case !t.created(there):
		return o, handler.Reject(errExists)
	}
	o.result = Unchanged
	return o, nil
}

// errExists is the error of a create of somebody else's object.
var errExists = errors.New("it exists already, and the rule did not create it")

// created reports whether the rule created an object, perhaps under its former name.
func (t task) created(m metadata) bool {
	return slices.ContainsFunc(t.by.managers(), func(name string) bool { return createdBy(m, name) })
}

// createdBy reports whether a field manager created an object. The API server remembers who changed
// what: this manager must be the only one who changed the object when it came into being. Nobody is
// remembered for an object without fields.
func createdBy(m metadata, name string) bool {
	if len(m.ManagedFields) == 0 {
		return true
	}
	ours, others := false, false
	for _, entry := range m.ManagedFields {
		first := entry.Time.Equal(m.CreationTimestamp)
		switch {
		case entry.Manager == name && entry.Operation == "Update" && entry.Subresource == "":
			if first {
				return true
			}
			ours = true
		case first:
			others = true
		}
	}
	return ours && !others
}

// post creates an object with the resource and the name of a.
func (t task) post(ctx context.Context, a handler.Action, body []byte) (outcome, *failure) {
	end := t.writes.Begin(resourceOf(a.Resource), keyOf(a), t.by.Rule, t.cause)
	manager := FieldManager(t.by.Rule)
	got, f := t.client.do(ctx, request{
		method: http.MethodPost, path: pathOf(a.Resource, a.Namespace),
		query:       url.Values{"fieldManager": {manager}, "fieldValidation": {"Strict"}},
		contentType: "application/json", body: body,
	})
	o := outcome{code: got.code}
	if f == nil {
		o.result, o.version = Created, got.meta.ResourceVersion
		t.tookEffect("", o.version, got.meta)
	}
	end("", o.version)
	return o, f
}

// posted returns the outcome of a post that found no such object.
func (t task) posted(o outcome, f *failure) (outcome, error) {
	switch {
	case f == nil:
		return o, nil
	case f.reason == notFound: // something that it needs does not exist
		return o, fmt.Errorf("it cannot be created yet: %w", f)
	}
	return t.failed(o, f)
}
