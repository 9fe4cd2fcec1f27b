package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// step is a change in the cluster, with the rules of examples/rules that must deliver it and the
// objects that examples/actions must make.
type step struct {
	does    string
	do      func(context.Context) error
	reaches []string
	makes   []made
}

// made is an object that informd makes.
type made struct{ resource, namespace, name string }

func newSteps(c changer) []step {
	pod := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod",
			"metadata":{"name":%q,"namespace":"shop"},
			"spec":{"containers":[{"name":"web","image":"nginx:1.29"}]}}`, name)
	}
	return []step{
		{"create the namespace shop",
			c.create("v1/namespaces",
				`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`),
			[]string{"namespaces-come-and-go"},
			[]made{{"networking.k8s.io/v1/networkpolicies", "shop", "default"}}},
		{"label the namespace",
			c.patch("v1/namespaces", "", "shop", "", `{"metadata":{"labels":{"team":"checkout"}}}`),
			[]string{"namespaces-relabelled"}, nil},
		{"create the Pod web-0",
			c.create("v1/pods", pod("web-0")), []string{"pods-added", "images"}, nil},
		{"create the Pod web-1, of the same image",
			c.create("v1/pods", pod("web-1")), []string{"pods-added", "images"}, nil},
		{"fail the Pod web-0",
			c.patch("v1/pods", "shop", "web-0", "status",
				`{"status":{"phase":"Failed","reason":"Evicted"}}`),
			[]string{"pods-failed"}, nil},
		{"record a warning about it",
			c.create("v1/events", `{"apiVersion":"v1","kind":"Event",
				"metadata":{"name":"web-0.1","namespace":"shop"},"type":"Warning",
				"reason":"Evicted","message":"The node was low on memory",
				"involvedObject":{"kind":"Pod","namespace":"shop","name":"web-0"}}`),
			[]string{"warning-events"}, nil},
		{"create a Secret",
			c.create("v1/secrets", `{"apiVersion":"v1","kind":"Secret",
				"metadata":{"name":"db","namespace":"shop"},
				"stringData":{"user":"web","password":"one"}}`),
			nil, nil},
		{"change its password",
			c.patch("v1/secrets", "shop", "db", "", `{"stringData":{"password":"two"}}`),
			[]string{"secrets-rotated"}, nil},
		{"label it to be copied into every namespace",
			c.patch("v1/secrets", "shop", "db", "",
				`{"metadata":{"labels":{"example.com/copy":"everywhere"}}}`),
			nil, []made{{"v1/secrets", "default", "db"}}},
		{"create a Deployment", c.create("apps/v1/deployments",
			`{"apiVersion":"apps/v1","kind":"Deployment",
				"metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":3,
				"selector":{"matchLabels":{"app":"web"}},
				"template":{"metadata":{"labels":{"app":"web"}},
				"spec":{"containers":[{"name":"web","image":"nginx:1.29"}]}}}}`), nil, nil},
		{"have two of its replicas unavailable",
			c.patch("apps/v1/deployments", "shop", "web", "status",
				`{"status":{"replicas":3,"unavailableReplicas":2}}`),
			[]string{"deployments-unavailable"}, nil},
		{"create a ConfigMap: a CloudEvent to " + webhookAddress,
			c.create("v1/configmaps", `{"apiVersion":"v1","kind":"ConfigMap",
				"metadata":{"name":"flags","namespace":"shop"},"data":{"beta":"on"}}`),
			[]string{"configmaps-webhook"}, nil},
		{"define the resource backups, which a source has been waiting for, and create one",
			c.defineBackups, []string{"backups"}, nil},
		{"delete the namespace's label",
			c.patch("v1/namespaces", "", "shop", "", `{"metadata":{"labels":{"team":null}}}`),
			[]string{"namespaces-relabelled"}, nil},
	}
}

// changer makes changes in the cluster. Resources are VERSION/RESOURCE or GROUP/VERSION/RESOURCE.
type changer struct{ client dynamic.Interface }

func newChanger(cfg *rest.Config) (changer, error) {
	client, err := dynamic.NewForConfig(cfg)
	return changer{client}, err
}

// defineBackups defines the resource backups and creates an object of it.
func (c changer) defineBackups(ctx context.Context) error {
	const crds = "apiextensions.k8s.io/v1/customresourcedefinitions"
	if err := c.file(ctx, crds, "examples/manifests/backup-crd.yaml"); err != nil {
		return err
	}
	// The API server takes a moment to serve a new resource.
	create := func(ctx context.Context) (bool, error) {
		return c.file(ctx, "example.com/v1/backups", "examples/manifests/backup.yaml") == nil, nil
	}
	return wait.PollUntilContextTimeout(ctx, 100e6, patience, true, create)
}

// await waits until informd has made an object.
func (c changer) await(ctx context.Context, m made) error {
	isMade := func(ctx context.Context) (bool, error) {
		_, err := c.resource(m.resource, m.namespace).Get(ctx, m.name, metav1.GetOptions{})
		return err == nil, nil
	}
	err := wait.PollUntilContextTimeout(ctx, 20e6, patience, true, isMade)
	if err != nil {
		return fmt.Errorf("informd did not make %s %s/%s: %w", m.resource, m.namespace, m.name, err)
	}
	fmt.Printf("   informd made %s %s/%s\n", m.resource, m.namespace, m.name)
	return nil
}

func (c changer) resource(name, namespace string) dynamic.ResourceInterface {
	parts := bytes.Split([]byte(name), []byte("/"))
	gvr := schema.GroupVersionResource{
		Resource: string(parts[len(parts)-1]), Version: string(parts[len(parts)-2]),
	}
	if len(parts) == 3 {
		gvr.Group = string(parts[0])
	}
	if namespace == "" {
		return c.client.Resource(gvr)
	}
	return c.client.Resource(gvr).Namespace(namespace)
}

func (c changer) create(resource, object string) func(context.Context) error {
	return func(ctx context.Context) error {
		u := new(unstructured.Unstructured)
		if err := json.Unmarshal([]byte(object), &u.Object); err != nil {
			return err
		}
		_, err := c.resource(resource, u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{})
		return err
	}
}

func (c changer) patch(
	resource, namespace, name, subresource, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		var subresources []string
		if subresource != "" {
			subresources = append(subresources, subresource)
		}
		options := metav1.PatchOptions{}
		_, err := c.resource(resource, namespace).
			Patch(ctx, name, types.MergePatchType, []byte(patch), options, subresources...)
		return err
	}
}

func (c changer) file(ctx context.Context, resource, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	object, err := yaml.ToJSON(data)
	if err != nil {
		return err
	}
	return c.create(resource, string(object))(ctx)
}
