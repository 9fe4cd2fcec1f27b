package object

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/s2"
)

// Packed gives all that is needed to restore an object without the Packer, in another process too.
func TestPackedObjectsAreRestored(t *testing.T) {
	p := NewPacker()
	objects, _ := packedPods(t, p, newCluster(1, 40), 300)
	dictionaries := map[*Dictionary]*Dictionary{}
	for _, o := range objects {
		packed, with, ok := o.Packed()
		if !ok {
			t.Fatal("the object is not packed")
		}
		if dictionaries[with] == nil {
			again, err := NewDictionary(with.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			dictionaries[with] = again
		}
		back, err := FromPacked(bytes.Clone(packed), dictionaries[with])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(o.JSON()), string(back.JSON())); diff != "" || back.ID.text != o.ID.text || back.ID.ends != o.ID.ends {
			t.Fatalf("%q came back as %q: %s", o.ID.text, back.ID.text, diff)
		}
		if !back.IsPacked() {
			t.Fatal("FromPacked returned an object that is not packed")
		}
		if got, want := back.Length(), len(o.JSON()); got != want {
			t.Fatalf("%q has the length %d, want %d", o.ID.text, got, want)
		}
	}
	if len(dictionaries) < 2 {
		t.Errorf("the objects use %d dictionaries, want the zero dictionary and others", len(dictionaries))
	}
}

func TestMalformedPackedObjectsAreRefused(t *testing.T) {
	p := NewPacker()
	objects, _ := packedPods(t, p, newCluster(1, 40), 300)
	packed, with, _ := objects[299].Packed()
	if _, err := FromPacked(bytes.Clone(packed), nil); err == nil {
		t.Error("FromPacked accepts an object without its dictionary")
	}
	long := strings.Repeat("a", 1000)
	for _, text := range []string{long, `{"a":"` + long, `["` + long + `"]`, `{"a":"` + long + `","metadata":{"name":1}}`, `{"a":"` + long + `"} {}`} {
		if o, err := FromPacked(s2.Encode(nil, []byte(text)), nil); err == nil {
			t.Errorf("FromPacked accepts %.20q as object %q", text, o.Key())
		}
	}
	for n := range packed { // no changed byte may cause a panic, or take more memory than an object may
		for _, with := range []*Dictionary{with, nil} {
			broken := bytes.Clone(packed)
			broken[n] ^= 0x55
			_, _ = FromPacked(broken, with)
		}
		_, _ = FromPacked(bytes.Clone(packed[:n]), with)
	}
	if _, err := FromPacked([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, nil); err == nil {
		t.Error("FromPacked accepts a text that claims 4 GiB")
	}
	if _, err := NewDictionary([]byte{1, 2, 3}); err == nil {
		t.Error("NewDictionary accepts three bytes")
	}
}

func TestFromIdentity(t *testing.T) {
	for _, id := range [][4]string{{"shop", "web", "u-1", "7"}, {"", "node-1", "u", "1"}, {"", "", "", "9"}, {"a\"b", "é", "", ""}} {
		o := FromIdentity(id[0], id[1], id[2], id[3])
		same, err := FromJSON(o.JSON())
		if err != nil {
			t.Fatal(err)
		}
		if same.ID.text != o.ID.text || same.ID.ends != o.ID.ends {
			t.Errorf("%q reads as %q", o.ID.text, same.ID.text)
		}
		if got := [4]string{o.Namespace(), o.Name(), o.UID(), o.ResourceVersion()}; got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
}
