package engine

import (
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/running"
	"github.com/informd/informd/engine/state"
)

// A rule is renamed by a manifest with another name that says formerly. It keeps what it had, and
// nothing of that moves: each rule has an id, under which the state has all of its records. The id is
// the first name that the rule had. The record of the rule says which name it has now, so a rename
// changes this one record, and the rule's dead letters in the same cut.
//
// Ids of events begin with the rule's name. Those of deliveries that wait stay what they were:
// the record also says up to which number of a delivery the former name counts. See
// [delivery.Former].

// identify gives the rules the ids under which the state has them. saved are its rules, by id.
func (e *Engine) identify(saved map[string]state.RuleMemory) {
	named := make(map[string]string, len(saved)) // ids, by name
	taken := make(map[string]bool, len(saved))
	for id, r := range saved {
		named[r.Name], taken[id] = id, true
	}
	ids := make(map[*live.Rule]string) // those that change
	for _, r := range e.work().Rules {
		id, ok := named[r.Name]
		if !ok && r.Former != "" {
			id, ok = named[r.Former]
			ok = ok && saved[id].Resource == r.Resource()
		}
		if !ok {
			id = running.FreeID(r.Name, func(id string) bool { return taken[id] })
			taken[id] = true
		}
		if id != r.ID {
			ids[r] = id
		}
	}
	for r := range ids { // another rule may get this id
		r.ForgetLanes()
	}
	for r, id := range ids {
		r.SetID(id)
		for _, in := range e.work().Intakes {
			in.SetID(r, id)
		}
	}
}

// takeNames records the names of renamed rules, before anything else of them is recorded. From then
// on their new deliveries have ids with the new name.
func (e *Engine) takeNames(from loaded) {
	defer e.begin()()
	for _, r := range e.work().Rules {
		was, ok := from.rules[r.ID]
		if !ok || was.Resource != r.Resource() { // its records were dropped
			continue
		}
		var last uint64
		for _, k := range from.waiting[r.ID] {
			last = max(last, k.Last)
		}
		var former []delivery.Former
		for _, f := range was.Former {
			if f.Last = min(f.Last, last); last > 0 { // if nothing waits, numbers start again
				former = append(former, f)
			}
		}
		r.Lane.Renamed(former)
		if was.Name != r.Name {
			r.Lane.Rename(was.Name)
			e.dead.Rename(was.Name, r.Name)
			was.Name, was.Former = r.Name, r.Lane.Former()
			e.store.PutRule(was)
			e.log.Info("the rule was renamed: it goes on with what it had under its former name",
				"rule", r.Name, "formerly", r.Former)
		}
		r.Memory.SetFormer(r.Lane.Former())
	}
}
