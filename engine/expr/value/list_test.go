package value_test

import (
	"testing"

	"github.com/informd/informd/engine/expr/value"
)

func TestLists(t *testing.T) {
	check(t, []test{
		{"first and last", each(call("first", list{1, 2}), call("last", list{1, 2}), call("first", list{}), call("last", list{})), list{1, 2, nil, nil}},
		{"take", each(call("take", list{1, 2, 3}, 2), call("take", list{1}, 5), call("take", list{1}, 0), call("take", list{1}, -1), call("take", list{1, 2}, 1.9)), list{list{1, 2}, list{1}, list{}, list{}, list{1}}},
		{"reverse", each(call("reverse", list{1, 2}), call("reverse", list{})), list{list{2, 1}, list{}}},
		{"uniq keeps the first of equal ones", each(call("uniq", list{"a", "a", 1, 1.0, nil, nil}), call("uniq", list{1, 1.0, "1", true}), call("uniq", list{list{1}, list{1.0}, list{2}}), call("uniq", list{dict{"a": 1}, dict{"a": 1.0}}), call("uniq", list{})),
			list{list{"a", 1, nil}, list{1, "1", true}, list{list{1}, list{2}}, list{dict{"a": 1}}, list{}}},
		{"uniq of quantities", call("uniq", list{q("1Gi"), q("1024Mi"), q("1")}), list{quantity("1Gi"), quantity("1")}},
		{"concat", each(call("concat", list{1}, list{2}), call("concat", list{1}), call("concat", list{}, list{}), call("concat", list{1}, list{list{2}})), list{list{1, 2}, list{1}, list{}, list{1, list{2}}}},
		{"flatten", each(call("flatten", list{1, list{2, list{3, list{}}}}), call("flatten", list{dict{"a": list{1}}})), list{list{1, 2, 3}, list{dict{"a": list{1}}}}},
		{"len", each(call("len", list{1, nil}), call("len", list{}), call("len", dict{"a": 1})), list{2, 0, 1}},
		{"nils are left out", each(call("concat", nil, list{1}, nil), call("concat", nil, nil), call("flatten", list{1, list{nil, list{2}}})), list{list{1}, nil, list{1, 2}}},

		{"of the wrong kind", each(call("first", "ab"), call("last", dict{}), call("take", "ab", 1), call("reverse", "ab"), call("uniq", dict{}), call("concat", list{}, 1), call("flatten", 1), call("len", 5)),
			list{wrong("first", "a string"), wrong("last", "a map"), wrong("take", "a string"), wrong("reverse", "a string"), wrong("uniq", "a map"), wrong("concat", "an int"), wrong("flatten", "an int"), wrong("len", "an int")}},
		{"taking by a value that is not a number", each(call("take", list{1}, "1"), call("take", list{1}, 1e300)), list{wrong("take", "a string"), wrong("take", "a float")}},
		{"uniq of several kinds", call("uniq", list{q("1"), hour, at("2026-01-02T03:04:05Z"), 1}), list{quantity("1"), hour, at("2026-01-02T03:04:05Z")}},
	})
	part := call("take", list{1, 2, 3}, 2).value.(list)
	if cap(part) != 2 {
		t.Errorf("appending to what take gives would change the list: capacity %d, want 2", cap(part))
	}
}

