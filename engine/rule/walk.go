package rule

import (
	"errors"
	"fmt"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/plugins/handler"
)

// bounds are the bounds of one Piece.
type bounds struct {
	actions int
	bytes   int // JSON and names together; one action may exceed it alone
	// budget is what the expressions may take. A piece ends early once they have taken half of it.
	// So every element has at least the other half, and a list of any length has enough.
	budget expr.Budget
}

var ofPiece = bounds{
	actions: 64, bytes: 1 << 20,
	budget: expr.Budget{Steps: actionSteps, Memory: actionMemory},
}

// Piece holds some of the actions that one template makes for a change. They are independent of
// each other.
type Piece struct {
	Label string // of the template
	// Actions may be empty: the template's if may leave out all the elements of a piece.
	Actions []handler.Action
	Size    int  // of the actions, in bytes of JSON and names
	Ends    bool // it is the template's last piece
}

// Walker evaluates the actions for one change, piece by piece and as often as its caller wants. It
// is not safe for concurrent use.
//
// All walks see the same time and the same lists: the Walker keeps what the searches in a forEach
// have found. Searches in an if or a template look into the caches as they are at that moment.
type Walker struct {
	actions *Actions
	change  delta.Delta
	env     expr.Env
	lists   expr.Cache // that a forEach searches
	most    bounds     // of a piece
	// isWhole makes all pieces share one budget and the bound on one action: see Evaluate.
	isWhole bool
}

// Walker returns a Walker for a change. items is what [Items] stands for: nil unless the rule has
// Group.
func (a *Actions) Walker(d delta.Delta, items any, look Lookup) *Walker {
	w := &Walker{
		actions: a, change: d, env: environment(d, look, a.IsScheduled), most: ofPiece,
		lists: &snapshot{cache: look, found: make(map[searched]expr.Found)},
	}
	if items != nil {
		w.env.Given = map[string]any{Items: items}
	}
	return w
}

// Walk evaluates the actions of the templates for which of returns true; if of is nil, those of all
// templates. The actions come in the order of the manifest, and those of a forEach in the order of
// its list. Walk calls visit with each piece as soon as it is complete. A template that makes no
// action may have no piece. visit may keep the actions, and may start another walk.
//
// A piece has at most 64 actions and 1 MiB, or one action of at most maxActionBytes. Walk holds one
// piece and one action at a time. If each forEach is one search, there may be any number of pieces:
// see [expr.Program.Each].
//
// Walk stops at an error of visit and returns it unchanged. If an expression fails, Walk returns an
// error that says where it happened, and never holds contents of objects: see also [ElementOf]. By
// then, visit may have seen earlier pieces.
func (w *Walker) Walk(of func(*ActionTemplate) bool, visit func(Piece) error) error {
	e := w.begin(w.env, of, visit)
	err := e.all()
	if err == nil || e.isStopped {
		return err
	}
	return past(err, w.change, w.env, func(env *expr.Env) error {
		return w.begin(*env, of, func(Piece) error { return nil }).all()
	})
}

// begin returns the evaluation of one walk.
func (w *Walker) begin(
	env expr.Env, of func(*ActionTemplate) bool, visit func(Piece) error,
) *evaluation {
	e := &evaluation{
		walker: w, env: env, of: of, visit: visit, budget: w.most.budget, room: maxActionBytes,
	}
	e.env.Budget = &e.budget
	return e
}

// evaluation is one walk.
type evaluation struct {
	walker    *Walker
	env       expr.Env
	of        func(*ActionTemplate) bool
	visit     func(Piece) error
	isStopped bool // visit has returned an error

	budget  expr.Budget // what is left of it
	isSpent bool        // half of the budget was taken, so the piece ends with the current element
	room    int         // bytes that are left for the current action; for all if isWhole is set

	piece   Piece // the current one
	pieces  int   // how many of the current template have been visited
	element int   // the current one of the template's list, or -1
}

