package acting

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// A rule overwrites what somebody else wrote. After a broken watch the list holds the result alone,
// and the rule must receive it.
func TestOwnChangeDoesNotHideForeignOne(t *testing.T) {
	t.Parallel()
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	at := func(version int) delta.Delta {
		o := object.FromIdentity("shop", "a", "u", strconv.Itoa(version))
		return delta.Delta{Type: delta.Added, Object: o}
	}
	o := own{action.NewWrites(), configMaps, "r", ""}
	key := at(6).Key()
	o.writes.Begin(configMaps, key, "r", action.Cause{})("6", "7")
	updated := func(from, to int) delta.Delta {
		return delta.Delta{Type: delta.Updated, Object: at(to).Object, Old: at(from).Object}
	}
	for why, c := range map[string]struct {
		delta delta.Delta
		mine  bool
	}{
		"as it was made":                    {updated(6, 7), true},
		"with a foreign change before it":   {updated(5, 7), false},
		"with a creation before it":         {at(7), false},
		"somebody else's before it":         {updated(5, 6), false},
		"somebody else's deletion after it": {delta.Delta{Type: delta.Deleted, Object: at(7).Object}, false},
	} {
		if got := o.Mine(key, action.VersionOf(c.delta)); got != c.mine {
			t.Errorf("%s: %v, want %v", why, got, c.mine)
		}
	}
}