func TestSort(t *testing.T) {
	order := value.Error(`the order of "sort" must be "asc" or "desc"`)
	check(t, []test{
		{"sort", each(call("sort", list{3, 1, 2}), call("sort", list{3, 1, 2}, "desc"), call("sort", list{3, 1, 2}, "asc"), call("sort", list{"b", "B", "a"}), call("sort", list{0.5, 0, -1.5}), call("sort", list{})),
			list{list{1, 2, 3}, list{3, 2, 1}, list{1, 2, 3}, list{"B", "a", "b"}, list{-1.5, 0, 0.5}, list{}}},
		{"units", each(call("sort", list{q("1Gi"), q("1Mi"), "512Mi"}), call("sort", list{2 * hour, "90m"})), list{list{quantity("1Mi"), "512Mi", quantity("1Gi")}, list{"90m", 2 * hour}}},
		{"equal ones keep their order", each(call("sort", list{1.0, 1, 0}), call("sort", list{0, 1.0, 1}, "desc")), list{list{0, 1.0, 1}, list{1.0, 1, 0}}},
		{"nils sort first", each(call("sort", list{2, nil, 1}), call("sort", list{2, nil, 1}, "desc"), call("sort", list{nil, nil})), list{list{nil, 1, 2}, list{2, 1, nil}, list{nil, nil}}},
		{"sorting different kinds", call("sort", list{"Pod", 1}), value.Error("cannot compare int with string")},
		{"an order that is none", each(call("sort", list{1}, "up"), call("sort", list{1}, 1), call("sort", list{1}, list{"asc"})), list{order, order, order}},
		{"a value that is not a list", call("sort", "ab"), wrong("sort", "a string")},
	})
	list, keys := list{"a", "b", "c"}, list{int64(2), nil, int64(1)}
	got, err := meter().Sorted("sortBy", list, keys, "asc")
	if err != nil || written(got) != `("b", "c", "a")` || written(list) != `("a", "b", "c")` {
		t.Errorf("sorted by other keys: %v, %v", got, err)
	}
	if _, err := meter().Sorted("sortBy", list, keys, nil); err != value.Error(`the order of "sortBy" must be "asc" or "desc"`) {
		t.Errorf("sorted in no order: %v", err)
	}
}

func TestMaps(t *testing.T) {
	pairs := value.Error(`"fromPairs" needs a list of lists of a key and a value`)
	labels := dict{"tier": "front", "app": "web", "app.kubernetes.io/name": "web"}
	check(t, []test{
		{"maps come in the order of their keys", each(call("keys", labels), call("values", dict{"b": 2, "a": 1}), call("toPairs", dict{"b": 2, "a": 1}), call("keys", dict{})), list{list{"app", "app.kubernetes.io/name", "tier"}, list{1, 2}, list{list{"a", 1}, list{"b", 2}}, list{}}},
		{"fromPairs", each(call("fromPairs", list{list{"k", 1}}), call("fromPairs", list{}), call("fromPairs", list{list{"k", 1}, list{"k", nil}})), list{dict{"k": 1}, dict{}, dict{"k": nil}}},
		{"values that are not pairs", each(call("fromPairs", list{1}), call("fromPairs", list{list{"k"}}), call("fromPairs", list{list{"k", 1, 2}}), call("fromPairs", list{nil})), list{pairs, pairs, pairs, pairs}},
		{"keys that are none", each(call("fromPairs", list{list{3, 2}}), call("fromPairs", list{list{nil, 2}})), list{value.Error("a key must be a string, not an int"), value.Error("a key must be a string, not nil")}},
		{"of the wrong kind", each(call("keys", list{}), call("values", "a"), call("toPairs", 1), call("fromPairs", dict{})), list{wrong("keys", "a list"), wrong("values", "a string"), wrong("toPairs", "an int"), wrong("fromPairs", "a map")}},
	})
}

// A function of nil is nil, but for those that take nil.
func TestFunctionsOfNil(t *testing.T) {
	takesNil := map[string]any{
		"hasPrefix": false, "hasSuffix": false, "type": "nil",
		"concat": nil, "min": nil, "max": nil, "mean": nil, "median": nil,
	}
	for name, f := range value.Functions {
		if f.Min < 1 || f.Max < f.Min {
			t.Errorf("%s takes %d to %d arguments", name, f.Min, f.Max)
		}
		for n := f.Min; n <= min(f.Max, 4); n++ {
			args := make(list, n)
			want := takesNil[name]
			if got := call(name, args...).value; got != want {
				t.Errorf("%s of %d nils gives %v, want %v", name, n, got, want)
			}
			if _, takes := takesNil[name]; takes {
				continue
			}
			for i := range args { // one nil is enough, and nothing looks at the others
				for j := range args {
					args[j] = struct{}{}
				}
				args[i] = nil
				if got := call(name, args...).value; got != nil {
					t.Errorf("%s of a nil among %d gives %v, want nil", name, n, got)
				}
			}
		}
	}
	if got := call("replace", "a", nil, "b").value; got != nil {
		t.Errorf("replacing nil gives %v, want nil", got)
	}
}
