package expr

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/object"
)

// pod is the object that most tests evaluate.
const pod = `{
	"apiVersion": "v1", "kind": "Pod",
	"metadata": {
		"name": "web-0", "namespace": "shop", "creationTimestamp": "2026-01-02T03:04:05Z", "generation": 9007199254740993,
		"labels": {"app.kubernetes.io/name": "web", "tier": "front", "app": "web"},
		"annotations": {"example.com/config": "{\"replicas\":9007199254740993,\"on\":true}"}
	},
	"spec": {
		"nodeName": "n1", "replicas": 3, "ratio": 0.5, "priority": null,
		"containers": [
			{"name": "a", "image": "x:1", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}},
			{"name": "b", "image": "y:2", "resources": {"requests": {"cpu": "1", "memory": "512Mi"}}},
			{"name": "c", "image": "x:1"}
		]
	},
	"status": {"phase": "Failed", "ready": false, "containerStatuses": [{"restartCount": 2}, {"restartCount": 7}]}
}`

var testTime = time.Date(2026, 1, 2, 5, 0, 0, 0, time.UTC)

func tree(t testing.TB, text string) any {
	t.Helper()
	o, err := object.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var everything object.Paths
	everything.Add()
	return o.Decode(&everything)
}

// testEnv holds a change of pod. The indexes of nodes find one node, all others both states of pod,
// under every value but "nothing".
func testEnv(t testing.TB) *Env {
	now := tree(t, pod)
	old := tree(t, `{"metadata":{"name":"web-0"},"status":{"phase":"Running"}}`)
	return &Env{Object: now, Old: old, Event: "updated", Now: testTime, Cache: cache(func(source, index, value string) iter.Seq[any] {
		switch {
		case value == "nothing":
			return slices.Values([]any{})
		case source == "nodes":
			return slices.Values([]any{tree(t, `{"metadata":{"name":"n1","labels":{"zone":"north"}}}`)})
		}
		return slices.Values([]any{now, old})
	})}
}

type cache func(source, index, value string) iter.Seq[any]

func (c cache) ByIndex(index, value string) iter.Seq[any] { return c("", index, value) }

func (c cache) Lookup(source, index, value string) iter.Seq[any] { return c(source, index, value) }

var payload = Options{Scope: Payload, Indexes: []string{"byNode", "byImage"}, Sources: map[string][]string{
	"nodes": {"byName", "byZone"}, "pods": {"byNode"}, "bare": nil,
}}

func mustCompile(t testing.TB, text string, o Options) *Program {
	t.Helper()
	p, err := Compile(text, o)
	if err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	return p
}

type list = []any
type dict = map[string]any

