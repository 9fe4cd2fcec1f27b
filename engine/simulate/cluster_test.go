package simulate

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A write that changes nothing, and so leaves the resourceVersion, is no event. Of a Secret that
// changed while informd was down, the first event counts.
func TestWriteThatChangesNothing(t *testing.T) {
	c := newCluster()
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	object := []byte(`{"apiVersion":"v1","metadata":{"namespace":"shop","name":"a","uid":"u","resourceVersion":"7","creationTimestamp":"2026-01-02T03:00:00Z"}}`)
	for n, want := range []int{1, 0} {
		changes, err := c.apply(secrets, object, time.Now())
		if err != nil || len(changes) != want {
			t.Errorf("write %d: %d changes, %v; want %d", n, len(changes), err, want)
		}
	}
}
