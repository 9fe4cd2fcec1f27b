// Package applied finds what rules with prune have applied in a cluster, also rules that are gone, and
// has it adopted or deleted. It asks the API server with the rights of whoever runs the command.
package applied

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/internal/bounded"
)

// Cluster looks for applied objects in a cluster. It is safe for concurrent use.
type Cluster struct {
	discovery *discovery.DiscoveryClient
	metadata  metadata.Interface
}

// Object is an object that a rule has applied.
type Object struct {
	Rule     string
	Resource schema.GroupVersionResource
	meta     metav1.ObjectMeta
}

// Namespace returns the namespace of the object, or "".
func (o Object) Namespace() string { return o.meta.Namespace }

// Name returns the name of the object.
func (o Object) Name() string { return o.meta.Name }

// For returns the object of the rule's source that the object was applied for: NAMESPACE/NAME, or NAME.
// It returns "" if the object does not say.
func (o Object) For() string {
	_, key, _ := strings.Cut(o.meta.Annotations[prepare.SourceAnnotation], " ")
	return key
}

// IsHeld reports whether the object has finalizers: it is there until somebody takes them away.
func (o Object) IsHeld() bool { return len(o.meta.Finalizers) > 0 }

// kubectlApply is the field manager of kubectl apply without --server-side, which does not apply as the
// API server understands it.
const kubectlApply = "kubectl-client-side-apply"

// Others returns who applies the object too: other rules, perhaps of another informd, tools, people.
func (o Object) Others() (names []string) {
	for _, f := range o.meta.ManagedFields {
		is := f.Manager == kubectlApply ||
			f.Operation == metav1.ManagedFieldsOperationApply && f.Manager != action.FieldManager(o.Rule)
		if is && !slices.Contains(names, f.Manager) {
			names = append(names, f.Manager)
		}
	}
	return names
}

// String returns the resource, and the namespace and name.
func (o Object) String() string {
	name := o.meta.Name
	if o.meta.Namespace != "" {
		name = o.meta.Namespace + "/" + name
	}
	return object.ResourceName(o.Resource) + " " + name
}

const (
	requestTimeout = 30 * time.Second // of one request, a page of a list for example
	maxEmptyPages  = 1000             // of one list; a page without objects is legal
)

// NewCluster returns the cluster of config. It sends nothing.
func NewCluster(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // it sends one request at a time
	config.Timeout = cmp.Or(config.Timeout, requestTimeout)
	config.WarningHandler = rest.NoWarnings{} // about versions, of which it only lists what is there
	config.Wrap(bounded.Transport)
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	m, err := metadata.NewForConfig(config)
	return &Cluster{d, m}, err
}

// Find returns what rules have applied and nobody is deleting: all that it can list, of a rule, or of
// all rules if rule is empty. They are sorted by rule, resource, namespace and name. unlisted has why
// resources could not be listed.
func (c *Cluster) Find(ctx context.Context, rule string) (found []Object, unlisted []error, err error) {
	lists, err := c.discovery.ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return nil, nil, err
	}
	if err != nil {
		unlisted = append(unlisted, err)
	}
	selector := prepare.RuleLabel
	if rule != "" {
		if len(validation.IsValidLabelValue(rule)) > 0 {
			return nil, nil, fmt.Errorf("no rule can have the name %.100q", rule)
		}
		selector += "=" + rule
	}
	seen := make(map[types.UID]bool) // one object may be served by several groups
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			unlisted = append(unlisted, err)
			continue
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "patch") {
				continue // nothing can be applied to it, or it cannot be found
			}
			resource := gv.WithResource(r.Name)
			some, err := c.list(ctx, resource, selector)
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
				unlisted = append(unlisted, fmt.Errorf("%s: %w", object.ResourceName(resource), err))
			}
			for _, o := range some {
				if !seen[o.meta.UID] {
					seen[o.meta.UID] = true
					found = append(found, o)
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Object) int {
		return strings.Compare(a.Rule+"\x00"+a.String(), b.Rule+"\x00"+b.String())
	})
	return found, unlisted, nil
}

