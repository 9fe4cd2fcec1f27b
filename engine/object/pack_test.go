package object

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packedPods packs n pods. It returns how large the last half is, as a share of its text.
func packedPods(t testing.TB, p *Packer, c *cluster, n int) (objects []*Object, left float64) {
	t.Helper()
	plain, packed := 0, 0
	for i := range n {
		o := mustObject(t, c.pod())
		if i >= n/2 {
			plain += len(o.JSON())
		}
		p.Pack(o)
		if i >= n/2 {
			packed += len(o.content.Load().bytes)
		}
		objects = append(objects, o)
	}
	return objects, float64(packed) / float64(plain)
}

func TestPackedPodsTakeAFifth(t *testing.T) {
	p := NewPacker()
	if _, left := packedPods(t, p, newCluster(1, 40), 2000); left > 0.22 {
		t.Errorf("packing leaves %.0f%% of the text", 100*left)
	}
}

// A packed object gives the text that it had before, whatever the Packer packed before and after
// it.
func TestPackingChangesNothing(t *testing.T) {
	p, c, view := NewPacker(), newCluster(1, 40), typicalView()
	var objects, same []*Object
	for n := range 1000 {
		text := c.pod()
		switch n % 50 {
		case 10:
			text = `{}`
		case 20:
			text = fmt.Sprintf(`{"metadata":{"name":"small-%d"}}`, n)
		case 30:
			text = fmt.Sprintf(`{"metadata":{"name":"large"},"data":%q}`, strings.Repeat(c.hex(1000), 200))
		case 40:
			text = fmt.Sprintf(`{"metadata":{"name":"noise","labels":{"é":"\u00fc"}},"data":%q}`, c.from("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/", 3000))
		}
		o := mustObject(t, text)
		objects, same = append(objects, o), append(same, mustObject(t, text))
		p.Pack(o)
		p.Pack(o)
		if o.Size() > same[n].Size() {
			t.Errorf("%d bytes became %d", same[n].Size(), o.Size())
		}
	}
	for n, o := range objects {
		if !bytes.Equal(o.JSON(), same[n].JSON()) {
			t.Fatalf("%s became %s", same[n].JSON(), o.JSON())
		}
		if diff := cmp.Diff(same[n].Decode(view), o.Decode(view)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(same[n].Labels(), o.Labels()); diff != "" {
			t.Fatal(diff)
		}
		if !bytes.Equal(prune(o, view).JSON(), prune(same[n], view).JSON()) {
			t.Fatalf("%s pruned to %s", same[n].JSON(), prune(o, view).JSON())
		}
	}
}

// An object that is packed beside its text gives both, and unpacks nothing. Shrink and Pack leave
// only the packed form.
func TestPackBeside(t *testing.T) {
	for name, shrink := range map[string]func(*Packer, *Object){
		"Shrink": func(_ *Packer, o *Object) { o.Shrink() },
		"Pack":   (*Packer).Pack,
	} {
		p := NewPacker()
		o := mustObject(t, newCluster(1, 40).pod())
		text, size := o.JSON(), o.Size()
		o.Shrink()
		if _, _, ok := o.Packed(); ok {
			t.Fatalf("%s: it is packed before anybody packed it", name)
		}
		p.PackBeside(o)
		packed, with, ok := o.Packed()
		if again := o.JSON(); !ok || o.IsPacked() || &again[0] != &text[0] {
			t.Fatalf("%s: packed beside: %v; packed only: %v; or it was unpacked", name, ok, o.IsPacked())
		}
		if got := o.Size(); got != size+len(packed) {
			t.Errorf("%s: %d bytes plain and %d packed are %d", name, size, len(packed), got)
		}
		back, err := FromPacked(packed, with)
		if err != nil || !bytes.Equal(back.JSON(), text) {
			t.Fatalf("%s: packed: %v, %v", name, back, err)
		}
		p.PackBeside(o)
		shrink(p, o)
		same, _, _ := o.Packed()
		if !o.IsPacked() || &same[0] != &packed[0] || o.Size() >= size || !bytes.Equal(o.JSON(), text) {
			t.Errorf("%s: it was packed again, is still plain, or differs", name)
		}
		p.PackBeside(o)
		if !o.IsPacked() {
			t.Errorf("%s: a packed object became plain", name)
		}
	}
}

// The Packer may pack an object while others read it.
func TestPackingWhileOthersRead(t *testing.T) {
	p, c, view := NewPacker(), newCluster(1, 10), typicalView()
	var objects []*Object
	var texts []string
	for range 300 {
		o := mustObject(t, c.pod())
		objects, texts = append(objects, o), append(texts, string(o.JSON()))
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for _, o := range objects {
				p.Pack(o)
			}
		})
		all.Go(func() {
			for n, o := range objects {
				if string(o.JSON()) != texts[n] || o.Name() == "" || o.Decode(view) == nil {
					t.Errorf("%s became %s", texts[n], o.JSON())
				}
			}
		})
	}
	all.Wait()
}

