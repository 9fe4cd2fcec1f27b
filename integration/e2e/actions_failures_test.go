package e2e

import (
	"testing"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/plugins/handler"
)

// The first failure stops a handler's actions, because they may build on each other.
func TestActionsAfterAFailedOne(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	ev := x.about("source", handler.Added)
	refused := x.on(handler.ActionApply, "b", withObject(`{"data":{"x":5}}`))
	good := x.on(handler.ActionApply, "c", withObject(`{"data":{"x":"1"}}`))

	x.does(ev, list(refused, good), handler.ErrReject, action.Rejected)
	if x.configMap("c") != nil {
		t.Error("a handler's action was carried out behind one that failed")
	}
}
