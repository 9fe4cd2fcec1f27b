package ledger

import "fmt"

// claim is what an event says, as places in the history.
type claim struct {
	step, life, state, old int
}

// locate finds an event's claim in the history. It reports whatever is not true.
func (w *walk) locate(ev Event) (claim, bool) {
	c := claim{step: -1, life: -1, old: -1}
	name := fmt.Sprintf("%s %s", ev.Kind, ev.ID)
	for l, life := range w.lives {
		if life.UID == ev.UID {
			c.life = l
		}
	}
	switch {
	case c.life < 0:
		w.problem("%s: the server has given no object of this name the uid %s", name, ev.UID)
		return c, false
	case ev.Object == nil:
		w.problem("%s: it shows no object", name)
		return c, false
	case ev.Object.UID != ev.UID || ev.Object.Version != ev.Version:
		w.problem("%s: it is of %s at %d, and shows %s at %d",
			name, ev.UID, ev.Version, ev.Object.UID, ev.Object.Version)
		return c, false
	case (ev.Kind == "updated") != (ev.Old != nil):
		w.problem("%s: an updated shows the old state, and nothing else does", name)
		return c, false
	}
	life := w.lives[c.life]
	c.state = life.find(*ev.Object)
	deletion := c.state < 0 && ev.Kind == "deleted" && life.isDeletion(*ev.Object)
	if deletion {
		c.state = len(life.States) - 1
	}
	if c.state < 0 {
		w.problem("%s: the server has never had it as shown, version %d, digest %s",
			name, ev.Object.Version, ev.Object.Digest)
		return c, false
	}
	if !w.rule.inside(life.States[c.state]) {
		w.problem("%s: what it shows is outside of the rule", name)
		return c, false
	}
	if ev.Old != nil {
		c.old = life.find(*ev.Old)
		if c.old < 0 || c.old >= c.state || ev.Old.UID != ev.UID ||
			!w.rule.inside(life.States[c.old]) {
			w.problem("%s: its old, version %d, digest %s, "+
				"is no earlier state of the object inside of the rule",
				name, ev.Old.Version, ev.Old.Digest)
			return c, false
		}
	}
	c.step = w.find(c, ev.Kind, deletion)
	if c.step < 0 {
		w.problem("%s: the object was still there", name)
		return c, false
	}
	return c, true
}

// find returns the step of a claim: the one that brought the state, or the one that ended it.
func (w *walk) find(c claim, kind string, deletion bool) int {
	for i, s := range w.steps {
		if s.life != c.life {
			continue
		}
		switch {
		case kind == "deleted" && s.kind == "deleted" &&
			s.state >= c.state && (!deletion || s.gone):
			return i
		case kind != "deleted" && s.kind != "deleted" && s.state == c.state:
			return i
		}
	}
	return -1
}
