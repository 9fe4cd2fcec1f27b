package client

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/integration/bench/fleet"
)

// asYAML returns a JSON value as YAML, and fails the test if that means something else.
func asYAML(t testing.TB, text []byte) string {
	t.Helper()
	var w yamlWriter
	if err := w.item(text, 0); err != nil {
		t.Fatal(err)
	}
	out := w.out
	back, err := yaml.YAMLToJSON(out)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	var want, got any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(back, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s\n(-JSON +YAML)\n%s", out, diff)
	}
	return string(out)
}

// awkward are strings that YAML would read as something else if they stood there as they are.
var awkward = []string{
	"", " ", "a ", " a", "a: b", "a:", ":a", "a #b", "a#b", "#a", "- a", "-a", "-", "--", "---", "...", "?", "? a", "?a", "a, b", "[a]", "{a", "a]", "*a", "&a", "!a", "!!str a",
	"|", ">", "%a", "@a", "`a`", "'", "''", "'a'", `"`, `"a"`, `a"b`, `a'b`, `\`, `a\nb`,
	"y", "Y", "yes", "No", "n", "true", "TRUE", "False", "on", "OFF", "null", "Null", "NULL", "~", "<<", "=", ".inf", "-.Inf", "+.inf", ".nan", ".NaN", "nan", "inf", "Infinity",
	"0", "-1", "+1", "1.5", "1.", ".5", "-.5", "1e3", "1E3", "1e+3", "0x1f", "0X1F", "0o17", "017", "08", "0b11", "1_000", "1:30", "12:30:45", "190:20:30.15", "1,000", "0.", "00", "1e", "e1", "1.2.3", "10.0.0.1", "1Gi", "250m", "5m0s",
	"2026-01-12", "2026-1-2", "2026-01-12T06:00:00Z", "2026-01-12 06:00:00", "2026-01", "9f86d081-884c", "12345678-1234", "v1", "apps/v1", "/a", "a/b:c@sha256:1", "kube-system", "é", "日本", "😀", "\u00a0", "\u2028", "\ufeff", "\u0085", "\x7f", "\x00", "\x1b[31m",
	"a\nb", "a\nb\n", "a\nb\n\n", "\na", "\n", "\n\n", " a\nb", "a\n b", "a \nb", "a\nb ", "a\n\n\nb", "a\tb", "\ta\nb", "a\n\tb\n", "a\r\nb", "a\n---\nb\n", "a\n...\n", "a: b\nc: d\n", "# a\n# b\n", "a\n\u00e9\n", "a\n\x00", "- a\n- b",
}

func TestYAMLKeepsTheValue(t *testing.T) {
	long := make([]byte, 3000)
	for i := range long {
		long[i] = "a b:\n"[i%5]
	}
	for _, s := range append(awkward, string(long)) {
		for _, v := range []any{
			s, []any{s}, []any{s, s}, []any{[]any{s, []any{s}}}, map[string]any{"k": s}, map[string]any{s: s}, map[string]any{s: []any{s, map[string]any{s: s, "z": nil}}},
			map[string]any{"a": map[string]any{s: map[string]any{}, "b": []any{}}, "c": []any{[]any{}, map[string]any{}, map[string]any{s: []any{s}}}},
		} {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			asYAML(t, text)
		}
	}
	for _, text := range []string{`0`, `-1`, `9007199254740993`, `1.5`, `1e3`, `1E-7`, `1.0`, `123456789012345678901234567890`, `true`, `null`, `{"a":[1,2.5,{"b":null}]}`, `"\ud83d\ude00\/"`} {
		asYAML(t, []byte(text))
	}
}

// What people look at most is written as kubectl writes it.
func TestYAMLLooksAsUsual(t *testing.T) {
	texts := [][]byte{
		fleet.NewPods(10).Append(nil, 3, 20, 4711), fleet.NewConfigMaps(10).Append(nil, 3, 20, 4711), fleet.NewDeployments(10).Append(nil, 3, 20, 4711),
		[]byte(`{"a":"250m","b":"1Gi","c":"10.0.0.1","d":"true","e":"8080","f":"a: b","g":"*","h":["x",{"y":[],"z":{}}],"i":"it's","j":"-","k":1.5,"l":"nginx:1.25","m":"https://x/y?z=1&a","n":["10.0.0.0/8"]}`),
	}
	for _, text := range texts {
		want, err := yaml.JSONToYAML(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), asYAML(t, text)); diff != "" {
			t.Errorf("(-kubectl +informd)\n%s", diff)
		}
	}
}

func FuzzYAML(f *testing.F) {
	for i, s := range awkward {
		f.Add(s, awkward[len(awkward)-1-i])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		text, err := json.Marshal(map[string]any{a: []any{b, map[string]any{b: a}}, "x": b})
		if err != nil {
			t.Fatal(err)
		}
		asYAML(t, text)
	})
}

// BenchmarkListWriter writes a pod of some 2.9 KB as an item of a list.
func BenchmarkListWriter(b *testing.B) {
	pod := fleet.NewPods(10).Append(nil, 3, 20, 4711)
	for _, output := range []string{"json", "yaml"} {
		b.Run(output, func(b *testing.B) {
			list := newListWriter(discard{}, output)
			b.SetBytes(int64(len(pod)))
			b.ReportAllocs()
			for b.Loop() {
				if err := list.add(pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
