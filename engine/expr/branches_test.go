package expr

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestBranches(t *testing.T) {
	for _, c := range []struct {
		why, text, object string
		want              string // each branch with its offset and the outcomes of two evaluations
	}{
		{"the whole text", `object.a == "x"`, `{"a":"x"}`, `0 object.a == "x" [true true]`},
		{"operands", `object.a and not (object.b or object.c)`, `{"a":true,"b":true}`,
			`0 object.a [true true]; 18 object.b [true true]; 30 object.c []; 13 not (object.b or object.c) [false false]`},
		{"left of and decides", `object.a and object.b`, `{}`, `0 object.a [false false]; 13 object.b []`},
		{"a condition", `object.a == 1 ? object.b : object.c == 2`, `{"a":1,"b":true}`,
			`0 object.a == 1 [true true]; 0 object.a == 1 ? object.b : object.c == 2 [true true]`},
		{"within a predicate", `any(object.l, .x and .y > 1)`, `{"l":[{"x":false},{"x":true,"y":2}]}`,
			`14 .x [false true false true]; 21 .y > 1 [true true]; 0 any(object.l, .x and .y > 1) [true true]`},
		{"not in", `object.a not in ["x"]`, `{}`, `0 not (object.a in ["x"]) [true true]`},
		{"characters of several bytes", `"ä" == object.a and object.b`, `{"a":"ä"}`, `0 "ä" == object.a [true true]; 21 object.b [false false]`},
		{"what fails has no outcome", `int(object.a) > 1 and true`, `{"a":"x"}`, `0 int(object.a) > 1 []`},
	} {
		t.Run(c.why, func(t *testing.T) {
			type watched struct {
				Branch
				outcomes []bool
			}
			var all []*watched
			p, err := Compile(c.text, Options{Scope: Where, Branch: func(b Branch) func(bool) {
				w := &watched{Branch: b}
				all = append(all, w)
				return func(outcome bool) { w.outcomes = append(w.outcomes, outcome) }
			}})
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Requires()) > 0 {
				t.Error("a program that is watched has conditions that spare its evaluation")
			}
			plain, err := Compile(c.text, Options{Scope: Where})
			if err != nil {
				t.Fatal(err)
			}
			tree := tree(t, c.object)
			for range 2 {
				got, err := p.Bool(&Env{Object: tree})
				want, failure := plain.Bool(&Env{Object: tree})
				if got != want || (err == nil) != (failure == nil) {
					t.Errorf("it gives %v, %v; unwatched %v, %v", got, err, want, failure)
				}
			}
			var got []string
			for _, w := range all {
				got = append(got, fmt.Sprintf("%d %s %v", w.Offset, w.Text, w.outcomes))
			}
			want := strings.Split(c.want, "; ")
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
		})
	}
}
