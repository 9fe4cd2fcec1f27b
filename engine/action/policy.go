package action

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/plugins/handler"
)

// Grant is one entry of spec.access.write: what a handler may do.
type Grant struct {
	Resource    schema.GroupVersionResource
	Subresource string // "" or "status"; neither includes the other
	// some of handler's Action constants; event allows Events about the resource's objects
	Verbs      []string
	Namespaces []string // empty: all, and objects without a namespace; otherwise exactly these
	Names      []string // patterns as path.Match takes them; empty: all
	At         string   // its place in the configuration, for reports
}

// Policy is everything that one handler may do. The zero Policy allows nothing.
type Policy struct {
	Handler string // for reports
	Grants  []Grant
}

// Validate checks the form of actions, as handler.Action's Validate does. The error wraps
// handler.ErrReject.
func Validate(actions []handler.Action) error {
	for i, a := range actions {
		if err := a.Validate(); err != nil {
			return refused(i, a, err)
		}
	}
	return nil
}

// Check reports whether the actions of the answer to ev are well formed, as [Validate] says, and
// allowed. The error wraps handler.ErrReject. For an action that is not allowed, it says which
// grant would allow it.
func (p Policy) Check(ev *handler.Event, actions []handler.Action) error {
	_, _, err := p.check(actions)
	return err
}

// check also returns which action is refused, and whether a grant is missing.
func (p Policy) check(actions []handler.Action) (at int, denied bool, err error) {
	for i, a := range actions {
		if err := a.Validate(); err != nil {
			return i, false, refused(i, a, err)
		}
		if !slices.ContainsFunc(p.Grants, func(g Grant) bool { return g.allows(a) == "" }) {
			err := fmt.Errorf("%s: %s is not allowed for handler %q: %s",
				labelOf(i), what(a), p.Handler, p.needed(a))
			return i, true, handler.Reject(err)
		}
	}
	return 0, false, nil
}

// refused returns the error of an action that is not well formed.
func refused(i int, a handler.Action, err error) error {
	return handler.Reject(fmt.Errorf("%s: %s: %w", labelOf(i), what(a), err))
}

// allows returns what keeps the grant from allowing a, or "" if it allows it.
func (g Grant) allows(a handler.Action) (obstacle string) {
	matchesName := func(pattern string) bool { return matches(pattern, a.Name) }
	switch {
	case g.Resource != resourceOf(a.Resource) || g.Subresource != a.Subresource:
		return "resource"
	case !slices.Contains(g.Verbs, a.Verb):
		return fmt.Sprintf("verbs [%s]", strings.Join(g.Verbs, ", "))
	case len(g.Namespaces) > 0 && !slices.Contains(g.Namespaces, a.Namespace):
		return fmt.Sprintf("namespaces [%s]", strings.Join(g.Namespaces, ", "))
	case len(g.Names) > 0 && !slices.ContainsFunc(g.Names, matchesName):
		return fmt.Sprintf("names [%s]", strings.Join(g.Names, ", "))
	}
	return ""
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// needed says which grant would allow a, and what the closest grant lacks.
func (p Policy) needed(a handler.Action) string {
	resource := resourceName(resourceOf(a.Resource), a.Subresource)
	grant := fmt.Sprintf("resource: %s, verbs: [%s]", resource, a.Verb)
	if a.Namespace != "" {
		grant += fmt.Sprintf(", namespaces: [%s]", a.Namespace)
	}
	text := fmt.Sprintf("spec.access.write needs {%s}", grant)
	for _, g := range p.Grants {
		if obstacle := g.allows(a); obstacle != "resource" {
			at := g.At
			if at == "" {
				at = "an entry"
			}
			granted := resourceName(g.Resource, g.Subresource)
			return text + fmt.Sprintf("; %s grants %s, but only with the %s", at, granted, obstacle)
		}
	}
	return text
}
