package queue

import (
	"math/rand/v2"

	"github.com/informd/informd/internal/list"
)

// rota is the order in which keys get their turn: to be taken, or to have values loaded. A key is
// on one of the two lists at most. Queue.mu guards it.
type rota[K comparable, V any] struct {
	ready  list.List[*entry[K, V]]
	hungry list.List[*entry[K, V]] // keys whose next values only the store holds
	supply int64                   // bytes of loaded values that wait, over the ready keys
}

// admit puts e behind the keys that are ready, and reports whether it was not among them.
func (r *rota[K, V]) admit(e *entry[K, V]) (becameReady bool) {
	if e.isReady {
		return false
	}
	e.isReady = true
	r.ready.PushBack(&e.place)
	if e.away != nil {
		r.supply += e.away.loaded
	}
	return true
}

// unready removes e from the ready list, if it is there.
func (r *rota[K, V]) unready(e *entry[K, V]) {
	if !e.isReady {
		return
	}
	e.isReady = false
	r.ready.Remove(&e.place)
	if e.away != nil {
		r.supply -= e.away.loaded
	}
}

// starve puts e behind the keys that are hungry, unless it is one.
func (r *rota[K, V]) starve(e *entry[K, V]) {
	if !e.isHungry {
		e.isHungry = true
		r.hungry.PushBack(&e.place)
	}
}

// sate removes e from the hungry list, if it is there.
func (r *rota[K, V]) sate(e *entry[K, V]) {
	if e.isHungry {
		e.isHungry = false
		r.hungry.Remove(&e.place)
	}
}

// stock adjusts the byte counts of loaded values, if val was loaded.
func (r *rota[K, V]) stock(e *entry[K, V], val *value[V], by int64) {
	if !val.loaded {
		return
	}
	e.away.loaded += by
	if e.isReady {
		r.supply += by
	}
}

// needsSupply reports whether there is anything to load, and room for it.
func (r *rota[K, V]) needsSupply() bool {
	return r.hungry.Front() != nil && r.supply < maxSupply
}

// maxSteps bounds the time that anyReady takes.
const maxSteps = 1024

// The following functions return an entry that is ready, or nil if none is.

func (r *rota[K, V]) firstReady() *entry[K, V] { return valueOf(r.ready.Front()) }
func (r *rota[K, V]) lastReady() *entry[K, V]  { return valueOf(r.ready.Back()) }

// anyReady returns one of the last maxSteps entries, at random.
func (r *rota[K, V]) anyReady() *entry[K, V] {
	at := r.ready.Back()
	if at == nil {
		return nil
	}
	for range rand.IntN(maxSteps) {
		if at = at.Prev(); at == nil {
			at = r.ready.Back()
		}
	}
	return at.Value
}

func valueOf[T any](e *list.Element[*T]) *T {
	if e == nil {
		return nil
	}
	return e.Value
}