// all evaluates the templates.
func (e *evaluation) all() error {
	actions := e.walker.actions
	for i := range actions.Each {
		t := &actions.Each[i]
		if !actions.AsksFor(t, e.walker.change.Type) || e.of != nil && !e.of(t) {
			continue
		}
		e.piece, e.pieces, e.element, e.env.Item = Piece{Label: t.Label}, 0, -1, nil
		e.renew()
		err := e.each(t)
		switch {
		case err == nil && (len(e.piece.Actions) > 0 || e.pieces > 0):
			err = e.cut(true)
		case err != nil && !e.isStopped:
			err = at(t.Label, err)
			if e.element >= 0 {
				err = &elementError{err, e.element}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each evaluates one template.
func (e *evaluation) each(t *ActionTemplate) error {
	if t.ForEach == nil {
		return e.one(t)
	}
	list := e.env
	list.Cache = e.walker.lists
	n, failed := 0, false
	err := t.ForEach.Each(&list, func(item any) error {
		e.element, e.env.Item = n, item
		err := e.next(t)
		e.element, failed = -1, err != nil
		n++
		return err
	})
	switch {
	case failed:
		e.element = n - 1
	case err != nil:
		err = at("forEach", err)
	}
	return err
}

// next evaluates a template for the next element of its list.
func (e *evaluation) next(t *ActionTemplate) error {
	if e.isSpent {
		if err := e.cut(false); err != nil {
			return err
		}
	}
	if err := e.one(t); err != nil {
		return err
	}
	all := e.walker.most.budget
	if e.budget.Steps < all.Steps/2 || e.budget.Memory < all.Memory/2 {
		e.renew()
		e.isSpent = !e.walker.isWhole
	}
	return nil
}

// add adds an action to the current piece, or to a new one if it does not fit. size is how many
// bytes of JSON and names it has.
func (e *evaluation) add(a handler.Action, size int) error {
	most, n := e.walker.most, len(e.piece.Actions)
	if n == most.actions || n > 0 && e.piece.Size+size > most.bytes {
		if err := e.cut(false); err != nil {
			return err
		}
	}
	e.piece.Actions, e.piece.Size = append(e.piece.Actions, a), e.piece.Size+size
	return nil
}

// cut has the current piece visited, and begins a new one.
func (e *evaluation) cut(ends bool) error {
	done := e.piece
	done.Ends = ends
	e.piece = Piece{Label: done.Label}
	e.pieces++
	e.renew()
	err := e.visit(done)
	e.isStopped = err != nil
	return err
}

// renew gives the expressions a new budget, unless all pieces share one.
func (e *evaluation) renew() {
	e.isSpent = false
	if !e.walker.isWhole {
		e.budget = e.walker.most.budget
	}
}

var errLargeAction = fmt.Errorf("the action exceeds %d MiB", maxActionBytes>>20)

// elementError is a failure for one element of a forEach. Its text is that of the failure, so that
// failures for other elements have the same.
type elementError struct {
	error
	element int
}

func (e *elementError) Unwrap() error { return e.error }

// ElementOf returns for which element of its forEach an action could not be evaluated, counted from
// 0. ok is false if the error is not about one element.
func ElementOf(err error) (n int, ok bool) {
	if e, ok := errors.AsType[*elementError](err); ok {
		return e.element, true
	}
	return 0, false
}

// snapshot is a cache that does not change: each search finds what it has found the first time. It
// keeps no decoded objects, unless its cache does.
type snapshot struct {
	cache expr.Cache
	found map[searched]expr.Found
}

// searched is what a search was for. The source of byIndex is "".
type searched struct{ source, index, value string }

// ByIndex implements expr.Cache.
func (s *snapshot) ByIndex(index, value string) expr.Found {
	return s.once(searched{"", index, value}, func() expr.Found { return s.cache.ByIndex(index, value) })
}

// Lookup implements expr.Cache.
func (s *snapshot) Lookup(source, index, value string) expr.Found {
	return s.once(searched{source, index, value}, func() expr.Found {
		return s.cache.Lookup(source, index, value)
	})
}

func (s *snapshot) once(by searched, search func() expr.Found) expr.Found {
	found, ok := s.found[by]
	if !ok {
		found = search()
		s.found[by] = found
	}
	return found
}
