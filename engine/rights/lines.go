package rights

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Line is one rule of a Role, or of a ClusterRole if Namespace is empty.
type Line struct {
	Namespace string   `json:"namespace,omitempty"`
	Group     string   `json:"apiGroup"`
	Resource  string   `json:"resource"`                // with the subresource: pods/status
	Names     []string `json:"resourceNames,omitempty"` // nil: any
	Verbs     []string `json:"verbs"`
	Comments  []string `json:"why,omitempty"` // who needs it, without the #
}

// String returns the line as YAML.
func (l Line) String() string {
	names := ""
	if l.Names != nil {
		names = ", resourceNames: " + flow(l.Names)
	}
	return fmt.Sprintf("- {apiGroups: %s, resources: %s%s, verbs: %s}",
		flow([]string{l.Group}), flow([]string{l.Resource}), names, flow(l.Verbs))
}

// Lines returns the lines that grant needs, in order: those of the ClusterRole first.
func Lines(needs []Need) (lines []Line) {
	type about struct{ namespace, group, resource, name string }
	by := make(map[about][]Need)
	var order []about
	for _, n := range needs {
		a := about{n.Namespace, n.Group, n.resource(), n.Name}
		if by[a] == nil {
			order = append(order, a)
		}
		by[a] = append(by[a], n)
	}
	for _, a := range order {
		l := Line{Namespace: a.namespace, Group: a.group, Resource: a.resource}
		for _, n := range by[a] {
			l.Verbs = append(l.Verbs, n.Verb)
		}
		slices.SortFunc(l.Verbs, compareVerbs)
		if a.name != "" {
			l.Names = []string{a.name}
		}
		l.Comments = comments(by[a])
		last := len(lines) - 1
		if last >= 0 && l.Names != nil && lines[last].joins(l) {
			lines[last].Names = append(lines[last].Names, a.name)
			continue
		}
		lines = append(lines, l)
	}
	return lines
}

// joins reports whether the lines differ in names alone.
func (l Line) joins(other Line) bool {
	return l.Names != nil && l.Namespace == other.Namespace && l.Group == other.Group &&
		l.Resource == other.Resource && slices.Equal(l.Verbs, other.Verbs) &&
		slices.Equal(l.Comments, other.Comments)
}

// comments returns who needs which of the verbs.
func comments(needs []Need) (out []string) {
	verbs := make(map[Reason][]string)
	unless := make(map[string]string)
	for _, n := range needs {
		for _, why := range n.For {
			verbs[why] = append(verbs[why], n.Verb)
		}
		if n.Unless != "" {
			unless[n.Verb] = n.Unless
		}
	}
	reasons := slices.SortedFunc(maps.Keys(verbs), func(a, b Reason) int {
		return strings.Compare(a.By+"\x00"+a.Wide, b.By+"\x00"+b.Wide)
	})
	for _, why := range reasons {
		slices.SortFunc(verbs[why], compareVerbs)
		out = append(out, why.By+": "+strings.Join(verbs[why], ", "))
		if why.Wide != "" {
			out = append(out, "  WIDE: "+why.Wide)
		}
	}
	for _, verb := range slices.Sorted(maps.Keys(unless)) {
		out = append(out, fmt.Sprintf("  %s is not needed if %s", verb, unless[verb]))
	}
	return out
}

// Text returns lines for people to read and to copy, under the Roles that they belong in.
func Text(lines []Line) string {
	var b strings.Builder
	for i, l := range lines {
		if i == 0 || lines[i-1].Namespace != l.Namespace {
			role := "in a ClusterRole, bound by a ClusterRoleBinding:"
			if l.Namespace != "" {
				role = "in a Role of namespace " + l.Namespace + ":"
			}
			b.WriteString(role + "\n")
		}
		for _, comment := range l.Comments {
			b.WriteString(Comment("  ", comment))
		}
		b.WriteString("  " + l.String() + "\n")
	}
	return b.String()
}

const width = 100 // columns of a comment

// Comment returns text as lines of a YAML comment behind indent. Lines after the first are indented
// further.
func Comment(indent, text string) string {
	words := strings.TrimLeft(text, " ")
	begin := indent + "# " + text[:len(text)-len(words)]
	var b strings.Builder
	line := begin
	for i, word := range strings.Split(words, " ") {
		switch {
		case i == 0:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			b.WriteString(line + "\n")
			line = begin + "  " + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}

// Account is the service account that gets the rights.
type Account struct{ Namespace, Name string }

// role returns the name of the account's Roles. Accounts of the same name in other namespaces must
// not share a ClusterRole.
func (a Account) role() string {
	if a.Namespace == a.Name {
		return a.Name
	}
	return a.Namespace + "-" + a.Name
}

// Manifests returns the account, the Roles with the lines, and their bindings as YAML documents.
func Manifests(lines []Line, to Account) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: %s}\n",
		scalar(to.Name), scalar(to.Namespace))
	for first := 0; first < len(lines); {
		namespace, end := lines[first].Namespace, first
		kind, in := "ClusterRole", ""
		if namespace != "" {
			kind, in = "Role", ", namespace: "+scalar(namespace)
		}
		fmt.Fprintf(&b, "---\napiVersion: %s/v1\nkind: %s\nmetadata: {name: %s%s}\nrules:\n",
			rbacGroup, kind, scalar(to.role()), in)
		for ; end < len(lines) && lines[end].Namespace == namespace; end++ {
			for _, comment := range lines[end].Comments {
				b.WriteString(Comment("", comment))
			}
			b.WriteString(lines[end].String() + "\n")
		}
		fmt.Fprintf(&b, "---\napiVersion: %s/v1\nkind: %sBinding\nmetadata: {name: %s%s}\n"+
			"roleRef: {apiGroup: %s, kind: %s, name: %s}\n"+
			"subjects:\n- {kind: ServiceAccount, name: %s, namespace: %s}\n",
			rbacGroup, kind, scalar(to.role()), in, rbacGroup, kind, scalar(to.role()),
			scalar(to.Name), scalar(to.Namespace))
		first = end
	}
	return b.String()
}

func flow(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = scalar(v)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// plain matches what YAML takes for a string without quotes, except a few words.
var plain = regexp.MustCompile(`^[a-z][a-z0-9./-]*$`)

var words = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

func scalar(s string) string {
	if plain.MatchString(s) && !slices.Contains(words, s) {
		return s
	}
	quoted, _ := json.Marshal(s) // a JSON string is a YAML string
	return string(quoted)
}
