package acting

import (
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/targets"
)

// Why returns in full why a target of a source object failed last, if that is remembered. quotes says
// that the text may quote an object.
func (a *Acting) Why(asker targets.Asker, at targets.Target) (text string, quotes bool) {
	a.failing.mu.Lock()
	defer a.failing.mu.Unlock()
	if err := a.failing.all[asker][at]; err != nil {
		return err.Error(), action.Quotes(err)
	}
	return "", false
}
