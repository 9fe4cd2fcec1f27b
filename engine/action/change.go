package action

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/informd/informd/plugins/handler"
)

// base is what a write is computed from. Without uid and version it is of an object that is not there.
type base struct {
	seen
	basis  basis
	pinned bool // to the uid, or to that it is there: another object of the same name will not do
}

// seen is how an object is in the cluster; zero if it is not.
type seen struct{ uid, version string }

// basis is where a base is from.
type basis uint8

const (
	unread  basis = iota // it is yet to be read; what the action itself says of it is to hold
	read                 // the object was read just before
	assumed              // it is the event's
	asked                // the action itself has it
)

// maxTries is how often a write is made because somebody else changed what it was computed from.
const maxTries = 5

// applyAnyway is the conflict in a row that does not stop an apply, which says of the object only what is to be the rule's
// own. A patch and a deletion are about a state, and are asked for again as long as that is another.
const applyAnyway = 3

// change carries out an apply, a patch or a deletion.
func (t task) change(ctx context.Context, kind kind) (outcome, error) {
	from := t.expected()
	if t.prunes && from.basis != unread { // the event's own object is nobody's to be pruned
		return outcome{}, handler.Reject(errNotOurs)
	}
	var o outcome
	var f *failure
	for try := 0; ; try++ {
		if from.basis != unread {
			o, f = t.write(ctx, kind, from)
			switch {
			case f == nil:
				t.conflicts.over(t.contest())
				if t.own() {
					*t.latest = o.version
				}
				return o, nil
			case !f.contestable():
				return t.failed(o, f)
			}
		}
		// The API server has several ways to say that what a write was computed from is no more.
		got, refused := t.get(ctx)
		if refused != nil {
			return t.failed(o, refused)
		}
		if from.basis == unread && t.takesOver(got) {
			return o, handler.Reject(errNotOurs)
		}
		now := seen{got.UID, got.ResourceVersion}
		if from.basis != unread && now == from.seen {
			return t.failed(o, f) // that was not the reason
		}
		next, gone, err := t.onto(from, now, try)
		if gone {
			o.result = Gone
		}
		if gone || err != nil {
			return o, err
		}
		from = next
	}
}

// expected is what the action is computed from, as far as it or the event tells.
func (t task) expected() base {
	a, own := t.action, t.own()
	from := base{seen: seen{a.UID, a.ResourceVersion}, basis: unread, pinned: a.UID != "" || a.ResourceVersion != ""}
	if own {
		from.uid, from.pinned = t.event.UID, true
	}
	switch {
	case from.uid != "" && from.version != "":
		from.basis = asked
	case own:
		from.version, from.basis = *t.latest, assumed
		if from.version == "" {
			from.version = t.writes.onward(t.resource(), t.key(), t.by.Rule, t.event.ResourceVersion)
		}
	}
	return from
}

// onto is what to compute the write from, the object being as now, which is not as from has it. If the object is gone, there
// is nothing to write.
func (t task) onto(from base, now seen, try int) (next base, gone bool, err error) {
	there, creates := now != seen{}, t.action.Verb == handler.ActionApply && t.action.Subresource == ""
	another := there && from.pinned && from.uid != "" && from.uid != now.uid
	next = base{seen: now, basis: read, pinned: from.pinned}
	switch {
	case !there && (from.pinned || !creates), another:
		return base{}, true, nil
	case from.basis == unread && from.version == "":
		return next, false, nil
	case from.basis == unread && from.version == now.version:
		next.basis = asked
		return next, false, nil
	case from.basis == unread || from.basis == asked:
		return base{}, false, stale("it is not at version %s any more", from.version)
	case try >= maxTries:
		return base{}, false, stale("it changes all the time")
	case from.basis == assumed && now.version == t.expected().version:
		next.basis = assumed // the rule's own changes since
		return next, false, nil
	case from.basis == assumed:
		if n := t.conflicts.another(t.contest()); n < applyAnyway || t.action.Verb != handler.ActionApply {
			return base{}, false, stale("it is not as the event has it any more")
		}
	}
	return next, false, nil
}

// get reads the object's metadata, which is empty if it is not there.
func (t task) get(ctx context.Context) (metadata, *failure) {
	got, f := t.client.do(ctx, request{method: http.MethodGet, path: pathOf(t.action.Resource, t.action.Namespace, t.action.Name)})
	if f != nil && (f.reason == notFound || f.reason == noNamespace) {
		return metadata{}, nil
	}
	return got.meta, f
}

// write makes one request, which the API server does only if the object is as from has it.
func (t task) write(ctx context.Context, kind kind, from base) (outcome, *failure) {
	r, err := t.request(kind, from.seen)
	if err != nil {
		return outcome{}, &failure{reason: never, text: err.Error()}
	}
	end := t.writes.Begin(t.resource(), t.key(), t.by.Rule, t.cause)
	var made string
	defer func() { end(from.version, made) }()
	got, f := t.client.do(ctx, r)
	o := outcome{code: got.code, result: Changed, version: got.meta.ResourceVersion}
	switch m := got.meta; {
	case f != nil:
		o.version = ""
	case got.kind == "Status" && r.method == http.MethodDelete: // what a deletion is answered with that needs nobody else
		made = DeletionOf(cmp.Or(m.UID, from.uid))
	case m.removed(), r.method == http.MethodDelete && m.DeletionTimestamp == nil: // some are answered with what there was
		o.result, made = Changed, DeletionOf(cmp.Or(m.UID, from.uid))
	case got.code == http.StatusCreated:
		o.result, made = Created, m.ResourceVersion
	case from.version == "": // somebody else created it just before; whether this changed it cannot be told
	case m.ResourceVersion == from.version:
		o.result = Unchanged
	default:
		made = m.ResourceVersion
	}
	return o, f
}

func (t task) request(kind kind, from seen) (r request, err error) {
	a := t.action
	r.query = url.Values{"fieldManager": {fieldManager(t.by.Rule)}, "fieldValidation": {"Strict"}}
	r.method, r.path = http.MethodPatch, pathOf(a.Resource, a.Namespace, a.Name, a.Subresource)
	switch a.Verb {
	case handler.ActionDelete:
		r.method, r.query = http.MethodDelete, nil
		r.contentType, r.body = "application/json", deleteBody(from)
	case handler.ActionApply:
		r.query.Set("force", "true")
		r.contentType = "application/apply-patch+yaml"
		r.body, err = objectBody(a, kind.name, from)
	default:
		r.body, r.contentType, err = patchBody(a, from)
	}
	return r, err
}
