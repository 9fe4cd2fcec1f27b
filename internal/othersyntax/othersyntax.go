// Package othersyntax finds expressions that are written as in the templates of other tools, and says
// how to write them here. It is pure.
package othersyntax

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
)

// Found is an expression as another tool has it.
type Found struct {
	Offset int    // of its first character in the text
	Advice string // which syntax it is, and what to write instead
	// IsObject says that the expression certainly asks for a part of an object, by a path such as
	// .metadata.name or object.spec.
	IsObject bool
	// IsOurs says that the path certainly is one of informd's: it begins with object, for example.
	IsOurs bool
}

// expression matches an expression as other tools write it, in one of three forms.
var expression = regexp.MustCompile(`\$\{\{([^{}]*)\}\}|\{\{([^{}]*)\}\}|\$\(([^()]*)\)`)

// names say which syntax each form of expression is.
var names = []string{
	"${{ }} is the syntax of GitHub Actions", ofGo, ofTekton,
}

const (
	ofGo     = "{{ }} is the syntax of Go and Helm"
	ofTekton = "$( ) is the syntax of Kubernetes and Tekton"
)

// isMap matches the inside of {{ }} that is a map in a map or in a list, as expressions have them.
var isMap = regexp.MustCompile(`^\s*("[^"]*"|'[^']*'|[\w-]+|\(.*\))\s*:`)

// Find returns the first expression of another tool in a text.
func Find(text string) (first Found, ok bool) {
	for one := range All(text) {
		return one, true
	}
	return Found{}, false
}

// All returns the expressions of other tools in a text.
func All(text string) iter.Seq[Found] {
	return func(yield func(Found) bool) {
		for _, at := range expression.FindAllStringSubmatchIndex(text, -1) {
			for i, name := range names {
				from, to := at[2*i+2], at[2*i+3]
				if from < 0 {
					continue
				}
				inside := text[from:to]
				if isMap.MatchString(inside) || strings.TrimSpace(inside) == "" {
					break
				}
				one := found(name, inside)
				one.Offset = at[0]
				if !yield(one) {
					return
				}
			}
		}
	}
}

// path matches the path that an expression begins with. A template of Go may trim white space.
var path = regexp.MustCompile(`^-?\s*\$?(\.?)([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)`)

// Example is a path that advice has where the author's own cannot be guessed.
const Example = "object.metadata.name"

func found(name, inside string) Found {
	m := path.FindStringSubmatch(inside)
	if m == nil {
		return Found{Advice: Advice(name, Example)}
	}
	first, _, _ := strings.Cut(m[2], ".")
	ofHelm := []string{"Values", "Release", "Chart", "Capabilities"}
	if m[1] != "" && slices.Contains(ofHelm, first) {
		return Found{Advice: "this is a template of Helm: render it first, with helm template"}
	}
	ours, isObject := pathOf(m[2], m[1] != "")
	isOurs := isObject && (strings.EqualFold(first, "object") || strings.EqualFold(first, "old") ||
		first == "item" && name == ofTekton) // {{item}} is of Argo
	return Found{Advice: Advice(name, ours), IsObject: isObject, IsOurs: isOurs}
}

// Advice says how to write an expression that another tool's syntax has.
func Advice(name, expression string) string {
	return fmt.Sprintf(`%s: write %s in an expression, and "${%s}" in a text`,
		name, expression, expression)
}

// pathOf translates a path of another tool into an expression. isRooted means that the path begins
// with a dot, as in Go's templates.
func pathOf(path string, isRooted bool) (ours string, isObject bool) {
	first, rest, more := strings.Cut(path, ".")
	switch low := strings.ToLower(first); {
	case more && slices.Contains([]string{"object", "old", "item"}, low):
		return low + "." + rest, true
	case slices.Contains([]string{"name", "namespace", "labels", "annotations"}, low):
		return "object.metadata." + low + strings.TrimPrefix(path, first), false
	case slices.Contains([]string{"metadata", "spec", "status", "data"}, first) && more:
		return "object." + path, isRooted
	case isRooted:
		return "object." + path, false
	}
	return Example, false
}

// Placeholder returns the advice about {{ }} whose inside cannot be read.
func Placeholder() string { return Advice(ofGo, Example) }
