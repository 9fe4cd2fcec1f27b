package ledger

// step is a change as a rule sees it.
type step struct {
	Write
	kind  string // added, updated or deleted
	life  int
	state int  // the new one; of a deletion the last one inside
	old   int  // of an update
	gone  bool // a deletion because the object went, not because it left the rule's where
}

// steps returns all changes of a key under a rule.
func steps(rule Rule, lives []Life) []step {
	var out []step
	for l, life := range lives {
		last := -1 // the state inside, if it is
		for i, s := range life.States {
			inside := rule.inside(s)
			switch {
			case inside && last < 0:
				out = append(out, step{Write: s.Write, kind: "added", life: l, state: i})
			case inside:
				update := step{Write: s.Write, kind: "updated", life: l, state: i, old: last}
				out = append(out, update)
			case last >= 0:
				out = append(out, step{Write: s.Write, kind: "deleted", life: l, state: last})
			}
			last = -1
			if inside {
				last = i
			}
		}
		if life.Deleted != nil && last >= 0 {
			deletion := step{
				Write: *life.Deleted, kind: "deleted", life: l, state: last, gone: true,
			}
			out = append(out, deletion)
		}
	}
	return out
}

// find returns the state of a life that an event shows, or -1.
func (life Life) find(seen Seen) int {
	for i, s := range life.States {
		if s.Version == seen.Version && s.Digest == seen.Digest {
			return i
		}
	}
	return -1
}

// last reports whether seen is the last state of a life that is over, with the resourceVersion of
// its deletion, which only watches see.
func (life Life) isDeletion(seen Seen) bool {
	last := life.States[len(life.States)-1]
	return life.Deleted != nil && seen.Version > last.Version && seen.Digest == last.Digest
}
