package rule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/expr/value"
	"github.com/informd/informd/engine/object"
)

const inNodes = `lookup("nodes.byName", object.metadata.name)`

// nodes returns n objects in the order of their keys.
func nodes(t testing.TB, n int) (all []*object.Object) {
	t.Helper()
	for i := range n {
		all = append(all, mustObject(t, fmt.Sprintf(`{"metadata":{"name":"n%07d"},"n":%d}`, i, i)))
	}
	return all
}

// walking returns a Walker for an object a, with a big text.
func walking(t testing.TB, look Lookup, each ...ActionTemplate) *Walker {
	t.Helper()
	a := &Actions{Each: each}
	for i := range a.Each {
		a.Each[i].Label = fmt.Sprintf("actions[%d]", i)
	}
	return a.Walker(added(t, `{"metadata":{"name":"a"},"big":"`+strings.Repeat("x", 300<<10)+`"}`), nil, look)
}

// only gives a template an if.
func only(t testing.TB, of ActionTemplate, condition string) ActionTemplate {
	t.Helper()
	o := options
	o.Item, o.Scope = of.ForEach, expr.When
	p, err := expr.Compile(condition, o)
	if err != nil {
		t.Fatal(err)
	}
	of.If = p
	return of
}

// described returns how many actions each piece has, with a | after the last piece of a template.
func described(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "%d ", len(p.Actions))
		if p.Ends {
			b.WriteString("| ")
		}
	}
	return strings.TrimSpace(b.String())
}

func TestPieces(t *testing.T) {
	const copied = `{"metadata":{"name":"${item.metadata.name}"}}`
	big := `{"metadata":{"name":"${item.metadata.name}"},"d":"${object.big}"}`
	one := applying(t, `{"metadata":{"name":"z"}}`)
	work := `any(1..40000, # == -1) ? "x" : item.metadata.name`
	for _, test := range []struct {
		why   string
		nodes int
		each  []ActionTemplate
		want  string
	}{
		{"nothing", 0, []ActionTemplate{forEach(t, inNodes, copied)}, ""},
		{"one action", 0, []ActionTemplate{one}, "1 |"},
		{"actions of one kind each", 3, []ActionTemplate{one, forEach(t, inNodes, copied), one}, "1 | 3 | 1 |"},
		{"as many as a piece takes", 64, []ActionTemplate{forEach(t, inNodes, copied)}, "64 |"},
		{"one more", 65, []ActionTemplate{forEach(t, inNodes, copied)}, "64 1 |"},
		{"twice as many, of a list that is no search", 0, []ActionTemplate{forEach(t, "1..128", `{"metadata":{"name":"a${item}"}}`)}, "64 64 |"},
		{"more than one Evaluate takes", 1100, []ActionTemplate{forEach(t, inNodes, copied)}, strings.Repeat("64 ", 17) + "12 |"},
		{"three large ones and one more", 4, []ActionTemplate{forEach(t, inNodes, big)}, "3 1 |"},
		{"more than 8 MiB in all", 40, []ActionTemplate{forEach(t, inNodes, big)}, strings.Repeat("3 ", 13) + "1 |"},
		{"each larger than a piece", 3, []ActionTemplate{forEach(t, inNodes, `{"metadata":{"name":"${item.metadata.name}"},"d":["${object.big}","${object.big}","${object.big}","${object.big}"]}`)}, "1 1 1 |"},
		{"much work each", 20, []ActionTemplate{forEach(t, inNodes, `{"metadata":{"name":"${`+strings.ReplaceAll(work, `"`, `\"`)+`}"}}`)}, "7 7 6 |"},
		{"much work for what if leaves out", 20, []ActionTemplate{only(t, forEach(t, inNodes, copied), `any(1..40000, # == -1)`)}, "0 0 0 |"},
		{"much work for what if leaves out at first", 40, []ActionTemplate{only(t, forEach(t, inNodes, copied), `any(1..40000, # == -1) or item.n > 30`)}, "0 0 0 0 4 5 |"},
	} {
		t.Run(test.why, func(t *testing.T) {
			var err error
			w := walking(t, shelf{objects: nodes(t, test.nodes)}, test.each...)
			w.most.budget.Steps = 10 * expr.MaxSteps
			pieces := collect(t, w, nil, &err)
			if got := described(pieces); got != test.want || err != nil {
				t.Errorf("got %s, error %v\nwant %s", got, err, test.want)
			}
		})
	}
}

