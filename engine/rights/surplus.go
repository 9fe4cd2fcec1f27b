package rights

import (
	"cmp"
	"slices"
	"strings"
)

// Granted is a rule that holds for an account in a namespace, as a SelfSubjectRulesReview has it.
type Granted struct {
	Verbs, Groups, Resources, Names []string // a "*" stands for all; no Names are any name
}

// everybody has the rights that Kubernetes gives each account, to ask about itself.
var everybody = []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}

// Surplus returns what rules grant in a namespace beyond what needs ask for, a line each. namespace
// is empty for rules that hold in all namespaces.
func Surplus(needs []Need, namespace string, rules []Granted) (lines []string) {
	for _, g := range rules {
		for _, group := range g.Groups {
			for _, resource := range g.Resources {
				lines = append(lines, surplusOf(needs, namespace, group, resource, g)...)
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func surplusOf(needs []Need, namespace, group, resource string, g Granted) (lines []string) {
	name := resource
	switch {
	case resource == "*" && group == "*":
		name = "every resource"
	case resource == "*":
		name = "every resource of group " + cmp.Or(group, `""`)
	case group == "*":
		name += " of every group"
	case group != "":
		name += "." + group
	}
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	say := func(verbs, names []string, but string) {
		if len(verbs) == 0 {
			return
		}
		text := strings.Replace(strings.Join(verbs, ", "), "*", "every verb of", 1) + " " + name
		if len(names) > 0 {
			text += " named " + strings.Join(names, ", ")
		}
		lines = append(lines, text+where+but)
	}
	if group == "*" || resource == "*" || strings.HasPrefix(resource, "*/") {
		say(g.Verbs, g.Names, "")
		return lines
	}
	if slices.Contains(everybody, resource) {
		return nil
	}
	resource, sub, _ := strings.Cut(resource, "/")
	var unneeded []string              // verbs
	elsewhere := map[string][]string{} // by the namespaces that are enough: verbs
	unnamed := map[string][]string{}   // by the names that are enough: verbs
	spare := map[string][]string{}     // by name: verbs
	for _, verb := range g.Verbs {
		r := Right{Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace}
		var isNeeded bool
		var named, namespaces []string
		for _, n := range needs {
			is := n.Right
			switch is.Name, is.Namespace = "", r.Namespace; {
			case is != r:
			case n.Namespace != namespace:
				if namespace == "" {
					namespaces = append(namespaces, n.Namespace)
				}
			case n.Name != "":
				named = append(named, n.Name)
			default:
				isNeeded = true
			}
		}
		namespaces = slices.Compact(namespaces)
		switch isSpare := func(name string) bool { return !slices.Contains(named, name) }; {
		case isNeeded:
		case len(named) == 0 && len(namespaces) > 0:
			in := strings.Join(namespaces, ", ")
			elsewhere[in] = append(elsewhere[in], verb)
		case len(g.Names) == 0 && len(named) > 0:
			only := strings.Join(named, ", ")
			unnamed[only] = append(unnamed[only], verb)
		case len(g.Names) == 0:
			unneeded = append(unneeded, verb)
		default:
			for _, name := range g.Names {
				if isSpare(name) {
					spare[name] = append(spare[name], verb)
				}
			}
		}
	}
	say(unneeded, nil, "")
	for in, verbs := range elsewhere {
		say(verbs, g.Names, " in all namespaces: needed only in "+in)
	}
	for names, verbs := range unnamed {
		say(verbs, nil, ": needed only for those named "+names)
	}
	for name, verbs := range spare {
		say(verbs, []string{name}, "")
	}
	return lines
}
