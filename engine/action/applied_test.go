package action

import (
	"testing"

	"github.com/informd/informd/engine/delta"
)

// Only a whole list without the object says that it does not exist.
func TestExists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		exists, ok bool
	}{
		{"listed", `{"kind":"PartialObjectMetadataList","items":[{"metadata":{"name":"a"}}]}`, true, true},
		{"not listed", `{"kind":"PartialObjectMetadataList","items":[]}`, false, true},
		{"as its own kind", `{"kind":"PodList","items":[]}`, false, true},
		{"an empty page of several", `{"kind":"PodList","metadata":{"continue":"x"},"items":[]}`, false, false},
		{"no list", `{"kind":"Status","status":"Success"}`, false, false},
	} {
		s := newServer(t, answers(200, c.body))
		exists, err := s.Exists(t.Context(), pods, delta.Key{Namespace: "shop", Name: "a"})
		if exists != c.exists || err == nil != c.ok {
			t.Errorf("%s: %v, %v", c.name, exists, err)
		}
	}
}
