// Package object holds Kubernetes objects as the engine keeps them: immutable, as the compact JSON that the API server
// sent, without metadata.managedFields, beside the few strings that identify them. What expressions want to see of an
// object is decoded on the way in, in the one pass over the text that validates it (see [Parser]), or on demand, and
// only the paths that they mention (see [Paths], [Object.Decode]).
//
// An Object costs its JSON, which a [Packer] makes several times smaller, and about two hundred bytes. It may be shared
// by any number of goroutines. The package does no I/O and knows no schema: a path is names, a value is JSON.
package object

import (
	"sync/atomic"
)

// Object is an immutable Kubernetes object. It implements runtime.Object and metav1.ObjectMetaAccessor, so that
// client-go's caches can hold it.
type Object struct {
	content atomic.Pointer[content]

	// namespace/name, uid and resourceVersion, one after the other; ends are where the namespace, the name and the uid end.
	// It shares no memory with the content or with the text that it was parsed from.
	identity string
	ends     [3]uint32
}

// JSON is the object as compact JSON without metadata.managedFields. The caller must not change it. Each call unpacks a
// packed object anew.
func (o *Object) JSON() []byte { return o.content.Load().unpack(nil) }

// IsPacked tells whether a [Packer] has packed the text.
func (o *Object) IsPacked() bool { return o.content.Load().packed != nil }

// Size is how many bytes the object holds on to now, roughly.
func (o *Object) Size() int { return len(o.content.Load().bytes) + len(o.identity) + 96 }

// Namespace is empty for cluster-scoped objects.
func (o *Object) Namespace() string { return o.identity[:o.ends[0]] }

// Name is the object's name within its namespace and resource.
func (o *Object) Name() string {
	if o.ends[0] == 0 {
		return o.Key()
	}
	return o.identity[o.ends[0]+1 : o.ends[1]]
}

// UID tells objects of one name apart that existed one after the other.
func (o *Object) UID() string { return o.identity[o.ends[1]:o.ends[2]] }

// ResourceVersion is the server's version of this state.
func (o *Object) ResourceVersion() string { return o.identity[o.ends[2]:] }

// Key is namespace/name, or the name alone, as client-go's MetaNamespaceKeyFunc has it.
func (o *Object) Key() string { return o.identity[:o.ends[1]] }

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
