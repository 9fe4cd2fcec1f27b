// Package object holds Kubernetes objects as the engine keeps them: immutable, as the compact JSON that the API server
// sent, without metadata.managedFields, beside the few strings that identify them. What expressions want to see of an
// object is decoded on demand, and only the paths that they mention (see [Paths], [Object.Decode]).
//
// An Object costs its JSON and about a hundred bytes. It may be shared by any number of goroutines. The package does no
// I/O and knows no schema: a path is names, a value is JSON.
package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is an immutable Kubernetes object. It implements runtime.Object and metav1.ObjectMetaAccessor, so that
// client-go's caches can hold it.
type Object struct {
	json []byte // compact and valid

	// The identity's strings do not share memory with json or with the text that they were parsed from.
	namespace, name, uid, resourceVersion string
}

// MaxDepth is how deep an object may nest. The API server refuses what nests deeper than 10,000 (apimachinery's
// util/json); no schema comes near either.
const MaxDepth = 1000

// FromJSON makes an Object of the JSON of one, which it does not keep. It refuses what is not a valid JSON object in
// UTF-8, nests deeper than [MaxDepth], or has an identity of the wrong type. A missing identity is left empty.
func FromJSON(b []byte) (*Object, error) {
	var compact bytes.Buffer
	compact.Grow(len(b))
	if err := json.Compact(&compact, b); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	return fromCompact(compact.Bytes())
}

// FromUnstructured makes an Object of client-go's form of one, which it neither keeps nor changes. Integers stay
// integers.
func FromUnstructured(u *unstructured.Unstructured) (*Object, error) {
	if u == nil || u.Object == nil {
		return nil, errors.New("object: empty")
	}
	content := u.Object
	if meta, ok := content["metadata"].(map[string]any); ok && meta["managedFields"] != nil {
		content = without(content, "metadata")
		content["metadata"] = without(meta, "managedFields")
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(content); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	return fromCompact(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

func without(m map[string]any, key string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// fromCompact makes an Object of compact, valid JSON, which it does not keep.
func fromCompact(b []byte) (*Object, error) {
	if len(b) == 0 || b[0] != '{' {
		return nil, errors.New("object: not a JSON object")
	}
	if !utf8.Valid(b) {
		return nil, errors.New("object: not UTF-8")
	}
	if depth(b) > MaxDepth {
		return nil, fmt.Errorf("object: nests deeper than %d", MaxDepth)
	}
	o := &Object{json: withoutManagedFields(b)}
	tree, _ := o.Decode(&identityPaths).(map[string]any)
	meta, ok := tree["metadata"].(map[string]any)
	if !ok && tree["metadata"] != nil {
		return nil, errors.New("object: metadata is not an object")
	}
	for i, field := range []*string{&o.namespace, &o.name, &o.uid, &o.resourceVersion} {
		switch v := meta[identity[i]].(type) {
		case nil:
		case string:
			*field = v
		default:
			return nil, fmt.Errorf("object: metadata.%s is not a string", identity[i])
		}
	}
	return o, nil
}

var (
	identity      = [...]string{"namespace", "name", "uid", "resourceVersion"} // within metadata
	identityPaths = *Identity()
)

// Identity is a new set of the paths by which objects are told apart, and their states.
func Identity() *Paths {
	p := new(Paths)
	for _, name := range identity {
		p.Add("metadata", name)
	}
	return p
}

func hasIdentity(p *Paths) bool {
	for _, name := range identity {
		if !p.Covers("metadata", name) {
			return false
		}
	}
	return true
}

// JSON is the object as compact JSON without metadata.managedFields. The caller must not change it.
func (o *Object) JSON() []byte { return o.json }

// Size is how many bytes the object holds on to, roughly.
func (o *Object) Size() int { return len(o.json) + 128 }

// Namespace is empty for cluster-scoped objects.
func (o *Object) Namespace() string { return o.namespace }

// Name is the object's name within its namespace and resource.
func (o *Object) Name() string { return o.name }

// UID tells objects of one name apart that existed one after the other.
func (o *Object) UID() string { return o.uid }

// ResourceVersion is the server's version of this state.
func (o *Object) ResourceVersion() string { return o.resourceVersion }

// Key is namespace/name, or the name alone, as client-go's MetaNamespaceKeyFunc has it.
func (o *Object) Key() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// Labels decodes the object's labels. Values that are not strings are left out.
func (o *Object) Labels() map[string]string { return o.stringMap("labels", &labelPaths) }

// Annotations decodes the object's annotations. Values that are not strings are left out.
func (o *Object) Annotations() map[string]string { return o.stringMap("annotations", &annotationPaths) }

var (
	labelPaths      = pathsOf("metadata", "labels")
	annotationPaths = pathsOf("metadata", "annotations")
)

func pathsOf(path ...string) (p Paths) {
	p.Add(path...)
	return p
}

func (o *Object) stringMap(field string, p *Paths) map[string]string {
	tree, _ := o.Decode(p).(map[string]any)
	meta, _ := tree["metadata"].(map[string]any)
	values, _ := meta[field].(map[string]any)
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]string, len(values))
	for k, v := range values {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}
