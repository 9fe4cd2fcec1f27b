package harness

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	WidgetCount = 1000
	// BacklogShort is more than is kept in memory for a rule.
	BacklogShort = 120_000
	BacklogLong  = 1_000_000
	// BacklogPatience is how long a test waits for a million deliveries.
	BacklogPatience = 15 * time.Minute
	// BacklogMemory is what a daemon with a backlog of any size may have resident: 256 MiB of
	// deltas, of which Go's collector may hold twice, and 128 MiB for the rest of it.
	BacklogMemory = 640 << 20
)

func Same(a, b []int64) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

var WidgetResource = schema.GroupVersionResource{Group: "informd.test", Version: "v1", Resource: "widgets"}

// Widgets are small objects that change all the time.
type Widgets struct{}

func WidgetName(i int) string { return fmt.Sprintf("widget-%04d", i) }

func (Widgets) Len() int { return WidgetCount }

func (Widgets) Identity(i int) (namespace, name string, labels labels.Set) {
	return "shop", WidgetName(i), nil
}

func (Widgets) Append(b []byte, i, updates int, version int64) []byte {
	return fmt.Appendf(b, `{"metadata":{"name":%q,"namespace":"shop","uid":"uid-%d","resourceVersion":"%d","creationTimestamp":"2026-01-01T00:00:00Z"},`+
		`"spec":{"replicas":%d,"selector":{"app":"widget-%d","tier":"backend"},"image":"registry.example/widget@sha256:%064x"},`+
		`"status":{"observed":%d,"conditions":[{"type":"Ready","status":"True","reason":"AllIsWell","message":"update %d"}]}}`,
		WidgetName(i), i, version, updates%7, i, uint64(version)*0x9E3779B97F4A7C15, updates, updates)
}
