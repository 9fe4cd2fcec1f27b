package wire

import (
	"cmp"
	"sort"
	"strings"
)

// Key returns the key of an object in the cache: NAMESPACE/NAME, or NAME if it has no namespace.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// SplitKey returns what Key was made of.
func SplitKey(key string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return namespace, name
	}
	return "", key
}

// CompareKeys orders keys by namespace, then by name, as answers do. That is not the order of their
// bytes: a-b/c comes after a/c.
func CompareKeys(a, b string) int {
	aSpace, aName := SplitKey(a)
	bSpace, bName := SplitKey(b)
	return cmp.Or(strings.Compare(aSpace, bSpace), strings.Compare(aName, bName))
}

// Part returns which of so many sorted keys a call asks for: those after a key, at most limit of
// them. No key and a limit of 0 ask for all.
func Part(keys int, key func(i int) string, after string, limit uint32) (first, n int) {
	if after != "" {
		first = sort.Search(keys, func(i int) bool { return CompareKeys(key(i), after) > 0 })
	}
	return first, Limited(keys-first, limit)
}

// Limited returns how many of n elements a call asks for; a limit of 0 asks for all.
func Limited(n int, limit uint32) int {
	if limit == 0 {
		return n
	}
	return int(min(int64(n), int64(limit)))
}
