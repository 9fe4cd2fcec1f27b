package value_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/engine/expr/value"
)

func TestMeter(t *testing.T) {
	for _, test := range []struct {
		why          string
		take         func(m *value.Meter) error
		steps, bytes int // what it takes
	}{
		{"a step", (*value.Meter).Step, 1, 0},
		{"looking at nothing", func(m *value.Meter) error { return m.Scan(0) }, 1, 0},
		{"at 255 bytes", func(m *value.Meter) error { return m.Scan(255) }, 1, 0},
		{"at 256 bytes", func(m *value.Meter) error { return m.Scan(256) }, 2, 0},
		{"bytes", func(m *value.Meter) error { return m.Alloc(100) }, 0, 100},
		{"an empty list", func(m *value.Meter) error { return m.AllocList(0) }, 0, 32},
		{"a list", func(m *value.Meter) error { return m.AllocList(10) }, 0, 192},
		{"an empty map has room for eight", func(m *value.Meter) error { return m.AllocMap(0) }, 0, 432},
		{"a map", func(m *value.Meter) error { return m.AllocMap(10) }, 0, 528},
		{"a tree", func(m *value.Meter) error { return m.AllocTree(dict{"key": list{"text", int64(1), nil}}) }, 5, 432 + 3 + 80 + 16 + 4},
	} {
		enough := &value.Meter{Steps: test.steps, Bytes: test.bytes}
		if err := test.take(enough); err != nil || *enough != (value.Meter{}) {
			t.Errorf("%s: %v, and %+v is left", test.why, err, *enough)
		}
		for steps := range test.steps {
			if err := test.take(&value.Meter{Steps: steps, Bytes: value.MaxMemory}); err != value.ErrSteps {
				t.Errorf("%s with %d steps: %v, want %v", test.why, steps, err, value.ErrSteps)
			}
		}
		for bytes := range test.bytes {
			if err := test.take(&value.Meter{Steps: value.MaxSteps, Bytes: bytes}); err != value.ErrMemory {
				t.Errorf("%s with %d bytes: %v, want %v", test.why, bytes, err, value.ErrMemory)
			}
		}
	}
	huge := &value.Meter{Steps: value.MaxSteps, Bytes: 1 << 60}
	for why, err := range map[string]error{
		"less than nothing":     huge.Alloc(-1),
		"a list that overflows": huge.AllocList(1 << 60), "a list over the bound": huge.AllocList(value.MaxMemory + 1),
		"a map that overflows": huge.AllocMap(1 << 59), "a map over the bound": huge.AllocMap(value.MaxMemory + 1),
	} {
		if err != value.ErrMemory {
			t.Errorf("%s: %v, want %v", why, err, value.ErrMemory)
		}
	}
}

// The work of an operator or function stays in proportion to the steps and bytes that it takes.
func TestNothingRunsAway(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	var numbers, lists, pairs list
	for i := range int64(50_000) {
		numbers, lists, pairs = append(numbers, -i), append(lists, list{i}), append(pairs, list{fmt.Sprint(i), i})
	}
	longKeys := dict{long + "1": 1, long + "2": 2}
	for _, test := range []struct {
		why   string
		apply func(m *value.Meter) (any, error)
		times int // how often a budget must not allow it
		want  error
	}{
		{"doubled values compared", operate(doubled(60), "==", doubled(60)), 1, value.ErrSteps},
		{"doubled values flattened", function("flatten", doubled(60)), 1, value.ErrSteps},
		{"deep values compared", operate(deep(9000), "==", deep(9000)), 1, nil},
		{"deep values flattened", function("flatten", deep(20000)), 1, value.ErrDepth},
		{"sorting", function("sort", numbers), 1, value.ErrSteps},
		{"uniq of what is not strings", function("uniq", numbers), 1, value.ErrSteps},
		{"uniq of lists", function("uniq", lists), 1, value.ErrSteps},
		{"fromPairs", function("fromPairs", pairs), 8, value.ErrSteps},
		{"looking for an element", operate(int64(1), "in", numbers), 40, value.ErrSteps},
		{"looking for a long key", operate(long, "in", dict{}), 40, value.ErrSteps},
		{"the keys of a map, if they are long", function("keys", longKeys), 40, value.ErrSteps},
		{"the values under them", function("values", longKeys), 40, value.ErrSteps},
		{"a map of long keys", function("fromPairs", list{list{long + "1", nil}}), 40, value.ErrSteps},
		{"what a map has under a long key", function("get", dict{}, long), 40, value.ErrSteps},
		{"searching", operate(long, "contains", "ab"), 40, value.ErrSteps},
		{"joining strings", operate(long, "+", "b"), 8, value.ErrMemory},
	} {
		t.Run(test.why, func(t *testing.T) {
			m := meter()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var err error
			for range test.times {
				if _, err = test.apply(m); err != nil {
					break
				}
			}
			runtime.ReadMemStats(&after)
			if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 4*value.MaxMemory {
				t.Errorf("allocated %d MiB", bytes>>20)
			}
			if err != test.want {
				t.Errorf("got %v, want %v; left are %+v", err, test.want, *m)
			}
		})
	}
}

