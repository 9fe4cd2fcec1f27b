package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/informd/informd/internal/othersyntax"
)

// What authors write who know kubectl, CEL, jq, JavaScript or Go templates, with what they need to
// hear. A hint follows the message that says what is wrong.

// otherNames are names of other languages.
var otherNames = map[string]string{
	"null": "write nil", "None": "write nil", "undefined": "write nil", "NULL": "write nil",
	"items": "it means the changes of a group, in the actions of a rule with group",
	"Nil":   "write nil", "True": "write true", "False": "write false", "TRUE": "write true",
	"FALSE": "write false",
	"self":  "write object", "this": "write object", "$": "write object", "obj": "write object",
	"resource": "write object", "_": "write object", "new": "the new state is object",
	"newObject": "the new state is object", "previous": "the state before is old",
	"oldSelf": "the state before is old", "oldObject": "the state before is old",
	"oldobject": "the state before is old", "request": "the object is object, its state before old",
}

// otherFunctions are functions of other languages, beside absent.
var otherFunctions = map[string]string{
	"exists": "compare with nil: object.spec.x != nil",
	"isset":  "compare with nil: object.spec.x != nil",
	"empty":  "write len(x ?? []) == 0",
	"length": "use len(…)", "default": "write x ?? y", "coalesce": "write x ?? y",
	"eq": "write x == y", "ne": "write x != y", "lt": "write x < y", "gt": "write x > y",
	"select": "use filter(…)", "where": "use filter(…)", "json": "use toJSON(…) or fromJSON(…)",
	"printf": "write a template, ${x} and ${y}, or x + y", "sprintf": "write x + y",
	"format": "write x + y", "println": "write x + y", "Sprintf": "write x + y",
	"regex": "write x matches y", "regexMatch": "write x matches y", "test": "write x matches y",
	"toLower": "use lower(…)", "toUpper": "use upper(…)", "lowerAscii": "use lower(…)",
	"timestamp": "use time(…), which reads RFC 3339", "Time": "use time(…)",
	"index": "write x[y]",
}

// otherMethods are methods of other languages, beside operatorLike.
var otherMethods = map[string]string{
	"exists": "write any(x, .name == y)", "some": "write any(x, .name == y)",
	"exists_one": "write one(x, .name == y)", "every": "write all(x, .name == y)",
	"size": "write len(x)", "length": "write len(x)",
	"match": "write x matches y", "toLowerCase": "write lower(x)", "lowerAscii": "write lower(x)",
	"toUpperCase": "write upper(x)", "upperAscii": "write upper(x)", "toString": "write string(x)",
	"hasOwnProperty": "write x[y] != nil", "has": "write x[y] != nil",
}

// namesElements has functions of lists, with arguments as an example. Authors call them as methods,
// and give the element a name, as other languages do.
var namesElements = map[string]string{
	"all": "x, .y == 1", "any": "x, .y == 1", "one": "x, .y == 1", "none": "x, .y == 1",
	"map": "x, .y", "filter": "x, .y == 1", "find": "x, .y == 1", "count": "x, .y == 1",
	"sortBy": "x, .y", "groupBy": "x, .y",
}

// hintForName returns what follows the message about the unknown name at an offset of text, or "".
func hintForName(text string, offset int, name string) string {
	if hint, ok := otherNames[name]; ok {
		return "; " + hint
	}
	if isCompared(text[:offset], text[min(len(text), offset+len(name)):]) {
		return fmt.Sprintf("; a text needs quotes: %q", name)
	}
	return ""
}

// hintForField returns what follows the message about the unknown name at an offset of text if the
// name is the end of a field with - or / in it, or "".
func hintForField(text string, offset int, name string) string {
	before, after := text[:offset], text[min(len(text), offset+len(name)):]
	if m := brokenField.FindStringSubmatch(before); m != nil {
		rest := restOfField.FindString(after)
		path, field := m[1], m[2]+m[3]+name+rest
		// Names of labels and annotations have dots.
		if at := labelled.FindStringIndex(path + "."); at != nil {
			field = strings.TrimPrefix(path[min(len(path), at[1]-1):]+".", ".") + field
			path = path[:at[1]-1]
		}
		return fmt.Sprintf("; a field with - or / in its name needs brackets: %s[%q]", path, field)
	}
	return ""
}

