package expr

import "github.com/informd/informd/engine/expr/value"

import "github.com/expr-lang/expr/ast"

// predicateCall is one call of a function that evaluates an expression for each element of a list.
type predicateCall struct {
	name string
	body eval // nil: the element itself
	last eval // the third argument, or nil
	pointer
}

// predicate is such a function.
type predicate struct {
	bodyOptional, third bool
	ofNil               any // the result for a list that is nil
	loop                func(p *predicateCall, r *run, list []any) (any, error)
	// ends is for functions that need not look at all elements; they have no loop.
	ends *ending
	// the result's shape; nil: the function makes a new value
	result func(r *reach, elem, body shape) shape
}

var predicates map[string]predicate

func isPredicate(name string) bool {
	_, ok := predicates[name]
	return ok
}

func init() { // in init, because it refers to itself through the compiler
	oneElement := func(_ *reach, elem, _ shape) shape { return elem }
	someElements := func(_ *reach, elem, _ shape) shape { return made(elem) }
	isFound := func(i int, _ any) any { return i >= 0 }
	isNotFound := func(i int, _ any) any { return i < 0 }
	theElement := func(_ int, v any) any { return v }
	groups := func(_ *reach, elem, _ shape) shape { return madeMap(made(elem)) }
	bodies := func(_ *reach, _, body shape) shape { return made(body) }
	predicates = map[string]predicate{
		"any":           {ends: &ending{true, isFound}, ofNil: false},
		"all":           {ends: &ending{false, isNotFound}},
		"none":          {ends: &ending{true, isNotFound}, ofNil: true},
		"one":           {loop: (*predicateCall).one},
		"count":         {loop: (*predicateCall).count, bodyOptional: true},
		"filter":        {loop: (*predicateCall).filter, result: someElements},
		"map":           {loop: (*predicateCall).mapped, result: bodies},
		"find":          {ends: &ending{true, theElement}, result: oneElement},
		"findLast":      {loop: (*predicateCall).findLast, result: oneElement},
		"findIndex":     {ends: &ending{true, indexOrNil}},
		"findLastIndex": {loop: (*predicateCall).findLastIndex},
		"sum":           {loop: (*predicateCall).sum, bodyOptional: true},
		"groupBy":       {loop: (*predicateCall).groupBy, result: groups},
		"sortBy":        {loop: (*predicateCall).sortBy, third: true, result: someElements},
		"reduce":        {loop: (*predicateCall).reduce, third: true},
	}
}

// predicate compiles name(list, body) and name(list, body, last).
func (c *compiler) predicate(at ast.Node, name string, arguments []ast.Node) (operand, error) {
	kind := predicates[name]
	least, most := 2, 2
	if kind.bodyOptional {
		least = 1
	}
	if kind.third {
		most = 3
	}
	if err := c.count(at, name, len(arguments), least, most); err != nil {
		return operand{}, err
	}
	list, err := c.compile(arguments[0])
	if err != nil {
		return operand{}, err
	}
	c.reach.touch(list.shape)
	elem := c.reach.elem(list.shape)

	call := &predicateCall{
		name:    name,
		pointer: pointer{element: c.slot(), index: c.slot(), acc: -1, shape: elem},
	}
	inUse := 2
	if name == "reduce" {
		call.acc, inUse = c.slot(), 3
	}
	body := operand{shape: elem}
	if len(arguments) > 1 {
		node, ok := arguments[1].(*ast.PredicateNode)
		if !ok {
			return operand{}, c.errorf(arguments[1],
				"%s needs an expression as its second argument", name)
		}
		c.pointers = append(c.pointers, &call.pointer)
		if c.sites != nil {
			c.sites.body(node.Node)
		}
		body, err = c.compile(node.Node)
		c.pointers = c.pointers[:len(c.pointers)-1]
		if err != nil {
			return operand{}, err
		}
		call.body = body.eval
		if c.sites != nil {
			call.indexed = true
			call.body = ofElement(body.eval, call.index)
		}
	}
	c.slots -= inUse
	if name == "map" {
		c.reach.touch(body.shape)
	} else {
		c.reach.use(body.shape)
	}
	if len(arguments) > 2 {
		last, err := c.compile(arguments[2])
		if err != nil {
			return operand{}, err
		}
		c.reach.use(last.shape)
		call.last = last.eval
	}
	if name == "reduce" && call.last == nil { // reduce starts with the first element
		c.reach.use(elem)
	}
	out := operand{eval: func(r *run) (any, error) {
		if kind.ends != nil && list.search != nil {
			f, err := list.search(r)
			if err != nil {
				return nil, err
			}
			if err := r.Step(); err != nil {
				return nil, err
			}
			if f == nil {
				return kind.ofNil, nil
			}
			return kind.ends.ofSearch(call, r, f)
		}
		v, err := list.eval(r)
		if err != nil {
			return nil, err
		}
		if err := r.Step(); err != nil {
			return nil, err
		}
		switch list := v.(type) {
		case []any:
			if kind.ends != nil {
				return kind.ends.ofList(call, r, list)
			}
			return kind.loop(call, r, list)
		case nil:
			return kind.ofNil, nil
		}
		return nil, value.Errorf("%q needs a list, not %s", name, value.Some(v))
	}}
	if kind.result != nil {
		out.shape = kind.result(&c.reach, elem, body.shape)
	}
	return out, nil
}
