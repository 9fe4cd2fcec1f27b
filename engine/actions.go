package engine

import (
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/live"
)

// addActions sets what a lane needs if the rule has actions, or a handler that may change the
// cluster. The lane then recognizes the rule's own changes, unless the rule asks for them.
func (e *Engine) addActions(r *live.Rule, h config.Handler, o *dispatch.LaneOptions) {
	if r.Actions == nil && len(h.Write) == 0 {
		return
	}
	o.Acts, o.ActsItself = true, r.Actions != nil
	if o.ActsItself && r.Handler != "" {
		o.Actor = e.acting.ofRules(e.maker)
	}
	if !r.OwnChanges {
		r.KnowsOwn = true
		o.Own = own{e.acting.writes, r.Source.Resource, r.Name, r.Former}
	}
}
