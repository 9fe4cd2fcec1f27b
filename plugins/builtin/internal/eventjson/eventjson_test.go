package eventjson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/builtin/internal/eventjson"
	"github.com/informd/informd/plugins/handler"
)

var pods = handler.Resource{Version: "v1", Resource: "pods"}

func TestAppend(t *testing.T) {
	for _, test := range []struct {
		name string // why the case is here
		give handler.Event
		want string
	}{{
		name: "the event of the design, member by member",
		give: handler.Event{
			ID: "crash-looping/7f/updated/12", Rule: "crash-looping", Event: handler.Updated, Attempt: 1, Resource: pods,
			Namespace: "shop", Name: "web-0", UID: "7f", ResourceVersion: "12",
			Object: json.RawMessage(`{"a":2}`), Old: json.RawMessage(`{"a":1}`), Payload: json.RawMessage(`{"p":true}`),
		},
		want: `{"id":"crash-looping/7f/updated/12","rule":"crash-looping","event":"updated","attempt":1,` +
			`"resource":{"group":"","version":"v1","resource":"pods"},` +
			`"namespace":"shop","name":"web-0","uid":"7f","resourceVersion":"12",` +
			`"object":{"a":2},"old":{"a":1},"payload":{"p":true}}`,
	}, {
		name: "a cluster-scoped object has no namespace, and absent members are left out",
		give: handler.Event{ID: "i", Rule: "r", Event: handler.Added, Attempt: 3, Resource: handler.Resource{Version: "v1", Resource: "nodes"}, Name: "n1", UID: "u", ResourceVersion: "1"},
		want: `{"id":"i","rule":"r","event":"added","attempt":3,"resource":{"group":"","version":"v1","resource":"nodes"},` +
			`"name":"n1","uid":"u","resourceVersion":"1"}`,
	}, {
		name: "a payload may be null, and is there",
		give: handler.Event{ID: "i", Rule: "r", Event: handler.Deleted, Resource: pods, Payload: json.RawMessage(`null`)},
		want: `{"id":"i","rule":"r","event":"deleted","attempt":0,"resource":{"group":"","version":"v1","resource":"pods"},` +
			`"name":"","uid":"","resourceVersion":"","payload":null}`,
	}, {
		name: "nothing is escaped for HTML, and numbers stay as they are written",
		give: handler.Event{ID: "<&>", Resource: pods, Object: json.RawMessage(`{"html":"<b>&amp;</b>","n":9007199254740993,"f":1.0}`)},
		want: `{"id":"<&>","rule":"","event":"","attempt":0,"resource":{"group":"","version":"v1","resource":"pods"},` +
			`"name":"","uid":"","resourceVersion":"","object":{"html":"<b>&amp;</b>","n":9007199254740993,"f":1.0}}`,
	}, {
		name: "what is attached, by name, also where there is nothing",
		give: handler.Event{ID: "i", Resource: pods, Attached: map[string][]json.RawMessage{
			"pods": {json.RawMessage(`{"a":"<"}`), json.RawMessage("{\n\"b\": 1}")}, "nodes": {},
		}},
		want: `{"id":"i","rule":"","event":"","attempt":0,"resource":{"group":"","version":"v1","resource":"pods"},` +
			`"name":"","uid":"","resourceVersion":"","attached":{"nodes":[],"pods":[{"a":"<"},{"b":1}]}}`,
	}, {
		name: "the items of a group, each an event of its own",
		give: handler.Event{ID: "b", Resource: pods, Payload: json.RawMessage(`2`), Items: []handler.Event{
			{ID: "a", Resource: pods, Object: json.RawMessage("{\n\"html\": \"<b>\"}"), Old: json.RawMessage(`{}`)},
			{ID: "b", Resource: pods, Payload: json.RawMessage(`2`)},
		}},
		want: `{"id":"b","rule":"","event":"","attempt":0,"resource":{"group":"","version":"v1","resource":"pods"},` +
			`"name":"","uid":"","resourceVersion":"","payload":2,"items":[` +
			`{"id":"a","rule":"","event":"","attempt":0,"resource":{"group":"","version":"v1","resource":"pods"},` +
			`"name":"","uid":"","resourceVersion":"","object":{"html":"<b>"},"old":{}},` +
			`{"id":"b","rule":"","event":"","attempt":0,"resource":{"group":"","version":"v1","resource":"pods"},` +
			`"name":"","uid":"","resourceVersion":"","payload":2}]}`,
	}, {
		name: "the epoch of an informd with replicas, and the place in a trace",
		give: handler.Event{
			ID: "i", Resource: pods, Object: json.RawMessage(`{}`),
			Epoch: handler.Epoch{Cluster: "6b1e", Generation: 1, Term: 7}, Traceparent: "00-a-b-01",
		},
		want: `{"id":"i","rule":"","event":"","attempt":0,"resource":{"group":"","version":"v1","resource":"pods"},` +
			`"name":"","uid":"","resourceVersion":"","epoch":{"cluster":"6b1e","generation":1,"term":7},` +
			`"traceparent":"00-a-b-01","object":{}}`,
	}, {
		name: "an object over several lines becomes one line",
		give: handler.Event{ID: "i", Resource: pods, Object: json.RawMessage("{\n  \"a\": \"<b>\",\r\n  \"b\": [1,\n 2]\n}\n")},
		want: `{"id":"i","rule":"","event":"","attempt":0,"resource":{"group":"","version":"v1","resource":"pods"},` +
			`"name":"","uid":"","resourceVersion":"","object":{"a":"<b>","b":[1,2]}}`,
	}} {
		t.Run(test.name, func(t *testing.T) {
			got, err := eventjson.Append([]byte("before "), test.give)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("before "+test.want, string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAppendRefusesLineBreaks(t *testing.T) {
	got, err := eventjson.Append([]byte("before"), handler.Event{ID: "i", Object: json.RawMessage("{\n\"secret")})
	if err == nil || string(got) != "before" {
		t.Fatalf("got %q, %v; want an error and nothing appended", got, err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows the object: %v", err)
	}
}

// FuzzAppend holds Append to encoding/json, for every event whose raw members are JSON.
func FuzzAppend(f *testing.F) {
	f.Add("id", "shop", 1, []byte(`{"a":1}`), []byte("{\n}"), []byte(``))
	f.Add("<\u2028\xff\x00>", "", -1, []byte(`"<"`), []byte(``), []byte(` null `))
	f.Fuzz(func(t *testing.T, id, namespace string, attempt int, object, old, payload []byte) {
		for _, raw := range [][]byte{object, old, payload} {
			if len(raw) > 0 && !json.Valid(raw) {
				t.Skip("a raw member that is no JSON")
			}
		}
		ev := handler.Event{ID: id, Namespace: namespace, Attempt: attempt, Object: object, Old: old, Payload: payload}
		if len(old) > 0 {
			ev.Attached = map[string][]json.RawMessage{id: {old, old}, "none": {}}
			older := ev
			older.ID = namespace
			ev.Items = []handler.Event{older, ev}
		}
		got, err := eventjson.Append(nil, ev)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(got, "\r\n") {
			t.Fatalf("not one line: %q", got)
		}
		var want, compact bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(ev); err != nil {
			t.Fatal(err)
		}
		if err := json.Compact(&compact, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), compact.String()+"\n"); diff != "" {
			t.Errorf("(-encoding/json +Append)\n%s", diff)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	object := json.RawMessage(`{"data":"` + strings.Repeat("x", 3000) + `"}`)
	ev := handler.Event{ID: "i", Rule: "r", Event: handler.Added, Attempt: 1, Resource: pods, Name: "n", Object: object}
	var buf []byte
	for b.Loop() {
		buf, _ = eventjson.Append(buf[:0], ev)
	}
}
