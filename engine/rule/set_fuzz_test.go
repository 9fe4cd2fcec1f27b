package rule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// chance makes choices. Each consumes a byte of data. After the last byte, it chooses the first
// option.
type chance struct{ data []byte }

func (c *chance) of(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b) % n
}

func pick[T any](c *chance, of ...T) T { return of[c.of(len(of))] }

func (c *chance) value() string { return pick(c, `"a"`, `"b"`, `"shop"`, `""`) }

func (c *chance) field(of string) string {
	return of + "." + pick(c, "metadata.namespace", "metadata.name", "metadata.labels.app", `metadata["labels"]["a.b/c"]`, "kind", "status.phase", "status.phase.x", "metadata")
}

// test returns a condition. Some conditions fail.
func (c *chance) test(of string) string {
	switch c.of(8) {
	case 0, 1, 2:
		return c.field(of) + " == " + c.value()
	case 3:
		return c.field(of) + " in [" + c.value() + ", " + c.value() + "]"
	case 4:
		return c.field(of) + pick(c, " != ", " > ", " contains ") + c.value()
	case 5:
		return "!" + c.field(of)
	case 6:
		return pick(c, "true", "false", "object.kind")
	}
	return "(" + c.test(of) + pick(c, " and ", " or ") + c.test(of) + ")"
}

func (c *chance) condition(of ...string) string {
	tests := make([]string, c.of(4))
	for i := range tests {
		tests[i] = c.test(pick(c, of...))
	}
	return strings.Join(tests, pick(c, " and ", " and ", " or "))
}

func (c *chance) state(namespace, name string) string {
	labels := pick(c, "", "", `,"labels":null`, `,"labels":"a"`)
	if labels == "" {
		labels = fmt.Sprintf(`,"labels":{"app":%s,"a.b/c":%s}`, pick(c, c.value(), "1"), c.value())
	}
	status := pick(c, fmt.Sprintf(`{"phase":%s}`, pick(c, c.value(), c.value(), `["a"]`, `{"x":"a"}`)), `"a"`, "null")
	return fmt.Sprintf(`{"kind":%s,"metadata":{"namespace":%q,"name":%q,"uid":"u"%s},"status":%s}`, c.value(), namespace, name, labels, status)
}

func (c *chance) delta(t *testing.T) delta.Delta {
	namespace, name := pick(c, "shop", "a", ""), pick(c, "a", "b")
	state := func() *object.Object { return mustObject(t, c.state(namespace, name)) }
	d := delta.Delta{Type: pick(c, delta.Updated, delta.Updated, delta.Deleted, delta.Added, delta.Synced), Object: state()}
	switch {
	case d.Type == delta.Updated || d.Type == delta.Deleted && c.of(3) > 0:
		d.Old = state()
	case d.Type == delta.Deleted && c.of(2) == 0:
		d.Old = d.Object
	}
	return d
}

// selection holds the matches of rules for a change, by the rule's position.
type selection map[int]string

func (s selection) add(i int, r *Rule, d delta.Delta, look Lookup) {
	if m, ok, _ := r.match(d, look); ok {
		s[i] = fmt.Sprintf("%v of %p, before %p", m.Delta.Type, m.Delta.Object, m.Delta.Old)
	}
}

// sparse decodes only the paths of old states that the rules say they read.
type sparse struct {
	everything
	old *object.Paths
}

func (s sparse) Old(o *object.Object) any { return o.Decode(s.old) }

// FuzzSet builds rules and changes from data. The rules that a Set finds must give the same matches
// as all rules do. That must also hold if old states are sparse.
func FuzzSet(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(randomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkSet(t, data) })
}

// checkSet also counts the rules that it asked, and how many of them the Set found and how many
// matched.
func checkSet(t *testing.T, data []byte) (asked, found, matched int) {
	c := &chance{data}
	var texts []string
	for range 1 + c.of(pick(c, 40, 40, 40, 100)) {
		texts = append(texts, c.condition("object")+"|"+c.condition("object", "object", "old"))
	}
	rules := rulesOf(t, texts...)
	for _, r := range rules {
		r.Events = pick(c, delta.All, delta.All, delta.SetOf(delta.Deleted, delta.Added))
	}
	look := sparse{old: new(object.Paths)}
	for _, r := range rules {
		look.old.Union(r.OldPaths())
	}
	s := NewSet(rules)
	var before *object.Object // the state after the last change, or nil
	for range 5 {
		d := c.delta(t)
		// make it the next change of the same object
		if d.Old != nil && before != nil && c.of(3) > 0 && before.Key() == d.Object.Key() {
			d.Old = before
		}
		if before = d.Object; d.Type == delta.Deleted {
			before = nil
		}
		want, got, last := selection{}, selection{}, -1
		for i, r := range rules {
			want.add(i, r, d, everything{})
		}
		s.Each(d, look, func(i int, r *Rule) {
			if i <= last || r != rules[i] {
				t.Fatalf("Each yields rule %d, %q, after rule %d", i, r.Name, last)
			}
			last = i
			got.add(i, r, d, look)
			found++
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("rules %q\n%v of %s\nbefore %v\n(-all rules +found)\n%s", texts, d.Type, d.Object.JSON(), d.Old, diff)
		}
		asked, matched = asked+len(rules), matched+len(want)
	}
	return asked, found, matched
}

// FuzzSet is useful only if the Set leaves out some rules and enough rules match.
func TestGeneratedRules(t *testing.T) {
	var asked, found, matched int
	for seed := range uint64(100) {
		a, f, m := checkSet(t, randomBytes(seed))
		asked, found, matched = asked+a, found+f, matched+m
	}
	t.Logf("of %d rules the Set found %d; %d matched", asked, found, matched)
	if found > asked*3/4 || matched < asked/10 {
		t.Errorf("of %d rules the Set found %d, want at most three quarters; %d matched, want at least a tenth", asked, found, matched)
	}
}

func randomBytes(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, 100+random.IntN(1900))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}
