package expr

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/engine/expr/value"
)

// own stands for the rule's source in a spot. No source has this name.
const own = ""

// byIndex compiles byIndex("INDEX", value). It gives whole objects, and reads count like those of
// object.
func (c *compiler) byIndex(at ast.Node, arguments []ast.Node) (operand, error) {
	if err := cmp.Or(c.onlyOfChanges(at, "byIndex()"), c.notSent(at, "byIndex()")); err != nil {
		return operand{}, err
	}
	if c.options.NoSource {
		return operand{}, c.errorf(at, "the rule has no source that byIndex() could search; "+
			"lookup(\"SOURCE.INDEX\", value) searches any source")
	}
	if err := c.count(at, "byIndex", len(arguments), 2, 2); err != nil {
		return operand{}, err
	}
	const noName = "the first argument of byIndex must be the name of an index, in quotes"
	first := arguments[0]
	if isPath(first) { // it may be an unknown name: the author forgot the quotes
		return operand{}, c.errorf(first, noName)
	}
	args, err := c.compileAll(arguments)
	if err != nil {
		return operand{}, err
	}
	name, ok := args[0].value.(string)
	if !ok {
		return operand{}, c.errorf(first, noName)
	}
	if !slices.Contains(c.options.Indexes, name) {
		for _, source := range slices.Sorted(maps.Keys(c.options.Sources)) {
			if slices.Contains(c.options.Sources[source], name) {
				return operand{}, c.errorf(first, "the rule's source has no index %s, and source %s has: "+
					`write lookup("%[2]s.%[1]s", …)`, name, source)
			}
		}
		return operand{}, c.errorf(first, "the rule's source has no index %q%s",
			clip(name), suggestOrList(name, c.options.Indexes))
	}
	c.reads.index = true
	return c.search("byIndex", own, args[1], func(cache Cache, value string) Found {
		return cache.ByIndex(name, value)
	}), nil
}

// lookup compiles lookup("SOURCE.INDEX", value): byIndex of another source. The program keeps the
// paths that it reads there apart from those that it reads of object.
func (c *compiler) lookup(at ast.Node, arguments []ast.Node) (operand, error) {
	if err := cmp.Or(c.onlyOfChanges(at, "lookup()"), c.notSent(at, "lookup()")); err != nil {
		return operand{}, err
	}
	if err := c.count(at, "lookup", len(arguments), 2, 2); err != nil {
		return operand{}, err
	}
	const noName = `the first argument of lookup must be "SOURCE.INDEX", in quotes`
	first := arguments[0]
	if isPath(first) { // it may be an unknown name: the author forgot the quotes
		return operand{}, c.errorf(first, noName)
	}
	args, err := c.compileAll(arguments)
	if err != nil {
		return operand{}, err
	}
	name, ok := args[0].value.(string)
	if !ok {
		return operand{}, c.errorf(first, noName)
	}
	source, index, isIndex := strings.Cut(name, ".")
	indexes, ok := c.options.Sources[source]
	switch {
	case !ok:
		return operand{}, c.errorf(first, "unknown source %q%s",
			clip(source), suggestOrList(source, slices.Collect(maps.Keys(c.options.Sources))))
	case len(indexes) == 0:
		return operand{}, c.errorf(first,
			"source %s has no index to look things up by; "+
				"give it one, such as indexes: {byName: object.metadata.name}", source)
	case !isIndex:
		return operand{}, c.errorf(first, `%q names no index; write "%s.INDEX": there is %s`,
			clip(name), source, listed(indexes))
	case !slices.Contains(indexes, index):
		return operand{}, c.errorf(first, "source %s has no index %q%s",
			source, clip(index), suggestOrList(index, indexes))
	}
	return c.search("lookup", source, args[1], func(cache Cache, value string) Found {
		return cache.Lookup(source, index, value)
	}), nil
}

// isPath reports whether n is a name or a chain of fields behind one.
func isPath(n ast.Node) bool {
	switch n.(type) {
	case *ast.IdentifierNode, *ast.MemberNode:
		return true
	}
	return false
}

// listed names a few of the names.
func listed(names []string) string {
	const few = 8
	names = slices.Sorted(slices.Values(names))
	if more := len(names) - few; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), more)
	}
	return strings.Join(names, ", ")
}

// search compiles a search by find.
func (c *compiler) search(
	name, source string, by operand, find func(cache Cache, value string) Found,
) operand {
	c.reach.use(by.shape)
	c.reach.of(source)
	value := by.eval
	return searching(objectsOf(source), func(r *run) (*finding, error) {
		v, err := value(r)
		if err != nil || v == nil {
			return nil, err
		}
		if err := r.Step(); err != nil {
			return nil, err
		}
		key, err := r.Text(name, v)
		if err != nil {
			return nil, err
		}
		if r.env.Cache == nil {
			return new(finding), nil
		}
		return &finding{Found: find(r.env.Cache, key)}, nil
	})
}

// objectsGiven returns the sources of the objects in a result, which must have nothing else in it.
// The objects are sent as they are, so the program keeps their places and reads no more for it.
func (c *compiler) objectsGiven(s shape) ([]string, error) {
	list := s
	if s.elem != nil {
		list = c.reach.union(shape{places: s.places}, *s.elem)
	}
	var sources []string
	for _, at := range list.places {
		if len(at.path) > 0 {
			return nil, &Error{0, "attach sends whole objects, as lookup and byIndex give them; " +
				"to send parts of them write a payload"}
		}
		sources = append(sources, at.source)
	}
	c.reach.touch(list)
	if list.elem != nil {
		c.reach.use(*list.elem)
	}
	slices.Sort(sources)
	return slices.Compact(sources), nil
}

// objects returns the trees in the result of an Attach.
func (r *run) objects(v any) ([]map[string]any, error) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if err := r.Scan(value.SizeValue * len(list)); err != nil {
		return nil, err
	}
	trees := make([]map[string]any, 0, len(list))
	for _, item := range list {
		switch item := item.(type) {
		case nil:
		case map[string]any:
			trees = append(trees, item)
		default:
			return nil, value.Errorf("attach gives %s, not objects that lookup or byIndex gave",
				value.Some(item))
		}
	}
	return trees, nil
}
