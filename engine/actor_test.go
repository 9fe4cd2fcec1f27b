package engine

import (
	"fmt"
	"testing"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
)

// A rule writes onto what somebody else wrote, and the list after a watch that broke has the outcome alone: it is to hear of it.
func TestAnOwnChangeHidesNobodyElses(t *testing.T) {
	at := func(version int) delta.Delta {
		o := configMap(t, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"a","uid":"u","resourceVersion":"%d"}}`, version))
		return delta.Delta{Type: delta.Added, Object: o}
	}
	o := own{action.NewWrites(), configMaps, "r"}
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
		"with somebody else's before it":    {updated(5, 7), false},
		"with a creation before it":         {at(7), false},
		"somebody else's before it":         {updated(5, 6), false},
		"somebody else's deletion after it": {delta.Delta{Type: delta.Deleted, Object: at(7).Object}, false},
	} {
		if got := o.Mine(key, versionOf(c.delta)); got != c.mine {
			t.Errorf("%s: %v, want %v", why, got, c.mine)
		}
	}
}
