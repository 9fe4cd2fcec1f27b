package harness

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WidgetCount is how many widgets there are.
const WidgetCount = 1000

// Same returns how many elements a and b have in common at their beginning.
func Same(a, b []int64) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// WidgetResource is the resource of Widgets.
var WidgetResource = schema.GroupVersionResource{
	Group: "informd.test", Version: "v1", Resource: "widgets",
}

// Widgets is a population of small objects for a stub.
type Widgets struct{}

// WidgetName returns the name of the widget with a number.
func WidgetName(i int) string { return fmt.Sprintf("widget-%04d", i) }

func (Widgets) Len() int { return WidgetCount }

func (Widgets) Identity(i int) (namespace, name string, labels labels.Set) {
	return "shop", WidgetName(i), nil
}

func (Widgets) Append(b []byte, i, updates int, version int64) []byte {
	return fmt.Appendf(b, `{"metadata":{"name":%q,"namespace":"shop","uid":"uid-%d",`+
		`"resourceVersion":"%d","creationTimestamp":"2026-01-01T00:00:00Z"},`+
		`"spec":{"replicas":%d,"selector":{"app":"widget-%d","tier":"backend"},`+
		`"image":"registry.example/widget@sha256:%064x"},`+
		`"status":{"observed":%d,"conditions":[{"type":"Ready","status":"True",`+
		`"reason":"AllIsWell","message":"update %d"}]}}`,
		WidgetName(i), i, version,
		updates%7, i, uint64(version)*0x9E3779B97F4A7C15, updates, updates)
}