var (
	// brokenField matches the path to a field whose name ends too early, at - or /.
	brokenField = regexp.MustCompile(
		`([A-Za-z_][\w]*(?:\.[\w]+)*)\.([\w]+(?:[-/][\w.]+)*)([-/])$`)
	restOfField = regexp.MustCompile(`^[\w./-]*`)
	labelled    = regexp.MustCompile(`\.(labels|annotations|matchLabels|nodeSelector)\.`)
	comparison  = regexp.MustCompile(`(==|!=|\bin|,|\[)\s*$`)
	ended       = regexp.MustCompile(`^\s*($|\)|\]|,|and\b|or\b|&&|\|\||==|!=|\?|:|\})`)
)

// isCompared reports whether a name stands where a text would.
func isCompared(before, after string) bool {
	return comparison.MatchString(before) && ended.MatchString(after)
}

// slips are mistakes that expr-lang's parser reports where it stumbles. The first pattern that
// matches the text up to that place, and what follows it, gives the hint.
var slips = []struct {
	before, after *regexp.Regexp
	hint          string
}{
	{regexp.MustCompile(`\$$`), regexp.MustCompile(`^\{`),
		"this is an expression already: leave out ${ and }"},
	{regexp.MustCompile(`\[$`), regexp.MustCompile(`^(\]|\*\])`),
		"for a field of each element write map(object.spec.containers, .image)"},
	{regexp.MustCompile(`[,(]\s*\{\s*\w+\s*$`), regexp.MustCompile(`^:`),
		"a map as the last argument needs parentheses: ({name: #})"},
	{regexp.MustCompile(`<\s*$`), regexp.MustCompile(`^>`), "what compares is !="},
	{regexp.MustCompile(`[\w)]\s*$`), regexp.MustCompile(`^=>`), elementNamed},
	{regexp.MustCompile(`\bfunction\s*\([^)]*\)\s*$`), regexp.MustCompile(`^\{`), elementNamed},
	{regexp.MustCompile(`\blambda\s*$`), regexp.MustCompile(``), elementNamed},
	{regexp.MustCompile(`\[[^\]]*$`), regexp.MustCompile(`^for\b`),
		"for a value of each element write map(object.spec.containers, .image)"},
	{regexp.MustCompile(`\|\s*\w+\s*$`), regexp.MustCompile(`^$`),
		"a function behind | needs its parentheses: | len()"},
	{regexp.MustCompile(`\bif\b.*$`), regexp.MustCompile(`^then\b`),
		"a condition is written x ? y : z, or if x {y} else {z}"},
	{regexp.MustCompile(``), regexp.MustCompile(`^AND\b`), "write and"},
	{regexp.MustCompile(``), regexp.MustCompile(`^OR\b`), "write or"},
	{regexp.MustCompile(``), regexp.MustCompile(`^NOT\b`), "write not"},
	{regexp.MustCompile(``), regexp.MustCompile(`^(changed|changes)\b`),
		"compare with the state before: object.data != old.data"},
	{regexp.MustCompile(``), regexp.MustCompile(`^is\s+(nil|null|None)\b`), "compare with nil: x == nil"},
	{regexp.MustCompile(``), regexp.MustCompile(`^is\s+not\s+(nil|null|None)\b`),
		"compare with nil: x != nil"},
	{regexp.MustCompile(``), regexp.MustCompile(`^is\s+not\s+["'\w(]`), "write x != y"},
	{regexp.MustCompile(``), regexp.MustCompile(`^is\s+["'\w(]`), "write x == y"},
	{regexp.MustCompile(``), regexp.MustCompile(`^(is|exists)\b`), "compare with nil: x != nil"},
	{regexp.MustCompile(``), regexp.MustCompile(`^(?i:like)\b`),
		"write matches, contains, startsWith or endsWith"},
	{regexp.MustCompile(``), regexp.MustCompile(`^~`), "what compares with a pattern is matches"},
	{regexp.MustCompile(`=$`), regexp.MustCompile(`^~`), "what compares with a pattern is matches"},
	{regexp.MustCompile(`\bin\s*\([^)]*$`), regexp.MustCompile(`^,`),
		"a list is written in brackets: in [1, 2]"},
	{regexp.MustCompile(`\.\s*("[^"]*"|'[^']*'|\[)\s*$`), regexp.MustCompile(``),
		`a field whose name needs quotes is written in brackets: labels["a-b"]`},
}

