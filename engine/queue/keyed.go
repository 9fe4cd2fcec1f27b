package queue

import "maps"

// minShrink is the number of keys below which giving memory back is not worth it.
const minShrink = 1024

// keyed finds the entries of the keys that have values. Its memory follows their number: a map
// never shrinks by itself. Queue.mu guards it.
type keyed[K comparable, V any] struct {
	all  map[K]*entry[K, V]
	peak int // the most keys since the map was made
}

// entry returns the entry of key, and makes it if there is none. The caller must then give a new
// entry a value.
func (k *keyed[K, V]) entry(key K) *entry[K, V] {
	e := k.all[key]
	if e == nil {
		e = &entry[K, V]{key: key, delayed: notDelayed}
		e.place.Value = e
		k.all[key] = e
		k.peak = max(k.peak, len(k.all))
	}
	return e
}

// forget drops the entry of a key.
func (k *keyed[K, V]) forget(key K) {
	delete(k.all, key)
	if k.peak > minShrink && len(k.all) < k.peak/4 {
		smaller := make(map[K]*entry[K, V], len(k.all))
		maps.Copy(smaller, k.all)
		k.all, k.peak = smaller, len(smaller)
	}
}

// clear drops all entries.
func (k *keyed[K, V]) clear() { k.all, k.peak = make(map[K]*entry[K, V]), 0 }
