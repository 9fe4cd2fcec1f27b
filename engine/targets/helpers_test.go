package targets

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func config(namespace, name string) Target {
	return Target{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Key:      delta.Key{Namespace: namespace, Name: name},
	}
}
