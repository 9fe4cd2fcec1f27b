package state

import "testing"

// Only changes from first lists may be written in small transactions.
func TestTransactionsOfFirstLists(t *testing.T) {
	informer := func(was, is string) informerCut {
		return informerCut{Objects: &Objects{written: informerRecord{resourceVersion: was}}, version: is}
	}
	for _, c := range []struct {
		name      string
		informers []informerCut
		want      int
	}{
		{"deliveries alone", nil, maxBatch},
		{"a first list", []informerCut{informer("", "")}, listBatch},
		{"two", []informerCut{informer("", ""), informer("", "")}, listBatch},
		{"its end", []informerCut{informer("", "5")}, maxBatch},
		{"a list once more", []informerCut{informer("5", "")}, maxBatch},
		{"a first list beside changes", []informerCut{informer("", ""), informer("5", "6")}, maxBatch},
	} {
		if got := (cut{informers: c.informers}).full(maxBatch); got != c.want {
			t.Errorf("%s: %d bytes, not %d", c.name, got, c.want)
		}
		if got := (cut{informers: c.informers}).full(1000); got != 1000 {
			t.Errorf("%s: %d bytes, not fewer", c.name, got)
		}
	}
}
