package expr

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/expr/value"
)

// Part is a part of a text, with what one evaluation made of it.
type Part struct {
	Offset int    // where it begins, in bytes from the start of the text
	Text   string // the part, as the parser writes it
	// Evaluated is false if the evaluation did not need the part.
	Evaluated bool
	Value     any   // as Program.Value returns it; nil if Err is set
	Err       error // why the part, or a part of it, has no value
	Element   int   // the element of a list for which it was evaluated, or -1
	Parts     []Part
	// More is how many further elements the part was evaluated for, that Parts leaves out. MoreTrue
	// is for how many of them the condition was true.
	More, MoreTrue int
}

// These bound what Trace keeps. Evaluations go on beyond them.
const (
	maxElements = 10   // of one list
	maxTraced   = 2000 // evaluations of parts
)

// Trace evaluates like Value, and returns the values of the parts as well. Constants, object and
// old are no parts. The program must have been compiled with Options.Trace. The error is that of
// the whole text; Part.Err has the same.
func (p *Program) Trace(env *Env) (whole Part, err error) {
	t := &tracing{element: -1, left: maxTraced}
	traced := *env
	traced.tracing = t
	root := new(step)
	t.current = root
	v, err := p.Value(&traced)
	if len(root.steps) > 0 {
		whole = root.steps[0].part()
	} else { // a constant
		whole = Part{Text: p.text, Evaluated: true, Element: -1}
	}
	whole.Value, whole.Err = v, err
	return whole, err
}

// Traced returns a program that Trace takes. It evaluates alike. p must come from Compile.
func (p *Program) Traced() *Program {
	o := p.options
	o.Trace, o.Branch = true, nil
	traced, err := Compile(p.text, o)
	if err != nil {
		return nil // cannot happen: it was compiled before
	}
	return traced
}

// site is a node of the syntax tree that is traced.
type site struct {
	offset int
	text   string
	within []*site
}

// step is one evaluation of a site.
type step struct {
	site           *site
	value          any
	err            error
	element        int
	steps          []*step
	more, moreTrue int
}

// tracing is the trace of one evaluation.
type tracing struct {
	current *step
	element int // for which the next step is evaluated, or -1
	left    int // how many more steps it keeps
}

// sites finds the parts of a text while it is compiled.
type sites struct {
	of     map[ast.Node]*site
	hidden map[ast.Node]bool // the beginnings of paths
	bodies map[ast.Node]bool // what is traced whatever it is
	within *site
}

func newSites() *sites {
	return &sites{
		of: make(map[ast.Node]*site), hidden: make(map[ast.Node]bool),
		bodies: make(map[ast.Node]bool), within: new(site),
	}
}

// body makes a node a part of its own, whatever it is.
func (s *sites) body(node ast.Node) { s.bodies[unchained(node)] = true }

func unchained(node ast.Node) ast.Node {
	for {
		chain, ok := node.(*ast.ChainNode)
		if !ok {
			return node
		}
		node = chain.Node
	}
}

func (s *sites) isPart(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.MemberNode:
		for base := unchained(n.Node); base != nil; {
			switch b := base.(type) {
			case *ast.MemberNode:
				s.hidden[b] = true
				base = unchained(b.Node)
				continue
			case *ast.IdentifierNode, *ast.PointerNode:
				s.hidden[b] = true
			}
			break
		}
	case *ast.IdentifierNode:
		if n.Value == "object" || n.Value == "old" {
			return s.bodies[node]
		}
	case *ast.UnaryNode, *ast.BinaryNode, *ast.ConditionalNode, *ast.CallNode, *ast.BuiltinNode,
		*ast.SliceNode, *ast.PointerNode:
	default:
		return s.bodies[node]
	}
	return !s.hidden[node] || s.bodies[node]
}

// compileTraced compiles a node so that evaluations with an Env.tracing note its values.
func (c *compiler) compileTraced(node ast.Node) (operand, error) {
	if !c.sites.isPart(node) {
		return c.compileNew(node)
	}
	around := c.sites.within
	at := &site{
		offset: value.RuneOffset(c.text, beginning(node).Location().From), text: node.String(),
	}
	c.sites.within = at
	o, err := c.compileNew(node)
	c.sites.within = around
	if err != nil || o.constant {
		return o, err
	}
	c.sites.of[node] = at
	o.eval = traced(at, o.eval)
	if o.search != nil {
		o.search = tracedSearch(at, o.search)
	}
	return o, nil
}

// mentions notes that the part which is being compiled has a compiled node in it.
func (s *sites) mentions(node ast.Node) {
	at := s.of[unchained(node)]
	if at != nil && !slices.Contains(s.within.within, at) {
		s.within.within = append(s.within.within, at)
	}
}

func traced(at *site, e eval) eval {
	return func(r *run) (any, error) {
		t := r.env.tracing
		if t == nil {
			return e(r)
		}
		around := t.current
		s := &step{site: at, element: t.element}
		t.current, t.element = s, -1
		s.value, s.err = e(r)
		t.current = around
		if around.keeps(s) {
			if t.left > 0 {
				around.steps = append(around.steps, s)
			} else {
				around.leaveOut(s)
			}
			t.left--
		}
		return s.value, s.err
	}
}

// tracedSearch is traced for a search. Its value is what was found, or how much if that is too much
// to show.
func tracedSearch(at *site, s search) search {
	return func(r *run) (f *finding, err error) {
		_, err = traced(at, func(r *run) (any, error) {
			if f, err = s(r); f == nil || err != nil || r.env.tracing == nil {
				return nil, err
			}
			left := r.Meter
			defer func() { r.Meter = left }()
			r.Meter = value.Meter{Steps: MaxSteps, Bytes: MaxMemory}
			if list, err := f.take(r, f.Len); err == nil {
				return list, nil
			}
			return fmt.Sprintf("%d objects", f.Len), nil
		})(r)
		return f, err
	}
}

// keeps reports whether s is to be one of the steps within around. It counts those that are not.
func (around *step) keeps(s *step) bool {
	if s.element < 0 {
		return true
	}
	elements := 0
	for _, other := range around.steps {
		if other.element >= 0 {
			elements++
		}
	}
	if elements < maxElements {
		return true
	}
	around.leaveOut(s)
	return false
}

func (around *step) leaveOut(s *step) {
	around.more++
	if s.value == true {
		around.moreTrue++
	}
}

// ofElement makes a body note the element that it is evaluated for. index is the slot that has it.
func ofElement(body eval, index int) eval {
	return func(r *run) (any, error) {
		if t := r.env.tracing; t != nil {
			t.element = int(r.slots[index].(int64))
			defer func() { t.element = -1 }() // a constant has not taken it
		}
		return body(r)
	}
}

// part returns a step, with the parts that it did not need, in the order of the text.
func (s *step) part() Part {
	p := Part{
		Offset: s.site.offset, Text: s.site.text, Evaluated: true, Err: s.err, Element: s.element,
		More: s.more, MoreTrue: s.moreTrue,
	}
	if s.err == nil {
		meter := value.Meter{Steps: MaxSteps, Bytes: MaxMemory}
		p.Value, p.Err = meter.Encodable(s.value)
	}
	for _, at := range s.site.within {
		known := len(p.Parts)
		for _, inner := range s.steps {
			if inner.site == at {
				p.Parts = append(p.Parts, inner.part())
			}
		}
		found := p.Parts[known:]
		slices.SortStableFunc(found, func(a, b Part) int { return cmp.Compare(a.Element, b.Element) })
		if len(found) == 0 {
			p.Parts = append(p.Parts, Part{Offset: at.offset, Text: at.text, Element: -1})
		}
	}
	return p
}
