package source

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/informd/informd/engine/object"
)

// This file is the only one that knows in what form client-go's dynamic client brings objects.

// convert makes an Object of what a watch event or a list has brought, cut down to keep; nil keeps it whole.
func convert(o runtime.Object, keep *object.Paths) (*object.Object, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("source: %T where an object should be", o)
	}
	obj, err := object.FromUnstructured(u)
	if err != nil {
		return nil, err
	}
	if obj.Name() == "" {
		return nil, errors.New("source: an object without a name")
	}
	if keep != nil {
		obj = obj.Prune(keep)
	}
	return obj, nil
}

// convertList makes the list that the reflector gets. Items that cannot be read are left out and handed to skip. It
// takes u apart as it goes, so that not both forms of everything are in memory.
func convertList(
	u *unstructured.UnstructuredList, keep *object.Paths, skip func(runtime.Object, error),
) *internalversion.List {
	list := &internalversion.List{
		ListMeta: metav1.ListMeta{
			ResourceVersion: u.GetResourceVersion(), Continue: u.GetContinue(), RemainingItemCount: u.GetRemainingItemCount(),
		},
		Items: make([]runtime.Object, 0, len(u.Items)),
	}
	for n := range u.Items {
		obj, err := convert(&u.Items[n], keep)
		if err != nil {
			skip(&u.Items[n], err)
		} else {
			list.Items = append(list.Items, obj)
		}
		u.Items[n].Object = nil
	}
	return list
}

// convertBookmark makes an Object of a bookmark, of which the reflector reads the resourceVersion and the annotations.
// It may have no name.
func convertBookmark(o runtime.Object) (*object.Object, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("source: %T where a bookmark should be", o)
	}
	return object.FromUnstructured(u)
}

// identify makes an Object of no more than the identity of one that cannot be read.
func identify(o runtime.Object) (*object.Object, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("source: %T where an object should be", o)
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]string{
		"namespace": u.GetNamespace(), "name": u.GetName(), "uid": string(u.GetUID()), "resourceVersion": u.GetResourceVersion(),
	}})
	if err != nil {
		return nil, err
	}
	obj, err := object.FromJSON(text)
	if err == nil && obj.Name() == "" {
		err = errors.New("source: an object without a name")
	}
	return obj, err
}
