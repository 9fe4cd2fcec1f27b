package source

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/informd/informd/engine/object"
)

// tree returns the object without metadata.managedFields.
func tree(o runtime.Object) any {
	switch o := o.(type) {
	case *object.Object:
		return o.Decode(wholeTree)
	case *unstructured.Unstructured:
		all := map[string]any{}
		for name, value := range o.Object {
			all[name] = value
		}
		metadata := map[string]any{}
		for name, value := range o.Object["metadata"].(map[string]any) {
			if name != "managedFields" {
				metadata[name] = value
			}
		}
		all["metadata"] = metadata
		return all
	default:
		panic(fmt.Sprintf("%T", o))
	}
}

var wholeTree = func() *object.Paths {
	p := new(object.Paths)
	p.Add()
	return p
}()

// difference describes the first difference between two trees of JSON, or returns "" if they are
// equal. It does not use go-cmp, which takes minutes for some of them.
func difference(want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(w) != len(g) {
			break
		}
		for key, value := range w {
			other, there := g[key]
			if d := difference(value, other); d != "" || !there {
				return fmt.Sprintf(".%q%s", key, d)
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			break
		}
		for i := range w {
			if d := difference(w[i], g[i]); d != "" {
				return fmt.Sprintf("[%d]%s", i, d)
			}
		}
		return ""
	case float64:
		if g, ok := got.(float64); ok && math.Float64bits(w) == math.Float64bits(g) { // 0 is not -0
			return ""
		}
	default:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf(" was %T %.200q, and is told as %T %.200q", want, fmt.Sprint(want), got, fmt.Sprint(got))
}

var keptPaths = func() *object.Paths {
	p := new(object.Paths)
	p.Add("metadata", "labels")
	p.Add("spec")
	return p
}()

// kept reduces a tree to keptPaths and the object's identity.
func kept(tree any) any {
	whole := tree.(map[string]any)
	metadata := map[string]any{}
	for _, name := range []string{"namespace", "name", "uid", "resourceVersion", "labels"} {
		if value, there := whole["metadata"].(map[string]any)[name]; there {
			metadata[name] = value
		}
	}
	out := map[string]any{"metadata": metadata}
	if spec, there := whole["spec"]; there {
		out["spec"] = spec
	}
	return out
}