// A piece also ends if its expressions have taken half of the memory.
func TestPiecesThatTakeMemory(t *testing.T) {
	of := only(t, forEach(t, inNodes, `{"metadata":{"name":"a"}}`), `len(object.big + item.metadata.name) == 0`)
	w := walking(t, shelf{objects: nodes(t, 20)}, of)
	w.most.budget.Memory = expr.MaxMemory
	var err error
	if got := described(collect(t, w, nil, &err)); got != "0 0 |" || err != nil {
		t.Errorf("got %s, error %v", got, err)
	}
}

// A walk over more objects than any budget takes ends, and can be stopped although it makes no
// action. It never holds more than a few objects.
func TestWalkOverAnyNumber(t *testing.T) {
	none := only(t, forEach(t, inNodes, `{"metadata":{"name":"a"}}`), "item.n == -1")
	decoded, pieces := 0, 0
	all := slices.Repeat(nodes(t, 1), 100_000)
	w := walking(t, shelf{objects: all, decoded: &decoded}, none)
	w.most.budget.Steps = expr.MaxSteps
	err := w.Walk(nil, func(p Piece) error {
		pieces++
		return nil
	})
	if err != nil || decoded != len(all) || pieces < 3 {
		t.Errorf("decoded %d objects in %d pieces, error %v", decoded, pieces, err)
	}
	stop := errors.New("stop")
	decoded = 0
	if err := w.Walk(nil, func(Piece) error { return stop }); err != stop || decoded > len(all)/2 {
		t.Errorf("decoded %d objects, error %v, want %v", decoded, err, stop)
	}
}

// One action has the bounds that Evaluate has for all of them.
func TestBoundsOfOneAction(t *testing.T) {
	parts := strings.Repeat(`"${object.big}",`, 29)
	w := walking(t, shelf{}, applying(t, `{"metadata":{"name":"a"},"d":[`+parts+`"${1..2}"]}`))
	err := w.Walk(nil, func(Piece) error { return nil })
	if err == nil || err.Error() != "actions[0].apply.object: the action exceeds 8 MiB" {
		t.Error(err)
	}
}

// All walks of a Walker are over the same list, whatever changes between two walks and during one.
// A new Walker sees the changes.
func TestWalksOverOneSnapshot(t *testing.T) {
	for _, list := range []string{inNodes, `byIndex("byTier", "x")`, `filter(` + inNodes + `, .n >= 0)`} {
		t.Run(list, func(t *testing.T) {
			searches := 0
			look := &shelf{objects: nodes(t, 200), searches: &searches}
			template := forEach(t, list, `{"metadata":{"name":"${item.metadata.name}"},"d":"${now()}"}`)
			w := walking(t, look, template, template)
			var first, second []Piece
			visit := func(to *[]Piece) func(Piece) error {
				return func(p Piece) error {
					*to = append(*to, p)
					look.objects = nodes(t, 3)
					look.now = look.now.Add(time.Hour)
					return nil
				}
			}
			if err := errors.Join(w.Walk(nil, visit(&first)), w.Walk(nil, visit(&second))); err != nil {
				t.Fatal(err)
			}
			if got := described(first); got != "64 64 64 8 | 64 64 64 8 |" {
				t.Errorf("the list changed during the walk: %s", got)
			}
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("the second walk differs: %s", diff)
			}
			if searches != 1 {
				t.Errorf("the Walker has searched %d times, want once", searches)
			}
			var err error
			if got := described(collect(t, walking(t, look, template), nil, &err)); got != "3 |" || err != nil {
				t.Errorf("a new Walker gives %s, error %v", got, err)
			}
		})
	}
}

