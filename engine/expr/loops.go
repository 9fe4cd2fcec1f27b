package expr

import (
	"slices"

	"github.com/informd/informd/engine/expr/value"
)

// at evaluates the body for the i'th element.
func (p *predicateCall) at(r *run, list []any, i int) (any, error) {
	if err := r.Step(); err != nil {
		return nil, err
	}
	if p.body == nil {
		return list[i], nil
	}
	r.slots[p.element] = list[i]
	if p.indexed {
		r.slots[p.index] = int64(i)
	}
	return p.body(r)
}

// holds evaluates the body as a condition.
func (p *predicateCall) holds(r *run, list []any, i int) (bool, error) {
	v, err := p.at(r, list, i)
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

// first returns the index of the first element for which the body is want, or -1.
func (p *predicateCall) first(r *run, list []any, want bool) (int, error) {
	for i := range list {
		if ok, err := p.holds(r, list, i); err != nil || ok == want {
			return i, err
		}
	}
	return -1, nil
}

func (p *predicateCall) lastHolding(r *run, list []any) (int, error) {
	for i := range slices.Backward(list) {
		if ok, err := p.holds(r, list, i); err != nil || ok {
			return i, err
		}
	}
	return -1, nil
}

func (p *predicateCall) any(r *run, list []any) (any, error) {
	i, err := p.first(r, list, true)
	return i >= 0, err
}

func (p *predicateCall) all(r *run, list []any) (any, error) {
	i, err := p.first(r, list, false)
	return i < 0, err
}

func (p *predicateCall) none(r *run, list []any) (any, error) {
	i, err := p.first(r, list, true)
	return i < 0, err
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
	for i := range list {
		ok, err := p.holds(r, list, i)
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
		ok, err := p.holds(r, list, i)
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
	for i := range list {
		v, err := p.at(r, list, i)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (p *predicateCall) find(r *run, list []any) (any, error) {
	i, err := p.first(r, list, true)
	if i < 0 || err != nil {
		return nil, err
	}
	return list[i], nil
}

func (p *predicateCall) findLast(r *run, list []any) (any, error) {
	i, err := p.lastHolding(r, list)
	if i < 0 || err != nil {
		return nil, err
	}
	return list[i], nil
}

func (p *predicateCall) findIndex(r *run, list []any) (any, error) {
	return indexOrNil(p.first(r, list, true))
}

func (p *predicateCall) findLastIndex(r *run, list []any) (any, error) {
	return indexOrNil(p.lastHolding(r, list))
}

func indexOrNil(i int, err error) (any, error) {
	if i < 0 || err != nil {
		return nil, err
	}
	return int64(i), nil
}

// sum skips nils. The sum of nothing is 0.
func (p *predicateCall) sum(r *run, list []any) (any, error) {
	var sum any
	for i := range list {
		v, err := p.at(r, list, i)
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
		k, err := p.at(r, list, i)
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
		v, err := p.at(r, list, i)
		if err != nil {
			return nil, err
		}
		acc = v
	}
	return acc, nil
}
