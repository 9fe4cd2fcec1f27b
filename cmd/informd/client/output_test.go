package client

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// A list that is written object by object reads as one that was written at once.
func TestListWriter(t *testing.T) {
	objects := []string{
		`{}`,
		`{"a":"x\n\n  y\n\n","b":"  leading\nand trailing \n","c":"- item\nkey: value\n---\n...\n"}`,
		`{"big":9007199254740993,"float":1.5,"nothing":null,"no":"no","on":"true","time":"2026-01-02T03:04:05Z"}`,
		`{"list":[[],{},[{"a":"\n"}],"<&>","\u0000\u001b\u2028\ufeff"],"empty":"","tab":"\t"}`,
	}
	for _, output := range []string{"json", "yaml"} {
		for n := range len(objects) + 1 {
			var b bytes.Buffer
			list := newListWriter(&b, output)
			items := []any{}
			for _, text := range objects[:n] {
				if err := list.add([]byte(text)); err != nil {
					t.Fatal(err)
				}
				items = append(items, exact(t, []byte(text)))
			}
			if err := list.end(); err != nil {
				t.Fatal(err)
			}
			text := b.Bytes()
			if output == "yaml" {
				var err error
				if text, err = yaml.YAMLToJSON(text); err != nil {
					t.Fatalf("%v in:\n%s", err, b.String())
				}
			}
			want := map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
			if diff := cmp.Diff(want, exact(t, text)); diff != "" {
				t.Errorf("%s of %d objects: %s", output, n, diff)
			}
		}
	}
}

// exact decodes JSON without making floats of its numbers.
func exact(t *testing.T, text []byte) (v any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 12_910_592: "12.3 MiB", 3 << 40: "3072.0 GiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
