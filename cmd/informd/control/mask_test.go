package control

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
)

func TestMaskSecret(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{
			"values go, keys stay",
			`{"apiVersion":"v1","kind":"Secret","type":"Opaque","immutable":true,"metadata":{"name":"s","labels":{"a":"b"}},"data":{"k":"djE="},"stringData":{"l":"v2"}}`,
			`{"apiVersion":"v1","kind":"Secret","type":"Opaque","immutable":true,"metadata":{"name":"s","labels":{"a":"b"}},"data":{"k":"***"},"stringData":{"l":"***"}}`,
		}, {
			"what kubectl applied last",
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"k\":\"djE=\"},\"metadata\":{\"name\":\"s\"}}\n","note":"kept"}}}`,
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"k\":\"***\"},\"metadata\":{\"name\":\"s\"}}","note":"kept"}}}`,
		}, {
			"other appliers have annotations of their own",
			`{"metadata":{"annotations":{"kapp.k14s.io/original":" {\"stringData\":{\"k\":\"v\"}}","objectset.rio.cattle.io/applied":"H4sIAAAA"}}}`,
			`{"metadata":{"annotations":{"kapp.k14s.io/original":"{\"stringData\":{\"k\":\"***\"}}","objectset.rio.cattle.io/applied":"***"}}}`,
		}, {
			"an object in YAML",
			`{"metadata":{"annotations":{"a":"apiVersion: v1\ndata:\n  k: djE=\n","b":"# of\n- stringData: {k: v}\n","note":"two\nlines: kept, as","time":"12:30"}}}`,
			`{"metadata":{"annotations":{"a":"***","b":"***","note":"***","time":"12:30"}}}`,
		}, {
			"what cannot be read is not shown",
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"k\":\"djE=\"","odd":["v"]}}}`,
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"***","odd":"***"}}}`,
		}, {
			"data that is not a map, and unknown fields",
			`{"data":"v","stringData":["v"],"Data":{"k":"v"},"extra":{"k":{"l":"v"}},"more":7}`,
			`{"data":"***","stringData":"***","Data":{"k":"***"},"extra":{"k":"***"},"more":"***"}`,
		}, {
			"of what stands there twice neither is shown",
			`{"data":{"k":"v1"},"data":{"k":"v2"}}`,
			`{"data":{"k":"***"}}`,
		},
		{"metadata that is none", `{"metadata":"v"}`, `{"metadata":"***"}`},
		{"annotations that are none", `{"metadata":{"annotations":"v"}}`, `{"metadata":{"annotations":"***"}}`},
		{"nothing", `{"data":null}`, `{"data":null}`},
		{"no object", `["v"]`, `"***"`},
		{"no JSON", `v`, `"***"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got, want any
			if err := json.Unmarshal(MaskSecret([]byte(test.text)), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever a Secret's value is and however the Secret holds it, no text of it is shown.
func FuzzMaskSecret(f *testing.F) {
	f.Add("password", "hunter2", "note")
	f.Add("a\"b", "{\"data\":1}", "kubectl.kubernetes.io/last-applied-configuration")
	f.Add("data", "\x00\xff<&>\u2028", "")
	f.Fuzz(func(t *testing.T, key, value, annotation string) {
		value = "hunter2:" + value + ":hunter2"
		encoded := base64.StdEncoding.EncodeToString([]byte(value))
		inner, err := json.Marshal(map[string]any{
			"data": map[string]string{key: encoded}, "stringData": map[string]any{key: map[string]string{key: value}},
		})
		if err != nil {
			t.Fatal(err)
		}
		nested, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotation: string(inner)}}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]any{
			"metadata":   map[string]any{"name": "s", "annotations": map[string]string{annotation: string(nested), annotation + "2": string(inner)}},
			"data":       map[string]string{key: encoded},
			"stringData": map[string]string{key: value},
			"other":      map[string]any{key: []string{value}},
		})
		if err != nil {
			t.Fatal(err)
		}
		got := MaskSecret(text)
		if !json.Valid(got) {
			t.Fatalf("%s is no JSON", got)
		}
		for _, secret := range []string{"hunter2", encoded} {
			if strings.Contains(string(got), secret) && !strings.Contains(key+annotation, secret) {
				t.Fatalf("%q in %s", secret, got)
			}
		}
	})
}

func TestReasonsOfLetters(t *testing.T) {
	for _, c := range []struct {
		letter Letter
		want   string
	}{
		{Letter{Reason: "why"}, "why"},
		{Letter{Reason: "why", Confidential: true}, masked},
		{Letter{Reason: "why", Secret: true}, masked},
		{Letter{Reason: "why", Secret: true, Confidential: true, Plain: true}, "why"},
	} {
		if got := maskLetter(c.letter).Reason; got != c.want {
			t.Errorf("%+v: %s, want %s", c.letter, got, c.want)
		}
	}
}

// A group's letter holds a Secret in each of its items.
func TestItemsOfLetters(t *testing.T) {
	item := handler.Event{Object: json.RawMessage(`{"data":{"a":"hunter2"}}`), Old: json.RawMessage(`{"data":{"a":"hunter2"}}`)}
	group := item
	group.Items = []handler.Event{{Name: "older", Payload: json.RawMessage(`"hunter2"`)}, item}
	whole, err := json.Marshal(group)
	if err != nil {
		t.Fatal(err)
	}
	shown := maskLetter(Letter{Secret: true, Event: &group})
	text, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	if len(shown.Event.Items) != 2 || shown.Event.Items[0].Name != "older" || bytes.Contains(text, []byte("hunter2")) {
		t.Errorf("%s", text)
	}
	if now, err := json.Marshal(group); err != nil || !bytes.Equal(whole, now) {
		t.Errorf("the event itself changed: %s, %v", now, err)
	}
	confidential := maskLetter(Letter{Confidential: true, Event: &group})
	if got := string(confidential.Event.Items[0].Payload); got != `"***"` {
		t.Errorf("a payload that may quote a Secret: %s", got)
	}
}
