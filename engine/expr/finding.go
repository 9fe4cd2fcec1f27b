package expr

import (
	"slices"

	"github.com/informd/informd/engine/expr/value"
)

// search finds objects, without looking at them. It returns nil in the place of nil.
type search func(*run) (*finding, error)

// finding is what a search has found in one evaluation. Each tree that the expression looks at
// counts against the budgets as if the expression had made it. The others cost nothing.
type finding struct {
	Found
	list []any // all trees, once somebody has needed them
}

// searching returns the operand of a search for objects with a shape.
func searching(elem shape, s search) operand {
	return operand{shape: made(elem), search: s, eval: func(r *run) (any, error) {
		f, err := s(r)
		if f == nil || err != nil {
			return nil, err
		}
		return f.all(r)
	}}
}

// each passes the trees to use, one by one, as long as that wants more.
func (f *finding) each(r *run, use func(tree any) (more bool, err error)) error {
	if f.Len == 0 {
		return nil
	}
	for _, tree := range f.list { // has been paid for
		if more, err := use(tree); err != nil || !more {
			return err
		}
	}
	if f.list != nil {
		return nil
	}
	for tree := range f.Trees {
		if err := r.AllocTree(tree); err != nil {
			return err
		}
		if more, err := use(tree); err != nil || !more {
			return err
		}
	}
	return nil
}

// all collects the trees. It fails at once if they are too many for the budgets.
func (f *finding) all(r *run) (any, error) {
	if f.list != nil {
		return f.list, nil
	}
	list, err := f.take(r, f.Len)
	if err != nil {
		return nil, err
	}
	f.list = list
	return list, nil
}

// take collects the first n trees, or fewer if there are no more.
func (f *finding) take(r *run, n int) ([]any, error) {
	if n = min(n, f.Len); n <= 0 {
		return []any{}, nil
	}
	if f.list != nil {
		return f.list[:n:n], nil
	}
	if n > r.Steps { // each takes at least one
		return nil, value.ErrSteps
	}
	if err := r.AllocList(n); err != nil {
		return nil, err
	}
	list := make([]any, 0, n)
	err := f.each(r, func(tree any) (bool, error) {
		list = append(list, tree)
		if _, isMap := tree.(map[string]any); isMap && len(list) == 1 && !r.HasRoomForMaps(n-1) {
			return false, value.ErrMemory // the others are maps, too, because they are read alike
		}
		return len(list) < n, nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// nth returns the tree with an index, or nil if there are not so many.
func (f *finding) nth(r *run, n int64) (v any, err error) {
	if n >= int64(f.Len) {
		return nil, nil
	}
	err = f.each(r, func(tree any) (bool, error) {
		v = tree
		n--
		return n >= 0, nil
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// ofSearches are functions that need not look at everything that a search has found. They get their
// further arguments.
var ofSearches = map[string]func(r *run, f *finding, args []any) (any, error){
	"len":   func(_ *run, f *finding, _ []any) (any, error) { return int64(f.Len), nil },
	"first": func(r *run, f *finding, _ []any) (any, error) { return f.nth(r, 0) },
	"take": func(r *run, f *finding, args []any) (any, error) {
		n, err := value.Count("take", args[0])
		if err != nil {
			return nil, err
		}
		return f.take(r, n)
	},
}

// onSearch compiles such a function.
func onSearch(
	of search, args []eval, apply func(r *run, f *finding, args []any) (any, error),
) eval {
	return func(r *run) (any, error) {
		f, err := of(r)
		if err != nil {
			return nil, err
		}
		return r.call(func(_ *value.Meter, args []any) (any, error) {
			if f == nil || slices.Contains(args, nil) {
				return nil, nil
			}
			return apply(r, f, args)
		}, args)
	}
}
