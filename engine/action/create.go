package action

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/informd/informd/plugins/handler"
)

// create carries out a create. What is there already is fine if the rule created it: the action is being repeated.
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
		return o, f // and is gone again
	case there.DeletionTimestamp != nil:
		return o, errors.New("one of the same name is being deleted: when that is gone, it is created")
	case !createdBy(there, fieldManager(t.by.Rule)):
		return o, handler.Reject(errors.New("it exists already, and the rule did not create it"))
	}
	o.result = Unchanged
	return o, nil
}

// createdBy tells whether a field manager created an object, by what the API server remembers: that it changed the object,
// and no other did when that came into being. Of an object with nothing in it nobody is remembered.
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

// post creates an object of the resource and under the name that a has.
func (t task) post(ctx context.Context, a handler.Action, body []byte) (outcome, *failure) {
	end := t.writes.Begin(resourceOf(a.Resource), keyOf(a), t.by.Rule, t.cause)
	got, f := t.client.do(ctx, request{
		method: http.MethodPost, path: pathOf(a.Resource, a.Namespace),
		query:       url.Values{"fieldManager": {fieldManager(t.by.Rule)}, "fieldValidation": {"Strict"}},
		contentType: "application/json", body: body,
	})
	o := outcome{code: got.code}
	if f == nil {
		o.result, o.version = Created, got.meta.ResourceVersion
	}
	end("", o.version)
	return o, f
}

// posted is what becomes of a post that found nothing there.
func (t task) posted(o outcome, f *failure) (outcome, error) {
	switch {
	case f == nil:
		return o, nil
	case f.reason == notFound: // of whatever it needs to be there
		return o, fmt.Errorf("it cannot be created yet: %w", f)
	}
	return t.failed(o, f)
}
