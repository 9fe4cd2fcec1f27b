package action

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handler"
)

// Preview is what one action would do.
type Preview struct {
	handler.Action // of a prune, one of its deletions
	Result         Result
	Err            error // if the result is Rejected or Failed
	// Diff has the fields that would change, one per line: "+ PATH: VALUE", "- PATH: VALUE" or
	// "~ PATH: OLD → NEW". It is bounded. It has no values if they may quote a Secret.
	Diff []string
}

// Preview finds out what a rule's own actions would change, and changes nothing: the API server
// performs them as a dry run, each on the cluster as it is now. visit is called for each action in
// order, and for each deletion of a prune, and may log what it gets. An action that would fail does
// not stop the others.
func (x *Executor) Preview(
	ctx context.Context, by By, ev *handler.Event, actions []handler.Action, visit func(Preview),
) {
	for i, a := range actions {
		t := task{
			Executor: x, by: by, event: ev, action: a, latest: new(string),
			prunes: isPruned(a, actions),
		}
		if a.Verb == prune {
			x.previewPrune(ctx, t, actions[:i], visit)
			continue
		}
		p := Preview{Action: a}
		var o outcome
		o, p.Diff, p.Err = t.preview(ctx)
		p.Result = o.resultOf(p.Err)
		visit(p)
	}
}

func (x *Executor) previewPrune(
	ctx context.Context, t task, before []handler.Action, visit func(Preview),
) {
	found, o, err := t.superfluous(ctx, appliedBy(before))
	if err != nil && !IsNotServed(err) {
		visit(Preview{Action: t.action, Result: o.resultOf(err), Err: err})
	}
	for _, deletion := range found {
		visit(Preview{Action: deletion, Result: Changed})
	}
}

// preview performs t as a dry run, and returns what it would change.
func (t task) preview(ctx context.Context) (o outcome, diff []string, err error) {
	a := t.action
	if err := t.limits.rates.wait(ctx, t.by); err != nil {
		return o, nil, err
	}
	if a.Verb == handler.ActionEvent {
		return outcome{result: Changed}, nil, nil
	}
	kind, err := t.kind(ctx)
	if err != nil {
		return o, nil, err
	}
	was, err := t.whole(ctx)
	if err != nil {
		return o, nil, err
	}
	isThere, isAnother := was.object != nil, a.UID != "" && a.UID != was.meta.UID
	creates := a.Verb == handler.ActionCreate ||
		a.Verb == handler.ActionApply && a.Subresource == ""
	switch {
	case !isThere && !creates, isThere && isAnother:
		return outcome{result: Gone}, nil, nil
	case t.takesOver(was.meta):
		return o, nil, handler.Reject(ErrNotOurs)
	case a.Verb == handler.ActionDelete:
		return outcome{result: Changed}, nil, nil
	case isThere && a.Verb == handler.ActionCreate && t.created(was.meta):
		return outcome{result: Unchanged}, nil, nil
	case isThere && a.Verb == handler.ActionCreate:
		return o, nil, handler.Reject(errExists)
	}
	if t.hasFormer(was.meta) {
		t.by.Rule = t.by.Former // so that what the rule applies no more goes, as it does in the end
	}
	r, err := t.request(kind, seen{})
	if a.Verb == handler.ActionCreate {
		r.method, r.path = http.MethodPost, pathOf(a.Resource, a.Namespace)
		r.contentType = "application/json"
		r.body, err = objectBody(a, kind.name, seen{})
	}
	if err != nil {
		return o, nil, handler.Reject(err)
	}
	r.query.Set("dryRun", "All")
	r.accept = wholeObject
	is, f := t.client.do(ctx, r)
	if f != nil {
		o, err = t.failed(o, f)
		return o, nil, err
	}
	hides := t.by.Confidential || a.Resource == handler.Resource(object.Secrets)
	diff, err = diffOf(was.object, is.object, hides)
	o.result = Changed
	switch {
	case !isThere:
		o.result = Created
	case len(diff) == 0:
		o.result = Unchanged
	}
	return o, diff, err
}

