package config

import (
	"fmt"
	"path"
	"slices"

	"gopkg.in/yaml.v3"
)

// access reads what the handler may see of the cluster, and what it may change. checkReferences
// later reports sources that do not exist.
func (r *reader) access(spec mapping) (read []Text, write []Grant) {
	f := r.mapping(spec.get("access"), spec.key["access"], "spec.access", accessFields)
	if f.has("read") && spec.has("address") && !spec.has("command") && !spec.has("builtin") {
		r.mistake(f.key["read"], "spec.access.read does not go with spec.address: "+
			"the cache is read over a socket on this machine")
		return nil, r.grants(f)
	}
	r.set(f.get("read"), "spec.access.read", "names of sources", func(string) string { return "" })
	if list := f.get("read"); list != nil { // set reports only its elements
		for _, item := range list.Content {
			if !r.reported[item] {
				read = append(read, r.text(item))
			}
		}
	}
	return read, r.grants(f)
}

// maxGrants bounds the grants of one handler, because each action is checked against all of them.
const maxGrants = 256

func (r *reader) grants(access mapping) []Grant {
	items := r.list(access.get("write"), "spec.access.write", "what may be changed")
	if len(items) > maxGrants {
		r.mistake(items[maxGrants], "spec.access.write has %d elements, more than %d",
			len(items), maxGrants)
		items = items[:maxGrants]
	}
	var out []Grant
	for i, item := range items {
		if g, ok := r.grant(item, fmt.Sprintf("spec.access.write[%d]", i)); ok {
			out = append(out, g)
		}
	}
	return out
}

func (r *reader) grant(n *yaml.Node, what string) (Grant, bool) {
	f := r.mapping(n, n, what, grantFields)
	if f.at == nil {
		return Grant{}, false
	}
	resource := f.get("resource")
	g := Grant{
		Verbs: r.verbs(f.get("verbs"), what+".verbs"),
		Namespaces: r.set(f.get("namespaces"), what+".namespaces", "names", func(s string) string {
			return notLabel("namespace", s)
		}),
		Names: r.set(f.get("names"), what+".names", "patterns", notPattern),
	}
	g.Resource, g.Subresource = r.target(resource, what+".resource", true)
	if resource == nil || r.reported[resource] {
		return Grant{}, false
	}
	g.At = r.text(resource)
	if g.Subresource != "" {
		for _, verb := range g.Verbs {
			if verb != Apply && verb != Patch {
				r.mistake(f.key["verbs"],
					"the status of an object can only be applied or patched, not %s",
					verb)
			}
		}
	}
	return g, true
}

func (r *reader) verbs(n *yaml.Node, what string) []string {
	return r.set(n, what, "verbs", func(s string) string {
		if slices.Contains(verbs, s) {
			return ""
		}
		fault := "a verb is " + oneOf(verbs) + ", not " + quote(s)
		if hint := r.suggest(s, verbs); hint != "" {
			fault += didYouMean(hint)
		}
		return fault
	})
}

func notPattern(s string) string {
	if _, err := path.Match(s, ""); err != nil {
		return quote(s) +
			` is not a pattern: * stands for any characters, ? for one, [a-z] for one of these`
	}
	return ""
}
