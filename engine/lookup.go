package engine

import (
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/source"
)

// lookup is what a rule sees beside a change. Rules use one in turn.
type lookup struct {
	decoder, old *object.Decoder
	rule         *runningRule
}

// into is a source that a rule looks into.
type into struct {
	view  *source.Source
	reads *object.Paths
}

// forget lets go of what was decoded.
func (l *lookup) forget() {
	l.decoder.Forget()
	l.old.Forget()
}

// Tree implements rule.Lookup.
func (l *lookup) Tree(o *object.Object) any { return l.decoder.Tree(o) }

// Old implements rule.Lookup.
func (l *lookup) Old(o *object.Object) any { return l.old.Tree(o) }

// Now implements rule.Lookup.
func (l *lookup) Now() time.Time { return time.Now() }

// ByIndex implements expr.Cache.
func (l *lookup) ByIndex(index, value string) iter.Seq[any] {
	return find(into{l.rule.view, l.rule.reads}, index, value, nil)
}

// Lookup implements expr.Cache.
func (l *lookup) Lookup(source, index, value string) iter.Seq[any] {
	return find(l.rule.into[source], index, value, nil)
}

// find yields what an index has, decoded as far as it is read. found, if there is one, is told of each.
func find(in into, index, value string, found *rule.Found) iter.Seq[any] {
	return func(yield func(any) bool) {
		objects, err := in.view.ByIndex(index, value)
		if err != nil { // no such index: the expression was compiled with its name
			return
		}
		for _, o := range objects {
			tree := o.Decode(in.reads)
			if found != nil {
				found.Add(tree, o)
			}
			if !yield(tree) {
				return
			}
		}
	}
}

// attaching is what the attachments of one change see.
type attaching struct {
	rule *runningRule
	rule.Found
}

// Tree implements rule.Lookup.
func (a *attaching) Tree(o *object.Object) any {
	if o == nil {
		return nil
	}
	tree := o.Decode(a.rule.attachReads)
	a.Add(tree, o)
	return tree
}

// Old implements rule.Lookup.
func (a *attaching) Old(o *object.Object) any { return a.Tree(o) }

// Now implements rule.Lookup.
func (a *attaching) Now() time.Time { return time.Now() }

// ByIndex implements expr.Cache.
func (a *attaching) ByIndex(index, value string) iter.Seq[any] {
	return find(into{a.rule.view, a.rule.attachReads}, index, value, &a.Found)
}

// Lookup implements expr.Cache.
func (a *attaching) Lookup(source, index, value string) iter.Seq[any] {
	return find(a.rule.attachInto[source], index, value, &a.Found)
}

// attach makes what is sent along with a change, from the caches as they are now. Dispatchers call it, concurrently.
func (r *runningRule) attach(d delta.Delta) (attached map[string][]json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("attach: panic: %T", p)
		}
		r.failures.add(err)
	}()
	return r.Attach(d, &attaching{rule: r})
}
