package rights

import (
	"cmp"
	"slices"
	"strings"
)

// Right is one verb on one resource, as the API server asks its authorizers for it.
type Right struct {
	Verb        string
	Group       string // "" is the core group
	Resource    string // plural
	Subresource string // "" or status
	// Namespace is empty for all namespaces, and for a resource without namespaces.
	Namespace string
	// Name is empty for any name. A create has none, because its URL does not have it. The create
	// of an apply has one, and so do the list and watch of a source that selects metadata.name.
	Name string
}

// Need is a right with those who need it.
type Need struct {
	Right
	For []Reason // at least one
	// Unless says what makes the right unnecessary that an account can have in its place; "":
	// nothing does.
	Unless string
}

// Reason says who needs a right.
type Reason struct {
	By   string // as "Source pods" or "Rule web, actions[0].patch"
	Wide string // why the right is wider than what they do; "" if it is not
}

// resource returns the resource as a Role has it: pods/status.
func (r Right) resource() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

// String returns the right as a sentence has it: patch pods/status named web in namespace shop.
func (r Right) String() string {
	text := r.Verb + " " + r.resource()
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " named " + r.Name
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// verbOrder is the order in which Kubernetes' own roles list verbs.
var verbOrder = []string{"get", "list", "watch", "create", "patch", "delete", "bind", "escalate"}

func compareVerbs(a, b string) int {
	return cmp.Compare(slices.Index(verbOrder, a), slices.Index(verbOrder, b))
}

// compare orders rights: those for all namespaces first, then by resource.
func (r Right) compare(other Right) int {
	return cmp.Or(
		strings.Compare(r.Namespace, other.Namespace), strings.Compare(r.Group, other.Group),
		strings.Compare(r.Resource, other.Resource),
		strings.Compare(r.Subresource, other.Subresource),
		strings.Compare(r.Name, other.Name), compareVerbs(r.Verb, other.Verb))
}

// collector gathers needs.
type collector struct {
	needs map[Right]*Need
}

func (c *collector) add(r Right, why Reason) *Need {
	n := c.needs[r]
	if n == nil {
		n = &Need{Right: r}
		c.needs[r] = n
	}
	if !slices.Contains(n.For, why) {
		n.For = append(n.For, why)
	}
	return n
}

// folded returns the needs in order. It leaves out those that others cover, which get their reasons.
func (c *collector) folded() []Need {
	for right, narrow := range c.needs {
		wider := []Right{right, right, right}
		wider[0].Namespace, wider[0].Name = "", ""
		wider[1].Namespace = ""
		wider[2].Name = ""
		for _, w := range wider {
			if wide := c.needs[w]; w != right && wide != nil {
				for _, why := range narrow.For {
					c.add(w, why)
				}
				if narrow.Unless == "" {
					wide.Unless = ""
				}
				delete(c.needs, right)
				break
			}
		}
	}
	out := make([]Need, 0, len(c.needs))
	for _, n := range c.needs {
		slices.SortFunc(n.For, func(a, b Reason) int {
			return cmp.Or(strings.Compare(a.By, b.By), strings.Compare(a.Wide, b.Wide))
		})
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b Need) int { return a.compare(b.Right) })
	return out
}
