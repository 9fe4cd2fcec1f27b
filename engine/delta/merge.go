package delta

// Merge decides what becomes of a waiting delta when a newer one of the same key arrives. sent
// means that a handler had the waiting one before, and a retry is due. Deltas in flight never merge.
//
// If ok is false, both stay, in their order. Otherwise merged takes their place if keep is true,
// and nothing does if it is false:
//
//	waiting ↓ newer →   added      updated    synced     deleted
//	added               added      added      added      nothing if never sent, else deleted
//	synced, first sight synced     synced     synced     nothing if never sent, else deleted
//	synced, resync      synced     synced     synced     deleted
//	updated             updated    updated    updated    deleted
//	deleted             both       both       both       deleted
//
// The merged delta has the newer object, and so its identity. An updated keeps the first old. Of two
// resyncs the later round counts, and a first sight stays one. A resync's object is known to the
// handler, so its deletion is delivered. Deltas of different uids belong to different objects and
// never merge. An added behind an added or updated one comes from a rule that does not receive
// deletions: the object left its where and came back.
//
// Fuzzed laws: a handler that applies what is left ends with the same object, or with none, as one
// that applies everything. At most two deltas of one uid wait. What is left is in order.
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
	merged.Object = newer.Object
	if merged.Round != 0 && newer.Round != 0 {
		merged.Round = newer.Round
	}
	return merged, true, true
}
