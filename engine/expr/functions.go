package expr

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/expr/value"
)

func isFunction(name string) bool {
	_, ok := value.Functions[name]
	return ok || isPredicate(name) || name == "now" || name == "moment" || name == "byIndex" || name == "lookup"
}

func functionNames() []string {
	names := []string{"now", "moment", "byIndex", "lookup"}
	names = slices.AppendSeq(names, maps.Keys(value.Functions))
	return slices.AppendSeq(names, maps.Keys(predicates))
}

// absent are functions that expr-lang has and this package does not, with what to use instead.
var absent = map[string]string{
	"date":     "use time(…), which reads RFC 3339",
	"timezone": "times are in UTC",
	"size":     "use len(…)",
	"has":      "compare with nil: object.spec.x != nil",

	"bitand": "", "bitor": "", "bitxor": "", "bitnand": "", "bitnot": "",
	"bitshl": "", "bitshr": "", "bitushr": "",
}

// call compiles f(x) and x.f().
func (c *compiler) call(n *ast.CallNode) (operand, error) {
	switch callee := n.Callee.(type) {
	case *ast.IdentifierNode:
		return c.function(n, callee.Value, n.Arguments)
	case *ast.MemberNode:
		if name, ok := callee.Property.(*ast.StringNode); ok {
			return c.method(n, name.Value, callee.Node)
		}
	}
	return operand{}, c.errorf(n, "this cannot be called")
}

// operatorLike are methods of other languages that are operators here.
var operatorLike = map[string]string{
	"startsWith": "startsWith", "endsWith": "endsWith", "matches": "matches",
	"contains": "contains", "includes": "contains",
}

// isNamedLikeSeveral reports whether a node is a field whose name says that it is a list or a map.
func isNamedLikeSeveral(n ast.Node) bool {
	name := property(unchained(n))
	return slices.Contains(namesAreFree, name) || strings.HasSuffix(name, "s") &&
		!strings.HasSuffix(name, "ss") && !strings.HasSuffix(name, "us")
}

// method compiles x.name().
func (c *compiler) method(n *ast.CallNode, name string, of ast.Node) (operand, error) {
	get, ok := value.Methods[name]
	if !ok {
		if isFunction(name) {
			if example, ok := namesElements[name]; ok {
				return c.unknownName(n, "%s is a function; write %s(%s)", name, name, example)
			}
			return c.unknownName(n, "%s is a function; write %s(x) or x | %s()",
				name, name, name)
		}
		if operator, ok := operatorLike[name]; ok {
			if operator == "contains" && isNamedLikeSeveral(of) {
				return c.unknownName(n, "there is no method %s; write y in x", name)
			}
			return c.unknownName(n, "there is no method %s; write x %s y", name, operator)
		}
		if instead, ok := otherMethods[name]; ok {
			return c.unknownName(n, "there is no method %s; %s", name, instead)
		}
		return c.unknownName(n, "unknown method %q", clip(name))
	}
	if len(n.Arguments) > 0 {
		return operand{}, c.errorf(n, "%s takes no arguments", name)
	}
	x, err := c.compile(of)
	if err != nil {
		return operand{}, err
	}
	c.reach.use(x.shape)
	return c.fold(n, func(r *run) (any, error) {
		v, err := x.eval(r)
		if err != nil || v == nil {
			return nil, err
		}
		if err := r.Step(); err != nil {
			return nil, err
		}
		out, ok := get(v)
		if !ok {
			return nil, value.Errorf("%s has no method %q", value.Some(v), name)
		}
		return out, nil
	}, x)
}

