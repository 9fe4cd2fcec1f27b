package engine

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
)

// runningRule is a rule with what it counts and the lane that it fills.
type runningRule struct {
	*plan.Rule
	reads    *object.Paths
	view     *source.Source
	lane     *dispatch.Lane
	failures *failures
	matches  atomic.Uint64
}

// listeners are the informer's rules as they listen to it. They share what is decoded of an object.
func (e *Engine) listeners(planned *plan.Informer) []source.Listener {
	var listeners []source.Listener
	decoder := object.NewDecoder(planned.Reads)
	for _, r := range e.rules {
		if slices.Contains(planned.Rules, r.Rule) {
			look := &lookup{decoder: decoder, rule: r}
			listeners = append(listeners, source.Listener{Resync: r.Resync, OnDelta: func(d delta.Delta, tree any) {
				if tree != nil {
					decoder.Remember(d.Object, tree)
				}
				r.onDelta(look, d)
			}})
		}
	}
	return listeners
}

// onDelta offers a change to the lane if the rule selects it. It runs in the informer's callback, one delta after the
// other; look decodes for all rules of that informer. Whatever is wrong with the rule or the object ends here.
func (r *runningRule) onDelta(look *lookup, d delta.Delta) {
	defer func() {
		if p := recover(); p != nil {
			r.failures.add(fmt.Errorf("panic: %T", p))
		}
	}()
	match, ok, err := r.Match(d, look)
	r.failures.add(err)
	if ok {
		r.matches.Add(1)
		r.lane.Offer(match)
	}
}

// remerge makes the payload of a change that was merged with what waited. Dispatchers call it, concurrently.
func (r *runningRule) remerge(d delta.Delta) (payload json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %T", p)
		}
		r.failures.add(err)
	}()
	return r.Remerge(d, &lookup{decoder: object.NewDecoder(r.reads), rule: r})
}

// lookup is what a rule sees beside a change.
type lookup struct {
	decoder *object.Decoder
	rule    *runningRule
}

// Tree implements rule.Lookup.
func (l *lookup) Tree(o *object.Object) any { return l.decoder.Tree(o) }

// Now implements rule.Lookup.
func (l *lookup) Now() time.Time { return time.Now() }

// ByIndex implements rule.Lookup.
func (l *lookup) ByIndex(index, value string) iter.Seq[any] {
	return func(yield func(any) bool) {
		objects, err := l.rule.view.ByIndex(index, value)
		if err != nil { // no such index: the expression was compiled with its name
			return
		}
		for _, o := range objects {
			if !yield(o.Decode(l.rule.reads)) {
				return
			}
		}
	}
}

// index makes an index of an expression.
func index(program *expr.Program, failures *failures) source.Index {
	return source.Index{Paths: program.Paths(), Values: func(tree any) []string {
		values, err := program.Strings(&expr.Env{Object: tree})
		failures.add(err)
		return values
	}}
}
