package queue

// merge merges newer into val, which waits, and reports whether that was possible. If the two
// cancelled each other out, merge has removed val.
func (q *Queue[K, V]) merge(e *entry[K, V], val *value[V], newer V) bool {
	if val.redriven {
		return false
	}
	merged, keep, ok := q.opts.Merge(val.v, newer, val.sent)
	if !ok {
		return false
	}
	if e.away != nil {
		e.away.sealed = true
	}
	if !keep {
		q.leave(e, val)
		q.end(e, val)
		return true
	}
	size := q.opts.Size(merged)
	q.totals.add(0, size-val.size)
	q.rota.stock(e, val, size-val.size)
	if e.yields() && e.front() == &val.place && q.opts.Renews(val.v, merged) {
		q.delays.cutShort(e, q.opts)
	}
	val.v, val.size, val.rewritten = merged, size, true
	q.record(e, val)
	return true
}

// mergeBehind merges into val the values right behind it, as many as can be merged, if may is true.
// It reports whether val still waits.
func (q *Queue[K, V]) mergeBehind(e *entry[K, V], val *value[V], may bool) (waits bool) {
	for next := val.place.Next(); next != nil && may; next = val.place.Next() {
		if e.away.open() && next == e.away.behind {
			break
		}
		newer, length := next.Value, e.length
		if !q.merge(e, val, newer.v) {
			break
		}
		if q.opts.Every {
			q.totals.shortened++
		}
		waits = e.length == length // otherwise they cancelled each other out
		q.leave(e, newer)
		q.end(e, newer)
		if !waits {
			return false
		}
	}
	return true
}

// dropOldest drops the oldest value of e that waits in memory. It spares redriven values: callers
// of Redrive asked for each of them, which bounds their number.
func (q *Queue[K, V]) dropOldest(e *entry[K, V]) {
	oldest := e.afterRedriven()
	if oldest == nil {
		return
	}
	if e.away != nil {
		e.away.sealed = true
	}
	q.leave(e, oldest.Value)
	q.end(e, oldest.Value)
	q.totals.dropped++
}
