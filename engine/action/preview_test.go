package action

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiffOf(t *testing.T) {
	for _, c := range []struct {
		name, was, is string
		hides         bool
		want          []string
	}{
		{name: "nothing but what the API server keeps", was: `{"kind":"A","metadata":{"resourceVersion":"1","generation":1}}`, is: `{"metadata":{"resourceVersion":"2"}}`},
		{name: "members", was: `{"a":1,"b":{"c":"x"},"gone":true}`, is: `{"a":2,"b":{"c":"x","d":null}}`,
			want: []string{"~ a: 1 → 2", "+ b.d: null", "- gone: true"}},
		{name: "a new object", is: `{"metadata":{"name":"a","labels":{"app.kubernetes.io/name":"b"}},"empty":{}}`,
			want: []string{"+ empty: {}", `+ metadata.labels["app.kubernetes.io/name"]: "b"`, `+ metadata.name: "a"`}},
		{name: "lists", was: `{"l":[{"a":1},2]}`, is: `{"l":[{"a":3},2,4]}`, want: []string{"~ l[0].a: 1 → 3", "+ l[2]: 4"}},
		{name: "another kind of value", was: `{"a":{"b":1}}`, is: `{"a":[1]}`, want: []string{`~ a: {"b":1} → [1]`}},
		{name: "large numbers", was: `{"a":9007199254740993}`, is: `{"a":9007199254740992}`, want: []string{"~ a: 9007199254740993 → 9007199254740992"}},
		{name: "no values", was: `{"data":{"p":"tiger"}}`, is: `{"data":{"p":"lion","q":"x"}}`, hides: true, want: []string{"~ data.p", "+ data.q"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var was json.RawMessage
			if c.was != "" {
				was = json.RawMessage(c.was)
			}
			got, err := diffOf(was, json.RawMessage(c.is), c.hides)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}

func TestDiffOfIsBounded(t *testing.T) {
	var members []string
	for i := range 100 {
		members = append(members, fmt.Sprintf(`"m%02d":%q`, i, strings.Repeat("x", 10000)))
	}
	got, err := diffOf(nil, json.RawMessage("{"+strings.Join(members, ",")+"}"), false)
	if err != nil || len(got) != maxDiff+1 || got[maxDiff] != "and 36 more" || len(strings.Join(got, "")) > maxDiff*500 {
		t.Errorf("%d lines, the last %q, %v", len(got), got[len(got)-1], err)
	}
}
