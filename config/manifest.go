package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

var kinds = []string{kindSource, kindHandler, kindRule, kindTest}

// group begins the apiVersion of every manifest.
const group = "informd.dev/"

// maxName is the length of a DNS label (RFC 1123).
const maxName = 63

// manifest reads one manifest and adds it to the config.
func (r *reader) manifest(root *yaml.Node) {
	if r.foreign(root) {
		return
	}
	top := r.mapping(root, root, "", manifestFields)
	r.apiVersion(top.get("apiVersion"))
	kind := r.kind(top.get("kind"))
	r.fileFits(kind, top.value["kind"])
	name := r.metadata(kind, top)

	spec := top.get("spec")
	switch at := top.key["spec"]; kind {
	case kindSource:
		r.source(spec, at, name)
	case kindHandler:
		r.handler(spec, at, name)
	case kindRule:
		r.rule(spec, at, name)
	case kindTest:
		r.test(spec, at, name)
	}
}

// definition keeps a CustomResourceDefinition, which stands beside manifests so that expressions are
// checked against it. informd reads no more of it.
func (r *reader) definition(root *yaml.Node) bool {
	apiVersion, kind := identity(root)
	if !isString(apiVersion) || !isString(kind) ||
		kind.Value != "CustomResourceDefinition" ||
		!strings.HasPrefix(apiVersion.Value, "apiextensions.k8s.io/") {
		return false
	}
	var tree any
	err := root.Decode(&tree)
	var text json.RawMessage
	if err == nil {
		text, err = json.Marshal(tree)
	}
	if err != nil {
		r.badDefinition(root, kind, err)
		return true
	}
	r.config.Definitions = append(r.config.Definitions, Definition{At: r.text(kind), JSON: text})
	return true
}

// configMap reads the manifests in the data of a ConfigMap: those of the keys that informd run would
// read if the ConfigMap was mounted as a folder. It reports whether there are any.
func (r *reader) configMap(root *yaml.Node) (isOne bool) {
	apiVersion, kind := identity(root)
	if !isString(apiVersion) || apiVersion.Value != "v1" || !isString(kind) ||
		kind.Value != "ConfigMap" || !r.file.within.IsZero() {
		return false
	}
	data := child(root, "data")
	if data == nil || data.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(data.Content); i += 2 {
		key, value := data.Content[i].Value, data.Content[i+1]
		ext := filepath.Ext(key)
		if ext != ".yaml" && ext != ".yml" || strings.HasPrefix(key, ".") || IsTestFile(key) ||
			value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str" {
			continue
		}
		isOne = true
		if text, bad := decode(File{Path: r.file.path, Data: []byte(value.Value)}); bad != nil {
			r.mistake(value, "data.%s: %s", key, bad.Message)
			r.markUnread(text)
			continue
		}
		within := newFile(r.file.path, value.Value)
		within.within = r.text(value)
		r.parseText(within)
	}
	return isOne
}

// badDefinition reports a CustomResourceDefinition that is no JSON: at the values that are to blame, or
// else at its kind.
func (r *reader) badDefinition(root, kind *yaml.Node, err error) {
	before := len(r.mistakes)
	if r.vet(root) && len(r.mistakes) == before {
		r.json(root, "CustomResourceDefinition")
	}
	if len(r.mistakes) == before {
		r.mistake(kind, "the CustomResourceDefinition cannot be read: %s", clip(err.Error(), maxSnippet))
	}
}

// identity returns the nodes of apiVersion and kind, or nil.
func identity(root *yaml.Node) (apiVersion, kind *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		return nil, nil
	}
	return child(root, "apiVersion"), child(root, "kind")
}

// foreign reports a manifest of another group and kind, such as a Deployment in the same folder.
// That is one mistake, whatever its fields are.
func (r *reader) foreign(root *yaml.Node) bool {
	apiVersion, kind := identity(root)
	if !isString(apiVersion) || strings.HasPrefix(apiVersion.Value, group) ||
		!isString(kind) || slices.Contains(kinds, kind.Value) {
		return false
	}
	if apiVersion.Value == "v1" && kind.Value == "ConfigMap" && r.file.within.IsZero() { // others are read
		r.mistake(kind, "no key of this ConfigMap's data holds manifests: informd reads keys that end in "+
			".yaml or .yml, do not begin with a dot, and are no tests")
		return true
	}
	r.mistake(apiVersion, "a %s of %s is not a manifest of informd: informd reads %s of %s",
		quote(kind.Value), quote(apiVersion.Value), strings.Join(kinds, ", "), manifestVersion)
	return true
}

func isString(n *yaml.Node) bool {
	return n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" &&
		strings.TrimSpace(n.Value) != ""
}

func (r *reader) apiVersion(n *yaml.Node) {
	if s := r.str(n, "apiVersion"); s != "" && s != manifestVersion {
		r.mistake(n, "unknown apiVersion %s: informd reads %s", quote(s), manifestVersion)
	}
}

func (r *reader) kind(n *yaml.Node) string {
	s := r.str(n, "kind")
	for _, kind := range kinds {
		if s == kind {
			return s
		}
	}
	if s != "" {
		hint := ""
		if k := r.suggest(s, kinds); k != "" {
			hint = didYouMean(k)
		}
		r.mistake(n, "unknown kind %s: the kinds are %s%s",
			quote(s), strings.Join(kinds, ", "), hint)
	}
	return ""
}

// metadata reads the name and records that its kind has it. If the kind is unknown, every kind has
// it, so that references to it are not called dangling.
func (r *reader) metadata(kind string, top mapping) Text {
	n := top.get("metadata")
	if n == nil {
		return Text{}
	}
	metadata := r.mapping(n, top.key["metadata"], "metadata", metadataFields)
	for _, field := range []string{"labels", "annotations"} {
		r.marks(metadata.get(field), "metadata."+field)
	}
	node := metadata.get("name")
	name := r.str(node, "metadata.name")
	if name == "" {
		return Text{}
	}
	at := r.text(node)
	if fault := notLabel("metadata.name", name); fault != "" {
		r.mistake(node, "%s", fault)
	}
	for _, k := range kinds {
		if kind != "" && kind != k {
			continue
		}
		if first, ok := r.names[k].at[name]; ok && kind != "" {
			r.mistake(node, "there is another %s named %s, at %s", kind, quote(name), first)
		}
		r.names[k].add(name, at.Position(0))
	}
	return at
}

// marks checks a manifest's labels or annotations. Tools add and read them. informd does not, so it
// keeps nothing of them. As in Kubernetes, the values are strings, which may be empty.
func (r *reader) marks(n *yaml.Node, what string) {
	if n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.mistake(n, "%s must be a mapping of strings, not %s", what, describe(n))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case value.Kind == yaml.ScalarNode && value.ShortTag() == "!!str":
		case value.Kind == yaml.ScalarNode && value.ShortTag() == "!!null":
			r.mistake(key, `%s.%s has no value: write "" if it is to be empty`, what, key.Value)
		default:
			r.str(value, what+"."+key.Value)
		}
	}
}

// notLabel says what is wrong with s as a DNS label, or returns "".
func notLabel(what, s string) string {
	if dnsLabels.MatchString(s) {
		return ""
	}
	return fmt.Sprintf("%s %s is not a DNS label: "+
		"lower-case letters, digits and -, a letter or digit at both ends, at most %d characters",
		what, quote(s), maxName)
}

var dnsLabels = regexp.MustCompile(aDNSLabel.pattern)

func isNameByte(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' }