// list returns the objects of a resource that a rule has applied. An object that only has the labels,
// which people and controllers copy, is none.
func (c *Cluster) list(
	ctx context.Context, resource schema.GroupVersionResource, selector string,
) (found []Object, err error) {
	empty := 0
	pages := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (list runtime.Object, err error) {
		page, err := c.metadata.Resource(resource).List(ctx, o)
		if err != nil {
			return nil, err // a nil page would not be a nil list
		}
		if len(page.Items) == 0 {
			empty++
		}
		if page.Continue != "" && (empty > maxEmptyPages || page.Continue == o.Continue) {
			return nil, errors.New("the list does not get on: page after page has no objects, or one leads to itself")
		}
		return page, nil
	}))
	err = pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(item runtime.Object) error {
		o := item.(*metav1.PartialObjectMetadata)
		if one := (Object{o.Labels[prepare.RuleLabel], resource, o.ObjectMeta}); one.isApplied() {
			found = append(found, one)
		}
		return nil
	})
	return found, err
}

// isApplied reports whether the API server remembers that the rule applied the object.
func (o Object) isApplied() bool {
	return o.meta.DeletionTimestamp == nil && o.manager() >= 0
}

// manager returns the index of the rule in the managed fields, or -1.
func (o Object) manager() int {
	return slices.IndexFunc(o.meta.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == action.FieldManager(o.Rule) && f.Subresource == "" &&
			f.Operation == metav1.ManagedFieldsOperationApply
	})
}

// ErrChanged is the error of Delete and Adopt for an object that has changed since Find returned it.
var ErrChanged = errors.New("it has changed since the command listed it: run the command again")

func changed(err error) error {
	if apierrors.IsConflict(err) {
		return ErrChanged
	}
	return err
}

// Delete deletes an object, if it has not changed since Find returned it. It returns nil if the object
// is gone.
func (c *Cluster) Delete(ctx context.Context, o Object) error {
	background := metav1.DeletePropagationBackground
	err := c.metadata.Resource(o.Resource).Namespace(o.meta.Namespace).Delete(ctx, o.meta.Name, metav1.DeleteOptions{
		PropagationPolicy: &background,
		Preconditions:     &metav1.Preconditions{UID: &o.meta.UID, ResourceVersion: &o.meta.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return changed(err)
}

// Adopt makes an object one that another rule has applied, if it has not changed since Find returned
// it: the rule's label says so, and what the former rule owns of it the other one owns.
func (c *Cluster) Adopt(ctx context.Context, o Object, by string) error {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	managers, err := adopted(o.meta.ManagedFields, action.FieldManager(o.Rule), action.FieldManager(by))
	if err != nil {
		return err
	}
	label := strings.NewReplacer("~", "~0", "/", "~1").Replace(prepare.RuleLabel)
	patch, err := json.Marshal([]operation{
		{"replace", "/metadata/resourceVersion", o.meta.ResourceVersion}, // no other object had it
		{"replace", "/metadata/labels/" + label, by},
		{"replace", "/metadata/managedFields", managers},
	})
	if err != nil {
		return err
	}
	_, err = c.metadata.Resource(o.Resource).Namespace(o.meta.Namespace).Patch(ctx, o.meta.Name,
		types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: action.FieldManager(by)})
	return changed(err)
}

// adopted returns managed fields in which what one field manager has applied is another one's. What
// both have applied is joined: the API server remembers one entry of a manager only.
func adopted(all []metav1.ManagedFieldsEntry, from, by string) (managers []metav1.ManagedFieldsEntry, err error) {
	isApply := func(f metav1.ManagedFieldsEntry) bool { return f.Operation == metav1.ManagedFieldsOperationApply }
	for _, f := range all {
		if isApply(f) && f.Manager == from {
			f.Manager = by
		}
		same := func(m metav1.ManagedFieldsEntry) bool {
			return isApply(m) && m.Manager == by && m.Subresource == f.Subresource
		}
		at := slices.IndexFunc(managers, same)
		if !same(f) || at < 0 {
			managers = append(managers, f)
			continue
		}
		if managers[at].FieldsV1, err = union(managers[at].FieldsV1, f.FieldsV1); err != nil {
			return nil, fmt.Errorf("read its managed fields: %w", err)
		}
	}
	return managers, nil
}

// union returns the fields that are in a or in b.
func union(a, b *metav1.FieldsV1) (*metav1.FieldsV1, error) {
	var in, more map[string]any
	if err := errors.Join(json.Unmarshal(a.GetRawBytes(), &in), json.Unmarshal(b.GetRawBytes(), &more)); err != nil {
		return nil, err
	}
	text, err := json.Marshal(join(in, more))
	return metav1.NewFieldsV1(string(text)), err
}

func join(in, more map[string]any) map[string]any {
	for key, value := range more {
		below, _ := in[key].(map[string]any)
		further, _ := value.(map[string]any)
		if below != nil && further != nil {
			value = join(below, further)
		}
		in[key] = value
	}
	return in
}
