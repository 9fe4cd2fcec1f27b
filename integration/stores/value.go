package main

import (
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/klauspost/compress/s2"
)

// pod is a Pod of 3 KB as an API server sends one, with @name@s in the place of what is each pod's own.
//
//go:embed pod.json
var pod string

// objects makes the values that are stored. An object's value is a function of its number and of how many changes it has
// had, so that whoever reads can tell what must be there.
type objects struct {
	packed bool // compressed with a dictionary, as informd keeps objects in memory
	pack   *s2.Dict
	text   []byte // the last one made
}

func newObjects(packed bool) *objects {
	o := &objects{packed: packed}
	// The dictionary is made of objects that are not among those stored.
	var sample []byte
	for i := range 20 {
		sample = append(sample, o.plain(-1-i, 0)...)
	}
	o.pack = s2.MakeDict(sample, nil)
	return o
}

// key is namespace and name. Neighbours in number are not neighbours in order.
func key(i int) []byte {
	return fmt.Appendf(nil, "v1/pods\x00team-%02d\x00%s", i%20, nameOf(i))
}

func nameOf(i int) string {
	return fmt.Sprintf("checkout-web-7d9f8b6c4d-%07x", uint32(i)*2654435761%(1<<28))
}

// value is valid until the next one is made.
func (o *objects) value(i, changes int) []byte {
	text := o.plain(i, changes)
	if !o.packed {
		return text
	}
	return o.pack.Encode(nil, text)
}

func (o *objects) plain(i, changes int) []byte {
	own := rand.New(rand.NewPCG(uint64(i), 1)) // the object's
	now := rand.New(rand.NewPCG(uint64(i), uint64(2+changes)))
	fields := map[string]string{
		"name": nameOf(i), "namespace": fmt.Sprintf("team-%02d", i%20),
		"uid": uid(own), "owner": uid(own), "node": fmt.Sprintf("node-%04d", own.IntN(2000)),
		"ip": fmt.Sprintf("10.%d.%d.%d", own.IntN(64), own.IntN(256), own.IntN(256)), "host": fmt.Sprintf("10.200.%d.%d", own.IntN(8), own.IntN(256)),
		"token": fmt.Sprintf("kube-api-access-%05x", own.IntN(1<<20)), "created": moment(own),
		"container": words(now, 4), "sidecar": words(own, 4), "rv": fmt.Sprint(1_000_000 + now.IntN(1<<30)),
		"started": moment(now), "ready": moment(now), "changed": moment(now), "restarts": fmt.Sprint(changes),
		"is": [...]string{"True", "False"}[changes%2], "readyBool": [...]string{"true", "false"}[changes%2],
	}
	o.text = o.text[:0]
	for rest := pod; ; {
		before, after, found := strings.Cut(rest, "@")
		o.text = append(o.text, before...)
		if !found {
			return o.text
		}
		name, after, _ := strings.Cut(after, "@")
		value, ok := fields[name]
		if !ok {
			panic("pod.json: no value for " + name)
		}
		o.text = append(o.text, value...)
		rest = after
	}
}

func words(r *rand.Rand, n int) string {
	var b []byte
	for range n {
		b = binary.BigEndian.AppendUint64(b, r.Uint64())
	}
	return hex.EncodeToString(b)
}

func uid(r *rand.Rand) string {
	h := words(r, 2)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

func moment(r *rand.Rand) string {
	return fmt.Sprintf("2026-0%d-%02dT%02d:%02d:%02dZ", 1+r.IntN(9), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60))
}