func operate(a any, operator string, b any) func(*value.Meter) (any, error) {
	return func(m *value.Meter) (any, error) { return value.Binary[operator](m, a, b) }
}

func function(name string, args ...any) func(*value.Meter) (any, error) {
	return func(m *value.Meter) (any, error) { return value.Functions[name].Call(m, args) }
}

// What upper makes of bytes that are not UTF-8 is three times as long.
func TestMemoryOfUpperCase(t *testing.T) {
	for _, name := range []string{"upper", "lower"} {
		m := meter()
		v, err := value.Functions[name].Call(m, list{"äÄ" + strings.Repeat("\xff", 1000)})
		if taken := value.MaxMemory - m.Bytes; err != nil || taken < len(v.(string)) {
			t.Errorf("%s takes %d bytes for %d: %v", name, taken, len(v.(string)), err)
		}
	}
}

// With less than it takes, every operator and function gives a budget's error, and takes no more
// than there is.
func TestEveryBudgetIsKept(t *testing.T) {
	two := list{int64(2), "b", nil, int64(1)}
	labels := dict{"tier": "front", "app": list{int64(1)}}
	calls := map[string]list{
		"string": {1.5}, "upper": {"a"}, "lower": {"A"}, "trim": {"a", "b"}, "trimPrefix": {"a"}, "trimSuffix": {"a", "a"},
		"hasPrefix": {"a", "b"}, "hasSuffix": {"a", "b"}, "indexOf": {"a", "b"}, "lastIndexOf": {"a", "b"}, "split": {"a,b", ","}, "splitAfter": {"a,b", ",", int64(1)},
		"replace": {"a", "a", "bb"}, "repeat": {"a", int64(3)}, "join": {list{"a", "b"}, ","}, "toBase64": {"a"}, "fromBase64": {"aGk="}, "toJSON": {labels}, "fromJSON": {`{"a":[1,"b",null,{}]}`}, "notAfter": {spring},
		"len": {"a"}, "reverse": {two}, "concat": {two, two}, "flatten": {list{two, list{two}}}, "uniq": {list{"a", "b", int64(1), int64(2), list{int64(1)}, list{int64(2)}}}, "sort": {list{"b", "c", "a"}},
		"get": {labels, "tier"}, "keys": {labels}, "values": {labels}, "toPairs": {labels}, "fromPairs": {list{list{"a", int64(1)}, list{"b", int64(2)}}},
		"min": {list{"a", "b"}}, "max": {int64(1), list{int64(2)}}, "mean": {int64(1), int64(2)}, "median": {list{int64(1)}},
	}
	free := []string{"first", "last", "take", "int", "float", "abs", "ceil", "floor", "round", "quantity", "time", "duration", "type"}
	for name := range value.Functions {
		args, metered := calls[name]
		if !metered {
			if !slices.Contains(free, name) {
				t.Errorf("no budget of %s is tested", name)
			}
			continue
		}
		checkBudgets(t, name, function(name, args...))
	}
	for operator, operands := range map[string][2]any{
		"+": {"a", "b"}, "..": {int64(1), int64(3)}, "in": {int64(9), list{int64(1), list{}}}, "==": {list{"a", labels}, list{"a", labels}}, "!=": {dict{"a": list{int64(1)}}, dict{"a": list{int64(2)}}}, "<": {"a", "b"},
		"contains": {"a", "b"}, "startsWith": {"a", "b"}, "endsWith": {"a", "b"}, "matches": {"a", "b+"},
	} {
		checkBudgets(t, operator, operate(operands[0], operator, operands[1]))
	}
	checkBudgets(t, "uniq", function("uniq", list{int64(1)}))
	checkBudgets(t, "in", operate("a", "in", labels))
	checkBudgets(t, "slice", func(m *value.Meter) (any, error) { return m.Slice("abc", int64(0), int64(1)) })
}

func checkBudgets(t *testing.T, name string, apply func(*value.Meter) (any, error)) {
	t.Helper()
	m := meter()
	want, err := apply(m)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	steps, bytes := value.MaxSteps-m.Steps, value.MaxMemory-m.Bytes
	if steps == 0 && bytes == 0 {
		t.Errorf("%s takes nothing", name)
	}
	enough := &value.Meter{Steps: steps, Bytes: bytes}
	if got, err := apply(enough); err != nil || written(got) != written(want) || *enough != (value.Meter{}) {
		t.Errorf("%s takes %d steps and %d bytes, but with just these it gives %v, %v, and %+v is left", name, steps, bytes, got, err, *enough)
	}
	for n := range steps {
		if _, err := apply(&value.Meter{Steps: n, Bytes: bytes}); err != value.ErrSteps {
			t.Errorf("%s takes %d steps, but with %d: %v", name, steps, n, err)
		}
	}
	for n := range bytes {
		m := &value.Meter{Steps: steps, Bytes: n}
		if _, err := apply(m); err != value.ErrMemory || m.Bytes < 0 {
			t.Errorf("%s takes %d bytes, but with %d: %v, and %d are left", name, bytes, n, err, m.Bytes)
		}
	}
}
