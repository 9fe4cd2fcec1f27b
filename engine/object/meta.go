package object

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	_ runtime.Object            = (*Object)(nil)
	_ metav1.ObjectMetaAccessor = (*Object)(nil)
)

// GetObjectKind tells nothing: whoever holds an Object knows its resource.
func (o *Object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the object itself: it cannot change.
func (o *Object) DeepCopyObject() runtime.Object { return o }

// GetObjectMeta is a copy of what client-go's caches ask of an object's metadata: its identity, labels and annotations.
// To change it changes nothing.
func (o *Object) GetObjectMeta() metav1.Object { return &readOnlyMeta{object: o} }

// readOnlyMeta decodes labels and annotations only when asked: of most objects client-go wants the identity alone. What else
// metav1.Object has comes from the embedded zero ObjectMeta, as do the setters, which thus have no effect on the object.
type readOnlyMeta struct {
	metav1.ObjectMeta
	object *Object
}

func (m *readOnlyMeta) GetNamespace() string              { return m.object.namespace }
func (m *readOnlyMeta) GetName() string                   { return m.object.name }
func (m *readOnlyMeta) GetUID() types.UID                 { return types.UID(m.object.uid) }
func (m *readOnlyMeta) GetResourceVersion() string        { return m.object.resourceVersion }
func (m *readOnlyMeta) GetLabels() map[string]string      { return m.object.Labels() }
func (m *readOnlyMeta) GetAnnotations() map[string]string { return m.object.Annotations() }
