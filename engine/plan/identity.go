package plan

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/object"
)

// identity is the namespace and the name of the object that an action is about, as the manifest has
// them. Each may be nil.
type identity struct {
	namespace, name *config.Value
	path            string      // of namespace, up to it
	at              config.Text // where to report a missing namespace
	isOwn           bool        // without a namespace it is that of the object that changed
}

// identityOf returns the identity of an action. isKnown is false if the manifest does not say it.
func identityOf(a config.Action, source config.Source) (of identity, isKnown bool) {
	if a.Verb != config.Apply && a.Verb != config.Create {
		isOwn := a.Resource == (schema.GroupVersionResource{}) || a.Resource == source.Resource
		return identity{a.Namespace, a.Name, "", a.ResourceAt, isOwn}, true
	}
	for _, member := range membersOf(a.Object) {
		if member.Name.String() != "metadata" || member.Value.Kind != config.ValueMapping {
			continue
		}
		of := identity{path: "metadata.", at: member.Name}
		for _, in := range member.Value.Members {
			switch in.Name.String() {
			case "name":
				of.name = in.Value
			case "namespace":
				of.namespace = in.Value
			}
		}
		return of, true
	}
	return identity{}, false
}

// membersOf returns the members of a mapping, or nil.
func membersOf(v *config.Value) []config.Member {
	if v == nil || v.Kind != config.ValueMapping {
		return nil
	}
	return v.Members
}

// identity reports a namespace that an action lacks, or has in vain, and names that no object has.
func (m *fitting) identity(a config.Action, source config.Source) {
	of, isKnown := identityOf(a, source)
	if !isKnown {
		return
	}
	for _, v := range []*config.Value{of.namespace, of.name} {
		if mistake, found := OtherSyntax(v, true); found {
			m.add(mistake)
			return
		}
	}
	resource := a.Resource
	if resource == (schema.GroupVersionResource{}) && !a.ResourceAt.IsZero() {
		return // it is mistaken
	}
	if resource == (schema.GroupVersionResource{}) {
		resource = source.Resource
	}
	m.namespace(of, resource, source)
	if fault := notNamespace(of.namespace); fault != "" {
		m.add(of.namespace.Text.Mistake(0, fault))
	}
	if fault := m.notName(of.name, resource); fault != "" {
		m.add(of.name.Text.Mistake(0, fault))
	}
}

// ownNamespace matches the expression that most actions have as their namespace.
var ownNamespace = regexp.MustCompile(`\$\{\s*object\??\.metadata\??\.namespace\s*\}`)

// namespace checks whether an action has a namespace if and only if its resource is in namespaces.
func (m *fitting) namespace(of identity, resource schema.GroupVersionResource, source config.Source) {
	isNamespaced, known := m.schemas.IsNamespaced(resource)
	ofSource, isSourceKnown := m.schemas.IsNamespaced(source.Resource)
	name, text := object.ResourceName(resource), ""
	isGiven := of.namespace != nil && string(of.namespace.JSON) != "null"
	if isGiven {
		text = of.namespace.Text.String()
	}
	isOwn := ownNamespace.MatchString(text)
	instead := fmt.Sprintf("%snamespace: \"${object.metadata.namespace}\"", of.path)
	if isSourceKnown && !ofSource || source.Name == "" {
		instead = of.path + "namespace: NAME"
	}
	if source.Resource == namespaces {
		instead = fmt.Sprintf("%snamespace: \"${object.metadata.name}\"", of.path)
	}
	switch {
	case isGiven && isOwn && isSourceKnown && !ofSource && isNamespaced:
		m.add(of.namespace.Text.Mistake(0, fmt.Sprintf("object.metadata.namespace is always nil: %s are "+
			"in no namespace; write %s", object.ResourceName(source.Resource), instead)))
	case !known || isNamespaced && isGiven || !isNamespaced && !isGiven || of.isOwn && !isGiven:
	case isNamespaced:
		m.add(of.at.Mistake(0, fmt.Sprintf("%s are in namespaces, and this says none: write %s",
			name, instead)))
	case !strings.HasPrefix(text, "${") || isOwn && ofSource: // another expression may give nil
		m.add(of.namespace.Text.Mistake(0, fmt.Sprintf("%s are in no namespace: leave %snamespace out",
			name, of.path)))
	}
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// literal returns what a template stands for if it is a constant text.
func literal(v *config.Value) (text string, ok bool) {
	if v == nil || v.Kind != config.ValueTemplate || strings.Contains(v.Text.String(), "${") {
		return "", false
	}
	return v.Text.String(), true
}

func notNamespace(v *config.Value) string {
	text, ok := literal(v)
	if !ok || text == "" || len(validation.IsDNS1123Label(text)) == 0 {
		return ""
	}
	return fmt.Sprintf("no namespace is named %q: write lower-case letters, digits and -%s", text,
		hintForVariable(text))
}

// inNoName matches what the name of no object has.
var inNoName = regexp.MustCompile(`[\s${}/%]`)

// freeNames are the groups of Kubernetes that let some objects have names that are no DNS names.
var freeNames = map[string]bool{
	"rbac.authorization.k8s.io": true, "apiregistration.k8s.io": true, "networking.k8s.io": true,
	"internal.apiserver.k8s.io": true, "certificates.k8s.io": true,
}

// dnsNamed are resources of such groups whose objects have DNS names all the same.
var dnsNamed = map[string]bool{"networkpolicies": true, "ingresses": true, "ingressclasses": true}

// notName says what is wrong with a constant name of an object, or returns "".
func (m *fitting) notName(v *config.Value, of schema.GroupVersionResource) string {
	text, ok := literal(v)
	if !ok || text == "" {
		return ""
	}
	isDNS := len(m.schemas.Resources(of.GroupVersion())) > 0 &&
		(!freeNames[of.Group] || dnsNamed[of.Resource])
	switch {
	case isDNS && len(validation.IsDNS1123Subdomain(text)) > 0:
		return fmt.Sprintf("no object of %s is named %q: write lower-case letters, digits, - and .%s",
			object.ResourceName(of), text, hintForVariable(text))
	case inNoName.MatchString(text):
		return fmt.Sprintf("no object is named %q%s", text, hintForVariable(text))
	}
	return ""
}

// hintForVariable returns what follows the message about a name that seems to be a variable, or "".
func hintForVariable(text string) string {
	if !strings.HasPrefix(text, "$") {
		return ""
	}
	return "; an expression is written ${…}, such as ${object.metadata.name}"
}

// encoded are the fields whose values are base64, with what takes texts instead.
var encoded = map[string]string{
	"secrets.data":          "write it in stringData, or as \"${toBase64(…)}\"",
	"configmaps.binaryData": "write it in data, or as \"${toBase64(…)}\"",
}

// base64 reports constant texts that are no base64 in the object, or the merge patch, of an action.
func (m *fitting) base64(a config.Action, source config.Source) {
	resource := a.Resource
	if resource == (schema.GroupVersionResource{}) {
		resource = source.Resource
	}
	if resource.Group != "" {
		return
	}
	v := a.Object
	if v == nil && !a.JSONPatch {
		v = a.Patch
	}
	for _, field := range membersOf(v) {
		instead := encoded[resource.Resource+"."+field.Name.String()]
		if instead == "" {
			continue
		}
		for _, member := range membersOf(field.Value) {
			text, ok := literal(member.Value)
			if _, err := base64.StdEncoding.DecodeString(text); ok && err != nil {
				m.add(member.Value.Text.Mistake(0, fmt.Sprintf("%s of %s has values in base64: %s",
					field.Name, object.ResourceName(resource), instead)))
			}
		}
	}
}
