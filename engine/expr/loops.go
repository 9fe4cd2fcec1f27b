package expr

import (
	"slices"

	"github.com/informd/informd/engine/expr/value"
)

// at evaluates the body for v, which is the i'th element.
func (p *predicateCall) at(r *run, i int, v any) (any, error) {
	if err := r.Step(); err != nil {
		return nil, err
	}
	if p.body == nil {
		return v, nil
	}
	r.slots[p.element] = v
	if p.indexed {
		r.slots[p.index] = int64(i)
	}
	return p.body(r)
}

// holds evaluates the body as a condition.
func (p *predicateCall) holds(r *run, i int, v any) (bool, error) {
	v, err := p.at(r, i, v)
	if err != nil {
		return false, err
	}
	ok, err := value.Truth(v)
	if err != nil {
		return false, value.Errorf("the condition of %q must be true or false, not %s",
			p.name, value.Some(v))
	}
	return ok, nil
}

// ending says how a function works that ends with the first element for which the body is on. gives
// makes the result of that element and its index, or of nil and -1.
type ending struct {
	on    bool
	gives func(i int, v any) any
}

func (e *ending) ofList(p *predicateCall, r *run, list []any) (any, error) {
	for i, v := range list {
		if ok, err := p.holds(r, i, v); err != nil {
			return nil, err
		} else if ok == e.on {
			return e.gives(i, v), nil
		}
	}
	return e.gives(-1, nil), nil
}

// ofSearch does not look at what lies behind the element.
func (e *ending) ofSearch(p *predicateCall, r *run, f *finding) (any, error) {
	at, last := -1, any(nil)
	i := 0
	err := f.each(r, func(v any) (more bool, err error) {
		ok, err := p.holds(r, i, v)
		if ok == e.on {
			at, last = i, v
		}
		i++
		return at < 0, err
	})
	if err != nil {
		return nil, err
	}
	return e.gives(at, last), nil
}

func (p *predicateCall) lastHolding(r *run, list []any) (int, error) {
	for i, v := range slices.Backward(list) {
		if ok, err := p.holds(r, i, v); err != nil || ok {
			return i, err
		}
	}
	return -1, nil
}

func (p *predicateCall) one(r *run, list []any) (any, error) {
	n, err := p.number(r, list)
	return n == 1, err
}

func (p *predicateCall) count(r *run, list []any) (any, error) {
	n, err := p.number(r, list)
	return n, err
}

func (p *predicateCall) number(r *run, list []any) (n int64, err error) {
	for i, v := range list {
		ok, err := p.holds(r, i, v)
		if err != nil {
			return 0, err
		}
		if ok {
			n++
		}
	}
	return n, nil
}

func (p *predicateCall) filter(r *run, list []any) (any, error) {
	out := []any{}
	for i, v := range list {
		ok, err := p.holds(r, i, v)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if err := r.Alloc(2 * value.SizeValue); err != nil { // twice, because append doubles
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (p *predicateCall) mapped(r *run, list []any) (any, error) {
	if err := r.AllocList(len(list)); err != nil {
		return nil, err
	}
	out := make([]any, len(list))
	for i, v := range list {
		v, err := p.at(r, i, v)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (p *predicateCall) findLast(r *run, list []any) (any, error) {
	i, err := p.lastHolding(r, list)
	if i < 0 || err != nil {
		return nil, err
	}
	return list[i], nil
}

func (p *predicateCall) findLastIndex(r *run, list []any) (any, error) {
	i, err := p.lastHolding(r, list)
	return indexOrNil(i, nil), err
}

func indexOrNil(i int, _ any) any {
	if i < 0 {
		return nil
	}
	return int64(i)
}

// sum skips nils. The sum of nothing is 0.
func (p *predicateCall) sum(r *run, list []any) (any, error) {
	var sum any
	for i, v := range list {
		v, err := p.at(r, i, v)
		if err != nil {
			return nil, err
		}
		switch {
		case v == nil:
		case !value.CanSum(v):
			return nil, value.WrongArgument("sum", v)
		case sum == nil:
			sum = v
		default:
			if sum, err = r.Add(sum, v); err != nil {
				return nil, err
			}
		}
	}
	if sum == nil {
		return int64(0), nil
	}
	return sum, nil
}

// groupBy makes a map from each value of the body to the elements that have it. It skips elements
// for which the body is nil.
func (p *predicateCall) groupBy(r *run, list []any) (any, error) {
	groups := make(map[string]any)
	if err := r.AllocMap(0); err != nil {
		return nil, err
	}
	for i, v := range list {
		k, err := p.at(r, i, v)
		if err != nil {
			return nil, err
		}
		if k == nil {
			continue
		}
		key, err := r.Text("groupBy", k)
		if err != nil {
			return nil, err
		}
		group, ok := groups[key].([]any)
		if !ok {
			if err := r.Alloc(2 * value.SizeEntry); err != nil {
				return nil, err
			}
		}
		if err := r.Alloc(4 * value.SizeValue); err != nil {
			// append doubles, and the list is boxed again
			return nil, err
		}
		groups[key] = append(group, v)
	}
	return groups, nil
}

// sortBy is stable.
func (p *predicateCall) sortBy(r *run, list []any) (any, error) {
	order := any("asc")
	if p.last != nil {
		var err error
		if order, err = p.last(r); err != nil {
			return nil, err
		}
	}
	keys, err := p.mapped(r, list)
	if err != nil {
		return nil, err
	}
	return r.Sorted("sortBy", list, keys.([]any), order)
}

// reduce starts with its third argument, or else with the first element.
func (p *predicateCall) reduce(r *run, list []any) (any, error) {
	var acc any
	start := 0
	switch {
	case p.last != nil:
		var err error
		if acc, err = p.last(r); err != nil {
			return nil, err
		}
	case len(list) == 0:
		return nil, nil
	default:
		acc, start = list[0], 1
	}
	for i := start; i < len(list); i++ {
		r.slots[p.acc] = acc
		v, err := p.at(r, i, list[i])
		if err != nil {
			return nil, err
		}
		acc = v
	}
	return acc, nil
}
