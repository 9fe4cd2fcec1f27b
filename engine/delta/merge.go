package delta

// Merge says what becomes of a delta that waits when a newer one of the same key comes behind it. sent tells that the
// waiting one was handed to a handler before and is due for a retry; what is in flight is never merged.
//
// Where ok is false the two stay, one behind the other. Else merged takes the place of both, or, where keep is false,
// nothing does.
//
//	waiting ↓ newer →   added      updated    synced     deleted
//	added               added      added      added      nothing if never sent, else deleted
//	synced, first sight synced     synced     synced     nothing if never sent, else deleted
//	synced, resync      synced     synced     synced     deleted
//	updated             updated    updated    updated    deleted
//	deleted             both       both       both       deleted
//
// The merged delta has the newer object, so the newer identity; an updated keeps the first old; of resyncs the latest
// round counts, and a first sight stays one. A resync is of an object that the handler was told of before: its deletion
// must be told. Deltas of different uids are of different objects and never merge. (An added behind an added or updated
// one is an object that left a rule's where and came back, in a rule that does not hear of deletions.)
//
// These laws hold, and are fuzzed: a handler that applies what is left knows in the end the same object, or none, as
// one that applies everything; merging leaves at most two deltas of one uid to wait; what is left is in order.
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
