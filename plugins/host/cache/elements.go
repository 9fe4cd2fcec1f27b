package cache

import (
	"unicode/utf8"

	"github.com/informd/informd/plugins/handler/wire"
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
	first, n := wire.Part(all.Len(), all.Key, after, limit)
	return elements{n, func(i int) []byte { return all.JSON(first + i) }}
}

func keys(all Objects, after string, limit uint32) elements {
	first, n := wire.Part(all.Len(), all.Key, after, limit)
	return elements{n, func(i int) []byte { return []byte(all.Key(first + i)) }}
}
