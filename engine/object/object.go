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
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is an immutable Kubernetes object. It implements runtime.Object and metav1.ObjectMetaAccessor, so that
// client-go's caches can hold it.
type Object struct {
	content atomic.Pointer[content]

	// The identity's strings do not share memory with the content or with the text that they were parsed from.
	namespace, name, uid, resourceVersion string
}

// content is what an object says, as compact and valid JSON. It is immutable.
type content struct{ text []byte }

// read hands f the object's JSON, which is f's until it returns.
func (o *Object) read(f func(text []byte)) { f(o.content.Load().text) }

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
	return FromJSON(buf.Bytes())
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

// JSON is the object as compact JSON without metadata.managedFields. The caller must not change it.
func (o *Object) JSON() []byte { return o.content.Load().text }

// Size is how many bytes the object holds on to, roughly.
func (o *Object) Size() int { return len(o.content.Load().text) + 128 }

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
