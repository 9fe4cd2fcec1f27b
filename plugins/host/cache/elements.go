package cache

import (
	"cmp"
	"sort"
	"strings"
	"unicode/utf8"
)

// elements is the content of an answer, which is sent in pages.
type elements struct {
	n  int
	at func(int) []byte
}

func texts(all []string) elements {
	return elements{len(all), func(i int) []byte {
		if !utf8.ValidString(all[i]) { // protobuf's strings are UTF-8
			return []byte(string([]rune(all[i])))
		}
		return []byte(all[i])
	}}
}

// objects returns at most limit of the objects after a key; 0: all of them.
func objects(all Objects, after string, limit uint32) elements {
	first, n := part(all, after, limit)
	return elements{n, func(i int) []byte { return all.JSON(first + i) }}
}

func keys(all Objects, after string, limit uint32) elements {
	first, n := part(all, after, limit)
	return elements{n, func(i int) []byte { return []byte(all.Key(first + i)) }}
}

func part(all Objects, after string, limit uint32) (first, n int) {
	if after != "" {
		first = sort.Search(all.Len(), func(i int) bool {
			return compareKeys(all.Key(i), after) > 0
		})
	}
	return first, limited(all.Len()-first, limit)
}

func limited(n int, limit uint32) int {
	if limit == 0 {
		return n
	}
	return int(min(int64(n), int64(limit)))
}

// compareKeys orders keys by namespace, then by name. That is not the order of their bytes: a-b/c
// comes after a/c.
func compareKeys(a, b string) int {
	aSpace, aName := splitKey(a)
	bSpace, bName := splitKey(b)
	return cmp.Or(strings.Compare(aSpace, bSpace), strings.Compare(aName, bName))
}

func splitKey(key string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return namespace, name
	}
	return "", key
}