// When objects unlike those of the dictionary arrive, the Packer makes a new dictionary from them.
func TestDictionaryFollowsTheObjects(t *testing.T) {
	p := NewPacker()
	_, usual := packedPods(t, p, newCluster(1, 40), 4000)
	other := func(n int) (left float64) {
		plain, packed := 0, 0
		for i := range n {
			o := mustObject(t, fmt.Sprintf(`{"metadata":{"name":"event-%d"},"reason":"Scheduled","involvedObject":{"kind":"Pod","fieldPath":"spec.containers{main}"},`+
				`"message":"Successfully assigned default/web-%d to node-%d","source":{"component":"default-scheduler"},"firstTimestamp":null,"eventTime":"2026-01-01T00:00:00.%06dZ",`+
				`"reportingComponent":"default-scheduler","reportingInstance":"default-scheduler-control-plane","action":"Binding","type":"Normal"}`, i, i, i%10, i))
			plain += len(o.JSON())
			p.Pack(o)
			packed += len(o.content.Load().bytes)
		}
		return float64(packed) / float64(plain)
	}
	first := other(500)
	other(4 * compared)
	if last := other(500); last > first/2 {
		t.Errorf("packing leaves %.0f%% of pods, %.0f%% of the first other objects and %.0f%% of the last, want at most half for the last", 100*usual, 100*first, 100*last)
	}
}

func TestDictionariesInUseAreBounded(t *testing.T) {
	p := NewPacker()
	var kept []*Object
	for n := range 2 * maxDictionaries {
		objects, _ := packedPods(t, p, newCluster(uint64(n), 3), 40)
		kept = append(kept, objects...)
		p.mu.Lock()
		p.due = p.sample.seen // a new dictionary is due at once
		p.mu.Unlock()
	}
	if n := len(p.made); n != maxDictionaries {
		t.Fatalf("the objects use %d dictionaries, want %d", n, maxDictionaries)
	}
	if len(p.sample.objects) > sampleSize {
		t.Errorf("the sample holds %d objects, want at most %d", len(p.sample.objects), sampleSize)
	}
	runtime.KeepAlive(kept)
	kept = nil
	p.sample = newSample()
	runtime.GC()
	kept, _ = packedPods(t, p, newCluster(0, 3), firstDictionary)
	p.mu.Lock()
	p.renew()
	p.mu.Unlock()
	if n := len(p.made); n > 2 {
		t.Errorf("the last few objects use %d dictionaries, want at most 2", n)
	}
	runtime.KeepAlive(kept)
}

// AppendJSON appends the text whether or not it is packed.
func TestAppendJSON(t *testing.T) {
	o := mustObject(t, `{"metadata":{"name":"a"},"text":"`+strings.Repeat("again ", 100)+`"}`)
	want := string(o.JSON())
	for range 2 {
		if got := string(o.AppendJSON([]byte("before "))); got != "before "+want {
			t.Errorf("got %.60s…", got)
		}
		NewPacker().Pack(o)
		if !o.IsPacked() {
			t.Fatal("the text is not packed")
		}
	}
}