const elementNamed = "a condition calls the element #: filter(x, #.y == 1), or filter(x, .y == 1)"

var (
	fieldAlone = regexp.MustCompile(`^(\.[A-Za-z_]\w*)+`)
	endsInside = regexp.MustCompile(`[\w)\]}.?"'` + "`" + `]$`) // what a field may follow
	measure    = regexp.MustCompile(`^[0-9.]+([A-Za-z]+)`)
	durations  = regexp.MustCompile(`^(ns|us|ms|s|h|d)$`)
)

// hintForSyntax returns the offset and the message of a syntax error with what helps.
func hintForSyntax(text string, offset int, message string) (int, string) {
	if at, hint := hintForElement(text, offset); hint != "" {
		return at, hint
	}
	if strings.HasPrefix(message, "bad number syntax: ") {
		for offset > 0 && strings.ContainsRune("0123456789.", rune(text[offset-1])) {
			offset--
		}
		m := measure.FindStringSubmatch(text[offset:])
		if m == nil {
			for offset > 0 && !strings.ContainsRune(" (<>=+-*/,[", rune(text[offset-1])) {
				offset--
			}
			m = measure.FindStringSubmatch(text[offset:])
		}
		switch {
		case m == nil:
		case m[1] == "d":
			days, _ := strconv.ParseFloat(strings.TrimSuffix(m[0], "d"), 64)
			return offset, fmt.Sprintf("%s is no number; a duration is duration(\"%gh\")", m[0], days*24)
		case m[1] == "m":
			return offset, fmt.Sprintf("%s is no number; a duration is duration(%[1]q), "+
				"a quantity is quantity(%[1]q)", m[0])
		case durations.MatchString(m[1]):
			return offset, fmt.Sprintf("%s is no number; a duration is duration(%[1]q)", m[0])
		default:
			return offset, fmt.Sprintf("%s is no number; a quantity is quantity(%[1]q)", m[0])
		}
		return offset, message
	}
	before, after := text[:offset], text[offset:]
	if m := fieldAlone.FindString(after); m != "" && !endsInside.MatchString(before) {
		return offset, fmt.Sprintf("%s; a field begins with its object: object%s", message, m)
	}
	for _, slip := range slips {
		if slip.before.MatchString(text[:offset]) && slip.after.MatchString(text[offset:]) {
			return offset, message + "; " + slip.hint
		}
	}
	return offset, message
}

var (
	// numberedField matches a number behind a dot, as other languages name an element of a list.
	numberedField = regexp.MustCompile(`(?:[A-Za-z_]\w*|[)\]#])(\.(\d+)(?:\.\w+)*)`)
	pathBefore    = regexp.MustCompile(`[A-Za-z_][\w.]*$`)
)

// hintForElement returns the offset and the message of a syntax error at an element of a list that is
// written as a field, x.0, or "".
func hintForElement(text string, offset int) (int, string) {
	for _, at := range numberedField.FindAllStringSubmatchIndex(text, -1) {
		if offset < at[2] || offset > at[3] {
			continue
		}
		list := pathBefore.FindString(text[:at[2]])
		if list == "" {
			list = "x"
		}
		return at[2], fmt.Sprintf("an element of a list is written in brackets: %s[%s]",
			list, text[at[4]:at[5]])
	}
	return offset, ""
}

// ofOtherSyntax returns the mistake of a text that does not compile because an expression in it is
// written as in the templates of another tool, or nil.
func ofOtherSyntax(text string) error {
	found, ok := othersyntax.Find(withoutStrings(text))
	if !ok {
		return nil
	}
	return &Error{found.Offset, found.Advice}
}

// withoutStrings returns the text with _ in place of its strings. A quote that nothing closes
// begins none.
func withoutStrings(text string) string {
	out := []byte(text)
	for i := 0; i < len(text); i++ {
		if !strings.ContainsRune("\"'`", rune(text[i])) {
			continue
		}
		if length := stringLength(text[i:]); length > 0 {
			copy(out[i:], strings.Repeat("_", length))
			i += length - 1
		}
	}
	return string(out)
}

// inQuotes matches an expression within a string, as templates have it.
var inQuotes = regexp.MustCompile(`\$\{\s*(object|old|item)\.[^}]*\}`)

