package delta

// Merge decides what becomes of a waiting delta when a newer one of the same key arrives. sent
// means that a handler already received the waiting delta, which now waits for a retry. Deltas in
// flight never merge.
//
// If ok is false, both stay, in their order. Otherwise both go. If keep is true, merged takes their
// place:
//
//	waiting ↓ newer →   added      updated    synced     deleted
//	added               added      added      added      nothing if never sent, else deleted
//	synced, first sight synced     synced     synced     nothing if never sent, else deleted
//	synced, resync      synced     synced     synced     deleted
//	updated             updated    updated    updated    deleted
//	deleted             both       both       both       deleted
//
// The merged delta has the newer object and occasion, and so the newer identity. An updated keeps the first old. Of
// two resyncs the later round counts, and a first sight stays one. A resync's object is known to
// the handler, so its deletion is delivered. Deltas of different uids belong to different objects
// and never merge. An added behind an added or updated one comes from a rule that does not receive
// deletions: the object stopped matching the rule's where and matches again.
//
// Fuzzing checks these laws. A handler that applies the remaining deltas ends with the same object,
// or with none, as one that applies them all. At most two deltas of one uid wait. The remaining
// deltas are in order.
func Merge(waiting, newer Delta, sent bool) (merged Delta, keep, ok bool) {
	switch {
	case waiting.Object.UID() != newer.Object.UID():
		return Delta{}, false, false
	case waiting.Type == Deleted && newer.Type != Deleted:
		return Delta{}, false, false
	case newer.Type == Deleted:
		unheard := (waiting.Type == Added || waiting.Type == Synced && waiting.Round == 0) && !sent
		return newer, !unheard, true
	}
	merged = waiting
	merged.Object, merged.Occasion = newer.Object, newer.Occasion
	if merged.Round != 0 && newer.Round != 0 {
		merged.Round = newer.Round
	}
	return merged, true, true
}