var valueTests = []struct {
	why, text string
	want      any
}{
	{"a field", `object.status.phase`, "Failed"},
	{"a field in brackets", `object["status"]["phase"]`, "Failed"},
	{"keys with dots and slashes", `object.metadata.labels["app.kubernetes.io/name"]`, "web"},
	{"a key that is computed", `object.metadata.labels["app.kubernetes.io" + "/name"]`, "web"},
	{"a key that is not constant", `object.metadata.labels[object.kind == "Pod" ? "tier" : "app"]`, "front"},
	{"the previous state", `old.status.phase + "→" + object.status.phase`, "Running→Failed"},
	{"the event", `event`, "updated"},
	{"the time is given", `now()`, "2026-01-02T05:00:00Z"},
	{"an index", `map(byIndex("byNode", object.spec.nodeName), .status.phase)`, list{"Failed", "Running"}},
	{"an index that finds nothing", `byIndex("byNode", "nothing") | len()`, int64(0)},
	{"another source's index", `map(lookup("nodes.byName", object.spec.nodeName), .metadata.labels.zone)`, list{"north"}},
	{"another source's index that finds nothing", `lookup("nodes.byName", "nothing")`, list{}},
	{"another source's index of nil", `lookup("nodes.byName", object.spec.no)`, nil},
	{"one that is found", `first(lookup("nodes.byName", object.spec.nodeName)).metadata.labels.zone ?? "unknown"`, "north"},
	{"one that is not", `first(lookup("nodes.byName", "nothing")).metadata.labels.zone ?? "unknown"`, "unknown"},
	{"an index of nil", `byIndex("byNode", object.spec.no)`, nil},
	{"a map", `{pod: object.metadata.name, "a b": [1, 2.5, true, nil]}`, dict{"pod": "web-0", "a b": list{int64(1), 2.5, true, nil}}},

	{"absent: a field at any depth", `object.a.b.c.d`, nil},
	{"absent: a field of null", `object.spec.priority.value`, nil},
	{"absent: a key", `object["x"]["y"]`, nil},
	{"absent: an element", `object.spec.containers[5].image`, nil},
	{"absent: an element of nothing", `object.spec.volumes[0].name`, nil},
	{"absent: from the end", `object.spec.containers[-4]`, nil},
	{"absent: a slice", `object.spec.volumes[1:2]`, nil},
	{"absent: a method", `time(object.a).Hour()`, nil},
	{"nil == nil", `object.a == nil and object.a == object.b`, true},
	{"nil == something", `object.a == "x" or object.a == 0 or object.a == false`, false},
	{"nil != something", `object.a != "x"`, true},
	{"orderings with nil are false", `[nil > 5, nil < 5, nil >= nil, 5 <= object.a, object.a > "x", now() > nil]`, list{false, false, false, false, false, false}},
	{"not nil", `[!object.a, not object.a]`, list{true, true}},
	{"nil is false in logic", `[object.a and true, object.a or true, object.a || object.b, true && object.a]`, list{false, true, false, false}},
	{"nil as a condition", `[object.a ? 1 : 2, if object.a {1} else {2}]`, list{int64(2), int64(2)}},
	{"nil and in", `[nil in [1, nil], 1 in object.a, nil in object.metadata.labels, object.a in ["x"]]`, list{false, false, false, false}},
	{"string operators with nil", `[nil contains "x", "x" startsWith object.a, object.a endsWith nil, object.a matches "^$", "x" matches object.a]`, list{false, false, false, false, false}},
	{"negated string operators with nil", `[object.a not contains "x", object.a not matches "x", object.a not in ["x"]]`, list{true, true, true}},
	{"arithmetic with nil", `[nil + 1, 1 - nil, nil * nil, 1 / nil, nil % 2, nil ** 2, -object.a, +object.a, "x" + nil, 1..nil]`, list{nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}},
	{"coalescing", `object.a.b ?? object.spec.no ?? "default"`, "default"},
	{"optional chaining changes nothing", `object?.a?.b ?? object?.status?.phase`, "Failed"},
	{"predicates of nil", `[any(nil, true), all(nil, true), none(nil, #), one(nil, #), count(nil, #), filter(nil, #), map(nil, #), find(nil, #), sum(nil), reduce(nil, #acc), sortBy(nil, #), groupBy(nil, #), findIndex(nil, #)]`,
		list{false, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}},
	{"predicates that give nil", `[any([1], nil), all([{}], .b), none([nil], .x), count([1, nil], nil), filter([{a: true}, {}, nil], .a)]`, list{false, false, true, int64(0), list{dict{"a": true}}}},
	{"functions of nil", `[len(nil), keys(nil), values(nil), upper(nil), split(nil, ","), join(nil), first(nil), sort(nil), toJSON(nil), fromJSON(nil), int(nil), string(nil), quantity(nil), time(nil), duration(nil), abs(nil), get(nil, "x"), replace("a", nil, "b")]`,
		list{nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}},
	{"hasPrefix of nil is as startsWith", `[hasPrefix(nil, "a"), hasSuffix("a", nil)]`, list{false, false}},
	{"aggregates leave nils out", `[sum([1, nil, 2]), max(1, nil, [nil, 5]), min([nil]), mean([nil]), concat(nil, [1], nil), join(["a", nil, "b"], "-"), flatten([1, [nil, [2]]])]`,
		list{int64(3), int64(5), nil, nil, list{int64(1)}, "a-b", list{int64(1), int64(2)}}},
	{"nils sort first", `[sort([2, nil, 1]), sort([2, nil, 1], "desc")]`, list{list{nil, int64(1), int64(2)}, list{int64(2), int64(1), nil}}},
	{"type of nil", `type(object.a)`, "nil"},

	{"integers stay integers", `object.spec.replicas + 1`, int64(4)},
	{"integers are exact", `[object.metadata.generation == 9007199254740993, object.metadata.generation == 9007199254740992, object.metadata.generation > 9007199254740992]`, list{true, false, true}},
	{"an int and a float compare exactly", `[object.metadata.generation == 9007199254740992.0, object.metadata.generation > 9007199254740992.0, 3 == 3.0, 2.5 < 3, 3 < 2.5, 9223372036854775807 < 9223372036854775808.0]`, list{false, true, true, true, false, true}},
	{"division gives a float", `[7 / 2, 6 / 2, 7 % 2, 2 ** 3]`, list{3.5, 3.0, int64(1), 8.0}},
	{"int cuts off", `[int(3.7), int(-3.7), int("12"), float("1.5"), float(2), round(2.5), ceil(2), abs(-3)]`, list{int64(3), int64(-3), int64(12), 1.5, 2.0, 3.0, 2.0, int64(3)}},
	{"a comparison may be chained", `1 < object.spec.replicas <= 3`, true},
	{"different kinds are not equal", `["1" == 1, true == 1, [1] == {a: 1}, [1, "a"] == [1.0, "a"], {a: nil} == {b: nil}]`, list{false, false, false, true, false}},

	{"strings", `[upper("aé"), lower("AÉ"), trim("  x "), trim("xxaxx", "x"), trimPrefix("v1", "v"), trimSuffix("a.yaml", ".yaml"), repeat("ab", 3), replace("a-b-c", "-", "+", 1), "a" + "b"]`,
		list{"AÉ", "aé", "x", "a", "1", "a", "ababab", "a+b-c", "ab"}},
	{"strings count characters", `[len("aéß"), indexOf("aéß", "ß"), "aéßx"[1:3], "aéß"[-1:], "ab"[5:], lastIndexOf("abab", "ab"), indexOf("a", "b")]`,
		list{int64(3), int64(2), "éß", "ß", "", int64(2), int64(-1)}},
	{"split and join", `[split("a,b,c", ","), split("a,b,c", ",", 2), splitAfter("a,b", ","), join(["a", "b"]), split("", ",")]`,
		list{list{"a", "b", "c"}, list{"a", "b,c"}, list{"a,", "b"}, "ab", list{""}}},
	{"matches", `object.spec.containers | filter(.image matches "^x:[0-9]+$") | map(.name)`, list{"a", "c"}},
	{"matches a pattern from the object", `"Failed" matches object.status.phase`, true},
	{"base64", `[toBase64("hi"), fromBase64("aGk=")]`, list{"aGk=", "hi"}},
	{"JSON", `[toJSON({b: [1, "<"], a: now()}), fromJSON(object.metadata.annotations["example.com/config"]).replicas]`,
		list{`{"a":"2026-01-02T05:00:00Z","b":[1,"<"]}`, int64(9007199254740993)}},
	{"string renders scalars", `[string(1), string(1.5), string(true), string(now()), string(duration("90m")), string(quantity("1024Mi"))]`,
		list{"1", "1.5", "true", "2026-01-02T05:00:00Z", "1h30m0s", "1Gi"}},
	{"type", `map([nil, true, 1, 1.5, "", [], {}, now(), duration("1s"), quantity("1")], type(#))`,
		list{"nil", "bool", "int", "float", "string", "array", "map", "time", "duration", "quantity"}},

	{"predicates", `[any(object.status.containerStatuses, .restartCount > 5), all([1, 2], # > 0), none([1], # > 1), one([1, 2], # > 1), count([1, 2, 3], # > 1), count([true, false, nil])]`,
		list{true, true, true, true, int64(2), int64(1)}},
	{"find", `[find([1, 2, 3], # > 1), findLast([1, 2, 3], # < 3), findIndex([1, 2, 3], # > 1), findLastIndex([1, 2], # > 5), find([1], false)]`,
		list{int64(2), int64(2), int64(1), nil, nil}},
	{"nested predicates see their own element", `filter(object.spec.containers, let name = .name; any(object.spec.containers, .name > name and .image == "x:1")) | map(.name)`, list{"a", "b"}},
	{"#index", `map(["a", "b"], string(#index) + #)`, list{"0a", "1b"}},
	{"reduce", `[reduce([1, 2, 3], #acc + #), reduce([1, 2], #acc + # * 10, 5), reduce([], #acc), reduce(["a", "b"], #acc + string(#index), "")]`,
		list{int64(6), int64(35), nil, "01"}},
	{"sum", `[sum([1, 2]), sum([]), sum([1, 2], # * 2), sum([0.5, 1])]`, list{int64(3), int64(0), int64(6), 1.5}},
	{"groupBy", `map(groupBy(object.spec.containers, .image)["x:1"], .name)`, list{"a", "c"}},
	{"groupBy renders its keys and leaves nils out", `groupBy([{k: 1}, {k: true}, {}], .k)`, dict{"1": list{dict{"k": int64(1)}}, "true": list{dict{"k": true}}}},
	{"sortBy", `[map(sortBy([{k: 2}, {k: 1}, {}], .k), .k), sortBy(["b", "a"], #, "desc")]`, list{list{nil, int64(1), int64(2)}, list{"b", "a"}}},
	{"lists", `[first([1, 2]), last([1, 2]), take([1, 2, 3], 2), reverse([1, 2]), uniq(["a", "a", 1, 1.0, nil, nil]), concat([1], [2]), [1, 2, 3][1:], [1, 2, 3][:-1], [1, 2][-1]]`,
		list{int64(1), int64(2), list{int64(1), int64(2)}, list{int64(2), int64(1)}, list{"a", int64(1), nil}, list{int64(1), int64(2)}, list{int64(2), int64(3)}, list{int64(1), int64(2)}, int64(2)}},
	{"maps come in the order of their keys", `[keys(object.metadata.labels), values({b: 2, a: 1}), toPairs({b: 2, a: 1}), fromPairs([["k", 1]]), get({a: 1}, "a"), len({a: 1}), "tier" in object.metadata.labels]`,
		list{list{"app", "app.kubernetes.io/name", "tier"}, list{int64(1), int64(2)}, list{list{"a", int64(1)}, list{"b", int64(2)}}, dict{"k": int64(1)}, int64(1), int64(1), true}},
	{"ranges", `[1..3, 3..1, sum(1..100)]`, list{list{int64(1), int64(2), int64(3)}, list{}, int64(5050)}},
	{"numbers", `[min(3, 1, 2), max([1, 2.5]), mean([1, 2]), median([3, 1, 2]), min("b", "a")]`, list{int64(1), 2.5, 1.5, 2.0, "a"}},

	{"quantities compare", `[quantity("250m") < quantity("1"), quantity("1Gi") == quantity("1024Mi"), quantity("1") > "999m", "1Gi" == quantity("1024Mi"), quantity("2") > 1, quantity(2) >= 2, quantity("500m") == 0.5]`,
		list{true, true, true, true, true, true, true}},
	{"quantities add", `[quantity("250m") + quantity("750m"), quantity("1Gi") - quantity("512Mi")]`, list{"1", "512Mi"}},
	{"quantities of absent fields", `sum(object.spec.containers, quantity(.resources.requests.cpu))`, "1250m"},
	{"a quantity of an absent field", `quantity(object.spec.no) > "1Gi"`, false},
	{"age", `[now() - time(object.metadata.creationTimestamp) > duration("1h"), now() - time(object.metadata.creationTimestamp) > "2h", now() - time(object.metadata.deletionTimestamp) > "1h"]`, list{true, false, false}},
	{"times", `[time("2026-01-02T03:04:05.5+01:00"), time("2026-01-01T00:00:00Z") + duration("36h"), now() > "2026-01-01T00:00:00Z", now().Hour(), now().Weekday(), duration("90m").Hours(), duration("1m") * 3, -duration("1m")]`,
		list{"2026-01-02T02:04:05.5Z", "2026-01-02T12:00:00Z", true, int64(5), "Friday", 1.5, "3m0s", "-1m0s"}},

	{"variables", `let n = object.spec.nodeName; let all = [n, n]; join(all, "/")`, "n1/n1"},
	{"a sequence gives its last", `1; 2`, int64(2)},
	{"conditions", `if object.spec.replicas > 5 {"many"} else if object.spec.replicas > 1 {"some"} else {"one"}`, "some"},
	{"pipes", `object.spec.containers | map(.image) | uniq() | sort() | join(",")`, "x:1,y:2"},
	{"comments", "1 + /* one */ 1 // two", int64(2)},
	{"a raw string", "`a\\b`", `a\b`},
}

func TestValue(t *testing.T) {
	for _, test := range valueTests {
		t.Run(test.why, func(t *testing.T) {
			got, err := mustCompile(t, test.text, payload).Value(testEnv(t))
			if err != nil {
				t.Fatalf("%s: %v", test.text, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", test.text, diff)
			}
		})
	}
}
