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

// tryOne tries a target that a wave has asked for, or one that is dropped.
func tryOne(w *Wave, at Target, now time.Time) (Attempt, Verdict) {
	w.table.mu.Lock()
	c := w.table.ledger.find(w.asker, at)
	isDropped := c != nil && c.isDropped
	w.table.mu.Unlock()
	if isDropped {
		return w.TryDropped(at, now)
	}
	return w.Try(at, now)
}
