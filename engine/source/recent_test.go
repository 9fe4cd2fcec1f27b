package source

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// wordy returns a state of an object that is large enough to pack.
func wordy(t testing.TB, name string, v int) *object.Object {
	t.Helper()
	o, err := object.FromJSON(fmt.Appendf(nil,
		`{"metadata":{"namespace":"shop","name":%q,"uid":"u","resourceVersion":"%d"},"spec":{"v":%d,"text":%q}}`,
		name, v, v, strings.Repeat("again and ", 100)))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// While changes come, recent objects stay plain. Objects that have not changed for a while are all
// packed, and so is everything once no changes come. Replaced states are not packed.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := unconnected(t).Informer(Selection{Resource: pods})
		go i.feed.run(t.Context())
		var first, second []*object.Object
		for n := range 2000 { // more than one chunk
			first = append(first, wordy(t, fmt.Sprint(n), 1))
			i.feed.observe(first[n], delta.Added, arrival{number: 1})
		}
		changes := 0
		pass := func(d time.Duration) { // with a change of another object every now and then
			for end := time.Now().Add(d); time.Now().Before(end); {
				changes++
				i.feed.observe(wordy(t, "other", changes), delta.Added, arrival{number: 1})
				time.Sleep(youngFor / 4)
			}
			synctest.Wait()
		}
		pass(youngFor / 2)
		for n := range 1000 {
			second = append(second, wordy(t, fmt.Sprint(n), 2))
			i.feed.observe(second[n], delta.Added, arrival{number: 1})
		}
		packed := func(all []*object.Object) (n int) {
			for _, o := range all {
				if o.IsPacked() {
					n++
				}
			}
			return n
		}
		pass(2 * youngFor)
		if n := packed(first) + packed(second); n != 0 {
			t.Errorf("%d were packed at once", n)
		}
		pass(recentFor - 2*youngFor - youngFor/4)
		if old, changed, young := packed(first[1000:]), packed(first[:1000]), packed(second); old != 1000 || changed+young != 0 {
			t.Errorf("packed: %d of 1000 old, %d replaced, %d young", old, changed, young)
		}
		time.Sleep(2 * youngFor)
		synctest.Wait()
		r := &i.feed.recent
		if n := packed(second); n != 1000 || r.young.len()+r.rest.len() != 0 || r.young.bytes+r.rest.bytes != 0 {
			t.Errorf("%d of 1000 are packed in the end; recent: %+v", n, r)
		}
	})
}

// Who has packed a recent object beside its text, such as the state, need not think of it again:
// later it has only the packed form, whether it was replaced or not.
func TestRecentShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := unconnected(t).Informer(Selection{Resource: pods})
		go i.feed.run(t.Context())
		replaced, known := wordy(t, "a", 1), wordy(t, "a", 2)
		for _, o := range []*object.Object{replaced, known} {
			i.feed.observe(o, delta.Added, arrival{number: 1})
			i.Packer().PackBeside(o)
		}
		synctest.Wait()
		if replaced.IsPacked() || known.IsPacked() {
			t.Error("a recent object has no plain text")
		}
		time.Sleep(2 * youngFor)
		synctest.Wait()
		if !replaced.IsPacked() || !known.IsPacked() {
			t.Errorf("replaced: packed %v; known: packed %v", replaced.IsPacked(), known.IsPacked())
		}
	})
}

// However fast objects come, only a bounded number of bytes stays plain.
func TestRecentIsBounded(t *testing.T) {
	var r recent
	o, now, all := wordy(t, "a", 1), time.Now(), new(newest)
	add := func(o *object.Object) {
		t.Helper()
		if r.add(o, now, all); r.young.bytes+r.rest.bytes > recentBytes {
			t.Fatalf("%d young bytes, %d others", r.young.bytes, r.rest.bytes)
		}
	}
	n := 2 * recentBytes / o.Size()
	for range n {
		add(o)
	}
	if all.packed < n/2 || all.packed > n/2+2 {
		t.Errorf("%d of %d were packed", all.packed, n)
	}
	large, err := object.FromJSON(fmt.Appendf(nil, `{"metadata":{"name":"large"},"text":%q}`, strings.Repeat("x", recentBytes/4)))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // each displaces many
		add(large)
	}
}

// newest is an owner for whom nothing is ever replaced.
type newest struct{ packed int }

func (*newest) isNewest(*object.Object) bool { return true }
func (n *newest) pack(*object.Object)        { n.packed++ }
