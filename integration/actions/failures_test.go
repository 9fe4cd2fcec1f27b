package actions

import (
	"errors"
	"strings"
	"testing"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/plugins/handler"
)

// If one of a rule's own actions fails, the others are still performed. A handler's actions may
// build on each other, so the first failure stops the rest.
func TestActionsAfterAFailedOne(t *testing.T) {
	x := newExecutor(t)
	x.made("source")
	ev := x.about("source", handler.Added)
	elsewhere := x.on(handler.ActionApply, "a", object(`{}`))
	elsewhere.Namespace = "there-is-no-such-namespace"
	refused := x.on(handler.ActionApply, "b", object(`{"data":{"x":5}}`))
	good := x.on(handler.ActionApply, "c", object(`{"data":{"x":"1"}}`))

	x.does(ev, list(refused, good), handler.ErrReject, action.Rejected)
	if x.configMap("c") != nil {
		t.Error("a handler's action was carried out behind one that failed")
	}

	x.by.Handler = ""
	err := x.does(ev, list(refused, elsewhere, good), errAny, action.Rejected, action.Failed, action.Created)
	if err == nil || errors.Is(err, handler.ErrReject) || !strings.Contains(err.Error(), "2 of 3 actions failed") || !strings.Contains(err.Error(), "there-is-no-such-namespace") {
		t.Errorf("one that may go well later: %v", err)
	}
	said := x.on(handler.ActionEvent, "c", func(a *handler.Action) { a.Reason = "Done" })
	x.does(ev, list(refused, good, said), handler.ErrReject, action.Rejected, action.Unchanged) // it was not performed
	x.does(ev, list(good, said), nil, action.Unchanged, action.Changed)
	err = x.does(ev, list(refused, refused, good), handler.ErrReject, action.Rejected, action.Rejected, action.Unchanged)
	if err == nil || !strings.Contains(err.Error(), "2 of 3 actions failed, one of them: action 1: apply") {
		t.Errorf("none that may go well later: %v", err)
	}
}
