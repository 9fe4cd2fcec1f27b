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

// GetObjectKind returns no kind: whoever holds an Object knows its resource.
func (o *Object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the object itself, which cannot change.
func (o *Object) DeepCopyObject() runtime.Object { return o }

// GetObjectMeta returns the metadata that client-go's caches read: identity, labels and
// annotations. The rest is empty, and the setters do nothing.
func (o *Object) GetObjectMeta() metav1.Object { return (*metadata)(o) }

// metadata is an Object as client-go sees its metadata. It is the same memory, because client-go
// asks for it several times per event.
type metadata Object

func (m *metadata) GetNamespace() string              { return (*Object)(m).Namespace() }
func (m *metadata) GetName() string                   { return (*Object)(m).Name() }
func (m *metadata) GetUID() types.UID                 { return types.UID((*Object)(m).UID()) }
func (m *metadata) GetResourceVersion() string        { return (*Object)(m).ResourceVersion() }
func (m *metadata) GetLabels() map[string]string      { return (*Object)(m).Labels() }
func (m *metadata) GetAnnotations() map[string]string { return (*Object)(m).Annotations() }

func (*metadata) GetGenerateName() string                       { return "" }
func (*metadata) GetGeneration() int64                          { return 0 }
func (*metadata) GetSelfLink() string                           { return "" }
func (*metadata) GetCreationTimestamp() metav1.Time             { return metav1.Time{} }
func (*metadata) GetDeletionTimestamp() *metav1.Time            { return nil }
func (*metadata) GetDeletionGracePeriodSeconds() *int64         { return nil }
func (*metadata) GetFinalizers() []string                       { return nil }
func (*metadata) GetOwnerReferences() []metav1.OwnerReference   { return nil }
func (*metadata) GetManagedFields() []metav1.ManagedFieldsEntry { return nil }

func (*metadata) SetNamespace(string)                          {}
func (*metadata) SetName(string)                               {}
func (*metadata) SetUID(types.UID)                             {}
func (*metadata) SetResourceVersion(string)                    {}
func (*metadata) SetLabels(map[string]string)                  {}
func (*metadata) SetAnnotations(map[string]string)             {}
func (*metadata) SetGenerateName(string)                       {}
func (*metadata) SetGeneration(int64)                          {}
func (*metadata) SetSelfLink(string)                           {}
func (*metadata) SetCreationTimestamp(metav1.Time)             {}
func (*metadata) SetDeletionTimestamp(*metav1.Time)            {}
func (*metadata) SetDeletionGracePeriodSeconds(*int64)         {}
func (*metadata) SetFinalizers([]string)                       {}
func (*metadata) SetOwnerReferences([]metav1.OwnerReference)   {}
func (*metadata) SetManagedFields([]metav1.ManagedFieldsEntry) {}
