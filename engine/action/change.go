package action

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// base is the state that a write is computed from. Without uid and version the object did not
// exist.
type base struct {
	seen
	basis basis
	// pinned to the uid, or to existing at all: another object of the same name will not do
	pinned bool
}

// seen is the state of an object in the cluster; zero if it does not exist.
type seen struct{ uid, version string }

// basis says where a base comes from.
type basis uint8

const (
	unread  basis = iota // still to be read; what the action itself demands must hold
	read                 // from reading the object just before
	assumed              // from the event
	asked                // from the action itself
)

// maxTries bounds how often a write is repeated because somebody else changed the object.
const maxTries = 5

// At its applyAnyway'th conflict in a row an apply goes through, because it says only what the rule
// owns of the object. A patch or a deletion is about a state, so a handler must decide again.
const applyAnyway = 3

// change carries out an apply, a patch or a deletion.
func (t *task) change(ctx context.Context, kind kind) (outcome, error) {
	from := t.expected()
	if t.prunes && from.basis != unread { // the event's own object is never pruned
		return outcome{}, handler.Reject(ErrNotOurs)
	}
	if t.judge != nil { // it sees the object before anything is written
		from.basis, from.version = unread, ""
	}
	var o outcome
	var f *failure
	for try := 0; ; try++ {
		if from.basis != unread {
			var there metadata
			o, there, f = t.write(ctx, kind, from)
			if f == nil && t.hasFormer(there) {
				from.seen, from.basis = seen{there.UID, there.ResourceVersion}, read
				o, f = t.release(ctx, kind, from)
			}
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
		// The API server has several ways to say that the base of a write is outdated.
		got, refused := t.get(ctx)
		if refused != nil {
			return t.failed(o, refused)
		}
		if leaves, err := t.judged(ctx, got, from.basis); err != nil {
			return o, err
		} else if leaves {
			o.result = Gone
			return o, nil
		}
		now := seen{got.UID, got.ResourceVersion}
		if from.basis != unread && now == from.seen {
			return t.failed(o, f) // the base was not the reason
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

// expected returns what the action or the event states about the action's base.
func (t task) expected() base {
	a, own := t.action, t.own()
	from := base{
		seen: seen{a.UID, a.ResourceVersion}, basis: unread,
		pinned: a.UID != "" || a.ResourceVersion != "",
	}
	if own {
		from.uid, from.pinned = t.event.UID, true
	}
	switch {
	case from.uid != "" && from.version != "":
		from.basis = asked
	case own:
		from.version, from.basis = *t.latest, assumed
		if from.version == "" {
			version := t.event.ResourceVersion
			from.version = t.writes.onward(t.resource(), t.key(), t.by.Rule, version)
		}
	}
	return from
}

// onto returns the base for the next try, given the object as it is now, which differs from from.
// If the object is gone, there is nothing to write.
func (t task) onto(from base, now seen, try int) (next base, gone bool, err error) {
	there := now != seen{}
	creates := t.action.Verb == handler.ActionApply && t.action.Subresource == ""
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
		return base{}, false, stale("it is no longer at version %s", from.version)
	case try >= maxTries:
		return base{}, false, stale("it keeps changing")
	case from.basis == assumed && now.version == t.expected().version:
		next.basis = assumed // the rule's own changes since then
		return next, false, nil
	case from.basis == assumed:
		n := t.conflicts.another(t.contest())
		if n < applyAnyway || t.action.Verb != handler.ActionApply {
			return base{}, false, stale("it has changed since the event")
		}
	}
	return next, false, nil
}

// get reads the object's metadata, which is empty if the object does not exist.
func (t task) get(ctx context.Context) (metadata, *failure) {
	path := pathOf(t.action.Resource, t.action.Namespace, t.action.Name)
	got, f := t.client.do(ctx, request{method: http.MethodGet, path: path})
	if f != nil && (f.reason == notFound || f.reason == noNamespace) {
		return metadata{}, nil
	}
	return got.meta, f
}

// write makes one request, which the API server performs only if the object matches from.
// there is the object's metadata after it.
func (t task) write(ctx context.Context, kind kind, from base) (o outcome, there metadata, f *failure) {
	r, err := t.request(kind, from.seen)
	if err != nil {
		return o, there, &failure{reason: never, text: err.Error()}
	}
	end := t.writes.Begin(t.resource(), t.key(), t.by.Rule, t.cause)
	var made string
	defer func() { end(from.version, made) }()
	got, f := t.client.do(ctx, r)
	o = outcome{code: got.code, result: Changed, version: got.meta.ResourceVersion}
	if f == nil {
		o.dropped = t.dropped(got.meta)
	}
	switch m := got.meta; {
	case f != nil:
		o.version = ""
	case got.kind == "Status" && r.method == http.MethodDelete:
		// the answer to a deletion that takes effect at once
		made = DeletionOf(cmp.Or(m.UID, from.uid))
	case m.removed(), r.method == http.MethodDelete && m.DeletionTimestamp == nil:
		// some resources answer with the object's last state
		o.result, made = Changed, DeletionOf(cmp.Or(m.UID, from.uid))
	case got.code == http.StatusCreated:
		o.result, made = Created, m.ResourceVersion
	case from.version == "":
		// somebody else created it just before; nobody can tell whether this changed it
	case m.ResourceVersion == from.version:
		o.result = Unchanged
	default:
		made = m.ResourceVersion
	}
	t.tookEffect(from.version, made, got.meta)
	return o, got.meta, f
}

// tookEffect notes that a write has made another version of the object, unless made is empty. there
// is the object's metadata after it. It logs that somebody else reacts to the write again and
// again. What informd's own changes lead to is the Breaker's.
func (t task) tookEffect(from, made string, there metadata) {
	if made == "" || t.cause.Depth > 0 || t.action.Verb == handler.ActionEvent {
		return
	}
	_, onOurs := t.writes.Of(t.resource(), t.key(), from)
	now, other := t.now(), there.lastBeside(FieldManager(t.by.Rule))
	is := t.writes.reversals.note(now, t.by.Rule, t.action, effect{from, made, onOurs, other})
	var message string
	var count []any
	switch {
	case is.isUndone():
		message = "somebody else keeps undoing what the rule writes: another informd, or a controller?"
		count = []any{"times", is.times}
	case is.isInTurns():
		message = "a rule and somebody else change an object in turns: let when skip the other's changes"
		count = []any{"writes", is.turns, "within", turnsWithin, "other", cmp.Or(is.by, "not known")}
	default:
		return
	}
	held, ok := t.undone.Allow(now, t.by.Rule+" "+message)
	if !ok {
		return
	}
	attrs := append([]any{
		"rule", t.by.Rule, "verb", t.action.Verb,
		"resource", object.ResourceName(t.resource()), "key", t.key().String(),
	}, count...)
	t.log.Warn(message, append(attrs, "unreported", held)...)
}

func (t task) request(kind kind, from seen) (r request, err error) {
	a := t.action
	r.query = url.Values{"fieldManager": {FieldManager(t.by.Rule)}, "fieldValidation": {"Strict"}}
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