func (c *compiler) function(at ast.Node, name string, arguments []ast.Node) (operand, error) {
	switch {
	case isPredicate(name):
		return c.predicate(at, name, arguments)
	case name == "now", name == "moment":
		return c.now(at, name, arguments)
	case name == "byIndex":
		return c.byIndex(at, arguments)
	case name == "lookup":
		return c.lookup(at, arguments)
	}
	f, ok := value.Functions[name]
	if !ok {
		if instead, ok := absent[name]; ok {
			if instead == "" {
				instead = "there is nothing in its place"
			}
			return c.unknownName(at, "there is no function %s; %s", name, instead)
		}
		if instead, ok := otherFunctions[name]; ok {
			return c.unknownName(at, "there is no function %s; %s", name, instead)
		}
		return c.unknownName(at, "unknown function %q%s",
			clip(name), suggest(name, functionNames()))
	}
	if err := c.count(at, name, len(arguments), f.Min, f.Max); err != nil {
		return operand{}, err
	}
	args, err := c.compileAll(arguments)
	if err != nil {
		return operand{}, err
	}
	// get with a constant key is a member
	if key, ok := constantKey(name, args); ok {
		s := c.reach.member(args[0].shape, key)
		e := args[0].eval
		return operand{shape: s, eval: func(r *run) (any, error) {
			v, err := e(r)
			if err != nil {
				return nil, err
			}
			if err := r.Step(); err != nil {
				return nil, err
			}
			return value.Fetch(v, key)
		}}, nil
	}
	shapes := make([]shape, len(args))
	for i, arg := range args {
		shapes[i] = arg.shape
	}
	var out shape
	if reads := functionReads[name]; reads != nil {
		out = reads(&c.reach, shapes)
	} else {
		for _, s := range shapes {
			c.reach.use(s)
		}
	}
	if how := unitExamples[name]; how != "" && args[0].constant {
		if text, ok := args[0].value.(string); ok && c.cannotRead(f, text) {
			if instead := c.readable(f, name, text); instead != "" {
				how = instead
			} else {
				how = "one such as " + how
			}
			return operand{}, c.errorf(arguments[0], "%q is no %s: write %s", clip(text), name, how)
		}
	}
	evals := evalsOf(args)
	if apply := ofSearches[name]; apply != nil && args[0].search != nil {
		return operand{shape: out, eval: onSearch(args[0].search, evals[1:], apply)}, nil
	}
	o, err := c.fold(at, func(r *run) (any, error) { return r.call(f.Call, evals) }, args...)
	o.shape = out
	return o, err
}

// unitExamples holds an example of each kind of text that functions parse.
var unitExamples = map[string]string{
	"duration": `"10m", "1h30m" or "24h"`, "time": `"2030-01-31T08:00:00Z"`,
	"quantity": `"500m" or "1Gi"`,
}

// cannotRead reports whether a function fails for a constant text.
func (c *compiler) cannotRead(f value.Function, text string) bool {
	_, err := f.Call(&c.folding.Meter, []any{text})
	return err != nil && err != value.ErrSteps && err != value.ErrMemory
}

var (
	inDays     = regexp.MustCompile(`^([0-9]{1,4})\s*(d|days?|w|weeks?)\s*((?:[0-9]+[hms])*)$`)
	dateInside = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2}))?$`)
)

// readable returns what the author of a text probably means, in quotes, as the function can read it,
// or "".
func (c *compiler) readable(f value.Function, name, text string) string {
	instead := ""
	switch name {
	case "duration":
		if m := inDays.FindStringSubmatch(text); m != nil {
			days, _ := strconv.Atoi(m[1]) // they are digits
			if m[2][0] == 'w' {
				days *= 7
			}
			rest, _ := time.ParseDuration(cmp.Or(m[3], "0"))
			instead = (time.Duration(24*days)*time.Hour + rest).String()
			instead = strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(instead)
		}
	case "time":
		if m := dateInside.FindStringSubmatch(text); m != nil {
			instead = m[1] + "T" + cmp.Or(m[2], "00:00:00") + "Z"
		}
	}
	if instead == "" || c.cannotRead(f, instead) {
		return ""
	}
	return strconv.Quote(instead)
}

func constantKey(name string, args []operand) (string, bool) {
	if name != "get" || !args[1].constant {
		return "", false
	}
	key, ok := args[1].value.(string)
	return key, ok
}

func (c *compiler) count(at ast.Node, name string, n, least, most int) error {
	if n >= least && n <= most {
		return nil
	}
	want := fmt.Sprintf("%d to %d arguments", least, most)
	switch {
	case most == value.Many:
		want = fmt.Sprintf("at least %d argument", least)
	case most == least && least == 1:
		want = "1 argument"
	case most == least:
		want = fmt.Sprintf("%d arguments", least)
	}
	return c.errorf(at, "%s takes %s, not %d", name, want, n)
}

// now compiles now() and moment().
func (c *compiler) now(at ast.Node, name string, arguments []ast.Node) (operand, error) {
	if err := c.onlyOfChanges(at, name+"()"); err != nil {
		return operand{}, err
	}
	if err := c.count(at, name, len(arguments), 0, 0); err != nil {
		return operand{}, err
	}
	c.reads.time = true
	if name == "moment" {
		return operand{eval: func(r *run) (any, error) {
			if r.env.Moment.IsZero() {
				return nil, r.Step()
			}
			return r.env.Moment.UTC(), r.Step()
		}}, nil
	}
	return operand{eval: func(r *run) (any, error) { return r.env.Now.UTC(), r.Step() }}, nil
}