// withDash returns how to write a.b-1 if b-1 is the name of one field, or "".
func withDash(field *ast.MemberNode, number *ast.IntegerNode) string {
	name, ok := field.Property.(*ast.StringNode)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s[%q]", field.Node, fmt.Sprintf("%s-%d", name.Value, number.Value))
}

// eventTypes are what event can be.
var eventTypes = []string{"added", "updated", "deleted", "synced"}

// checkEvent returns an error if event is compared with what it can never be.
func (c *compiler) checkEvent(n *ast.BinaryNode, a, b operand) error {
	if n.Operator != "==" && n.Operator != "!=" && n.Operator != "in" {
		return nil
	}
	other, at := b, n.Right
	if !isEvent(n.Left) {
		if other, at = a, n.Left; !isEvent(n.Right) || n.Operator == "in" {
			return nil
		}
	}
	wanted, ok := other.value.([]any)
	if !ok {
		wanted = []any{other.value}
	}
	for _, one := range wanted {
		name, ok := one.(string)
		if !ok || slices.Contains(eventTypes, name) {
			continue
		}
		hint := suggest(strings.ToLower(name), slices.Clone(eventTypes))
		for _, kind := range eventTypes { // as watches and admission call them
			if strings.EqualFold(kind, name) || strings.EqualFold(eventWords[kind], name) {
				hint = "; did you mean " + kind + "?"
			}
		}
		return c.errorf(at, "event is never %q: it is added, updated, deleted or synced%s", clip(name), hint)
	}
	return nil
}

// eventWords are what Kubernetes calls the same, in watches and in admission.
var eventWords = map[string]string{
	"added": "create", "updated": "modified", "deleted": "delete", "synced": "sync",
}

func isEvent(n ast.Node) bool {
	name, ok := n.(*ast.IdentifierNode)
	return ok && name.Value == "event"
}

// checkLabel reports that a label or an annotation is compared with a number, true or false.
func (c *compiler) checkLabel(n *ast.BinaryNode, a, b operand) error {
	if n.Operator != "==" && n.Operator != "!=" {
		return nil
	}
	constant, from, at := b.value, n.Left, n.Right
	if a.value != nil {
		constant, from, at = a.value, n.Right, n.Left
	}
	switch constant.(type) {
	case bool, int64, float64:
	default:
		return nil
	}
	field, ok := from.(*ast.MemberNode)
	if !ok {
		return nil
	}
	names := map[string]string{"labels": "a label", "annotations": "an annotation"}
	what := names[property(field.Node)]
	around, ok := field.Node.(*ast.MemberNode)
	if what == "" || !ok || property(around.Node) != "metadata" {
		return nil
	}
	return c.errorf(at, "%s is a string, which never equals %v: write \"%v\"",
		what, constant, constant)
}

// property returns the constant name of the field that n asks for, or "".
func property(n ast.Node) string {
	if member, ok := n.(*ast.MemberNode); ok {
		if name, ok := member.Property.(*ast.StringNode); ok {
			return name.Value
		}
	}
	return ""
}

// checkText reports that a text is compared with what is never one: the result of arithmetic or a
// length. Often the author means a field whose name ends in - and a number.
func (c *compiler) checkText(n *ast.BinaryNode, a, b operand) error {
	if n.Operator != "==" && n.Operator != "!=" {
		return nil
	}
	text, from, at := b.value, n.Left, n.Right
	if _, ok := text.(string); !ok {
		text, from, at = a.value, n.Right, n.Left
	}
	if _, ok := text.(string); !ok {
		return nil
	}
	switch from := from.(type) {
	case *ast.BuiltinNode:
		if from.Name == "len" || from.Name == "count" {
			return c.errorf(at, "%s() is a number, which never equals a text: leave the quotes out",
				from.Name)
		}
	case *ast.BinaryNode:
		if !slices.Contains([]string{"-", "*", "/", "%", "**", "^"}, from.Operator) {
			return nil
		}
		hint := ""
		field, isField := from.Left.(*ast.MemberNode)
		number, isNumber := from.Right.(*ast.IntegerNode)
		if isField && isNumber && from.Operator == "-" {
			if name := withDash(field, number); name != "" {
				hint = "; a field with - in its name needs brackets: " + name
			}
		}
		return c.errorf(from, "the result of %s never equals a text%s", from.Operator, hint)
	}
	return nil
}