// A failure for one element says which one. Its text says no more than before, because it is the
// key under which failures are counted.
func TestElementsThatFail(t *testing.T) {
	copied := forEach(t, inNodes, `{"metadata":{"name":"n${1 / (item.n - 70)}"}}`)
	for _, test := range []struct {
		why     string
		of      ActionTemplate
		want    string
		element int // or -1
		pieces  string
	}{
		{"the template", copied, "actions[1].apply.object.metadata.name: division by zero", 70, "1 | 64"},
		{"the if", only(t, copied, "1 % (item.n - 2) == 1"), "actions[1].if: division by zero", 2, "1 |"},
		{"the list", forEach(t, "object.big", `{}`), "actions[1].forEach: forEach gives a string, not a list", -1, "1 |"},
		{"no list", applying(t, `{"metadata":{"name":"${object.no}"}}`), "actions[1].apply.object.metadata.name: it is nil", -1, "1 |"},
	} {
		t.Run(test.why, func(t *testing.T) {
			first := applying(t, `{"metadata":{"name":"z"}}`)
			w := walking(t, shelf{objects: nodes(t, 100)}, first, test.of, copied)
			var pieces []Piece
			err := w.Walk(nil, func(p Piece) error { pieces = append(pieces, p); return nil })
			n, ok := ElementOf(err)
			if fmt.Sprint(err) != test.want || ok != (test.element >= 0) || ok && n != test.element {
				t.Errorf("element %d, %v: %v\nwant element %d: %s", n, ok, err, test.element, test.want)
			}
			if got := described(pieces); got != test.pieces {
				t.Errorf("visited %s, want %s", got, test.pieces)
			}
		})
	}
}

// What visit does wrong is its own: Walk neither changes its errors nor takes its panics for
// failures of expressions.
func TestFailuresOfVisit(t *testing.T) {
	w := walking(t, shelf{objects: nodes(t, 100)}, forEach(t, inNodes, `{"metadata":{"name":"${item.metadata.name}"}}`))
	var cause any
	func() {
		defer func() { cause = recover() }()
		_ = w.Walk(nil, func(Piece) error { panic("visit") })
	}()
	if cause != "visit" {
		t.Errorf("the panic of visit is %v", cause)
	}
	w.change.Type = delta.Updated // a failure on an unreadable text would be evaluated once more
	unreadable := value.ErrYear
	for calls := range 2 { // within the list, and at its end
		n := 0
		err := w.Walk(nil, func(Piece) error {
			if n++; n > calls {
				return unreadable
			}
			return nil
		})
		if err != error(unreadable) {
			t.Errorf("got %v, want the very error of visit", err)
		}
	}
	again := 0
	err := w.Walk(nil, func(p Piece) error {
		return w.Walk(nil, func(Piece) error { again++; return nil }) // one walk within another
	})
	if err != nil || again != 4 {
		t.Errorf("visited %d pieces, error %v", again, err)
	}
}

// Evaluate takes a list that is one search and exceeds one expression, if the actions fit.
func TestEvaluateLongSearch(t *testing.T) {
	of := only(t, forEach(t, inNodes, `{"metadata":{"name":"${item.metadata.name}"}}`), "item.n % 100 == 0")
	a := Actions{Each: []ActionTemplate{of}}
	d := delta.Delta{Type: delta.Added, Object: mustObject(t, `{"metadata":{"name":"a"}}`)}
	steps, err := a.Evaluate(d, nil, shelf{objects: nodes(t, 50_000)})
	if err != nil || len(steps) != 1 || len(steps[0].Actions) != 500 {
		t.Errorf("%d steps, error %v", len(steps), err)
	}
}