// whole reads the task's object with its content. The answer is zero if there is none.
func (t task) whole(ctx context.Context) (answer, error) {
	path := pathOf(t.action.Resource, t.action.Namespace, t.action.Name)
	got, f := t.client.do(ctx, request{
		method: http.MethodGet, path: path, query: url.Values{}, accept: wholeObject,
	})
	switch {
	case f == nil:
		return got, nil
	case f.reason == notFound || f.reason == noNamespace:
		return answer{}, nil
	}
	_, err := t.failed(outcome{}, f)
	return answer{}, err
}

const (
	maxDiff  = 64  // lines
	maxValue = 200 // bytes of a value
)

// unshown are the fields of metadata that the API server keeps itself.
var unshown = []string{
	"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid",
}

// diffOf returns the fields in which two states of an object differ. was may be nil.
func diffOf(was, is json.RawMessage, hides bool) (lines []string, err error) {
	var old, now map[string]any
	for _, side := range []struct {
		text json.RawMessage
		to   *map[string]any
	}{{was, &old}, {is, &now}} {
		if side.text == nil {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(side.text))
		decoder.UseNumber()
		if err := decoder.Decode(side.to); err != nil {
			return nil, fmt.Errorf("read the API server's answer: %w", err)
		}
		delete(*side.to, "apiVersion")
		delete(*side.to, "kind")
		if metadata, ok := (*side.to)["metadata"].(map[string]any); ok {
			for _, name := range unshown {
				delete(metadata, name)
			}
		}
	}
	d := differ{hides: hides}
	d.members("", old, now)
	if d.more > 0 {
		d.lines = append(d.lines, fmt.Sprintf("and %d more", d.more))
	}
	return d.lines, nil
}

// differ collects the lines of a diff.
type differ struct {
	hides bool
	lines []string
	more  int // beyond maxDiff
}

func (d *differ) members(path string, was, is map[string]any) {
	names := slices.Sorted(maps.Keys(was))
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, ok := was[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		old, had := was[name]
		now, has := is[name]
		d.value(join(path, name), old, now, had, has)
	}
}

// join appends a member's name to a path, in brackets if it is no plain word.
func join(path, name string) string {
	if strings.ContainsAny(name, "./[]\" ") {
		return path + fmt.Sprintf("[%q]", name)
	}
	return strings.TrimPrefix(path+"."+name, ".")
}

func (d *differ) value(path string, was, is any, had, has bool) {
	oldMembers, wasMap := was.(map[string]any)
	newMembers, isMap := is.(map[string]any)
	oldItems, wasList := was.([]any)
	newItems, isList := is.([]any)
	switch {
	case (wasMap || !had) && (isMap || !has) && len(oldMembers)+len(newMembers) > 0:
		d.members(path, oldMembers, newMembers)
	case wasList && isList:
		for i := range max(len(oldItems), len(newItems)) {
			var old, now any
			if i < len(oldItems) {
				old = oldItems[i]
			}
			if i < len(newItems) {
				now = newItems[i]
			}
			at := fmt.Sprintf("%s[%d]", path, i)
			d.value(at, old, now, i < len(oldItems), i < len(newItems))
		}
	case !had:
		d.line("+ "+path, textOf(is))
	case !has:
		d.line("- "+path, textOf(was))
	case textOf(was) != textOf(is):
		d.line("~ "+path, cut(textOf(was))+" → "+cut(textOf(is)))
	}
}

func (d *differ) line(what, value string) {
	switch {
	case len(d.lines) == maxDiff:
		d.more++
		return
	case !d.hides:
		what += ": " + printable.Cut(value, 2*maxValue)
	}
	d.lines = append(d.lines, what)
}

func textOf(value any) string {
	text, _ := json.Marshal(value) // it was JSON
	return string(text)
}

// cut returns the beginning of a long text.
func cut(s string) string {
	if len(s) > maxValue {
		s = printable.Cut(s, maxValue) + "…"
	}
	return cmp.Or(s, "null")
}
