package expr

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/object"
)

// foundOf is for caches that have decoded everything.
func foundOf(trees []any) Found { return Found{len(trees), slices.Values(trees)} }

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
	return &Env{Object: now, Old: old, Event: "updated", Now: testTime, Cache: cache(func(source, index, value string) Found {
		switch {
		case value == "nothing":
			return foundOf([]any{})
		case source == "nodes":
			return foundOf([]any{tree(t, `{"metadata":{"name":"n1","labels":{"zone":"north"}}}`)})
		}
		return foundOf([]any{now, old})
	})}
}

type cache func(source, index, value string) Found

func (c cache) ByIndex(index, value string) Found { return c("", index, value) }

func (c cache) Lookup(source, index, value string) Found { return c(source, index, value) }

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
	{"absent: what get finds in nil", `get(nil, "x")`, nil},
	{"absent: a slice", `object.spec.volumes[1:2]`, nil},
	{"absent: a method", `time(object.a).Hour()`, nil},
	{"nil == nil", `object.a == nil and object.a == object.b`, true},
	{"nil == something", `object.a == "x" or object.a == 0 or object.a == false`, false},
	{"nil != something", `object.a != "x"`, true},
	{"nil is false in logic", `[object.a and true, object.a or true, object.a || object.b, true && object.a]`, list{false, true, false, false}},
	{"nil as a condition", `[object.a ? 1 : 2, if object.a {1} else {2}]`, list{int64(2), int64(2)}},
	{"string operators with nil", `[nil contains "x", "x" startsWith object.a, object.a endsWith nil, object.a matches "^$", "x" matches object.a]`, list{false, false, false, false, false}},
	{"negated string operators with nil", `[object.a not contains "x", object.a not matches "x", object.a not in ["x"]]`, list{true, true, true}},
	{"coalescing", `object.a.b ?? object.spec.no ?? "default"`, "default"},
	{"optional chaining changes nothing", `object?.a?.b ?? object?.status?.phase`, "Failed"},
	{"predicates of nil", `[any(nil, true), all(nil, true), none(nil, #), one(nil, #), count(nil, #), filter(nil, #), map(nil, #), find(nil, #), sum(nil), reduce(nil, #acc), sortBy(nil, #), groupBy(nil, #), findIndex(nil, #)]`,
		list{false, nil, true, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}},
	{"predicates that give nil", `[any([1], nil), all([{}], .b), none([nil], .x), count([1, nil], nil), filter([{a: true}, {}, nil], .a)]`, list{false, false, true, int64(0), list{dict{"a": true}}}},
	{"sum leaves nils out", `sum([1, nil, 2])`, int64(3)},

	{"integers stay integers", `object.spec.replicas + 1`, int64(4)},
	{"integers are exact", `[object.metadata.generation == 9007199254740993, object.metadata.generation == 9007199254740992, object.metadata.generation > 9007199254740992]`, list{true, false, true}},
	{"a comparison may be chained", `1 < object.spec.replicas <= 3`, true},

	{"matches", `object.spec.containers | filter(.image matches "^x:[0-9]+$") | map(.name)`, list{"a", "c"}},
	{"matches a pattern from the object", `"Failed" matches object.status.phase`, true},

	{"predicates", `[any(object.status.containerStatuses, .restartCount > 5), all([1, 2], # > 0), none([1], # > 1), one([1, 2], # > 1), count([1, 2, 3], # > 1), count([true, false, nil])]`,
		list{true, true, true, true, int64(2), int64(1)}},
	{"find", `[find([1, 2, 3], # > 1), findLast([1, 2, 3], # < 3), findIndex([1, 2, 3], # > 1), findLastIndex([1, 2], # > 5), find([1], false)]`,
		list{int64(2), int64(2), int64(1), nil, nil}},
	{"nested predicates see their own element", `filter(object.spec.containers, let name = .name; any(object.spec.containers, .name > name and .image == "x:1")) | map(.name)`, list{"a", "b"}},
	{"#index", `map(["a", "b"], string(#index) + #)`, list{"0a", "1b"}},
	{"reduce", `[reduce([1, 2, 3], #acc + #), reduce([1, 2], #acc + # * 10, 5), reduce([], #acc), reduce(["a", "b"], #acc + string(#index), "")]`,
		list{int64(6), int64(35), nil, "01"}},
	{"sum", `[sum([1, 2]), sum([]), sum([1, 2], # * 2), sum([0.5, 1]), sum(1..100)]`, list{int64(3), int64(0), int64(6), 1.5, int64(5050)}},
	{"groupBy", `map(groupBy(object.spec.containers, .image)["x:1"], .name)`, list{"a", "c"}},
	{"groupBy renders its keys and leaves nils out", `groupBy([{k: 1}, {k: true}, {}], .k)`, dict{"1": list{dict{"k": int64(1)}}, "true": list{dict{"k": true}}}},
	{"sortBy", `[map(sortBy([{k: 2}, {k: 1}, {}], .k), .k), sortBy(["b", "a"], #, "desc")]`, list{list{nil, int64(1), int64(2)}, list{"b", "a"}}},

	{"quantities of absent fields", `sum(object.spec.containers, quantity(.resources.requests.cpu))`, "1250m"},
	{"a quantity of an absent field", `quantity(object.spec.no) > "1Gi"`, false},
	{"age", `[now() - time(object.metadata.creationTimestamp) > duration("1h"), now() - time(object.metadata.creationTimestamp) > "2h", now() - time(object.metadata.deletionTimestamp) > "1h"]`, list{true, false, false}},

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

// A long list of strings is a set. It has the same elements as the same list that is not constant,
// which is searched from its beginning.
func TestInManyStrings(t *testing.T) {
	const list = `["a", "b", "c", "d", "e", "500m", "2026-01-02T03:04:05Z", "web-0", "a"]`
	for _, needle := range []string{
		`object.metadata.name`, `object.metadata.namespace`, `object.no.field`, `nil`, `"a"`, `object.spec.replicas`, `object.status.ready`,
		`quantity(object.spec.containers[0].resources.requests.cpu) + quantity("250m")`, `quantity(object.spec.replicas)`, `object.metadata`, `object.spec.containers`,
		`time(object.metadata.creationTimestamp)`, `object.metadata.name.x`,
	} {
		env := testEnv(t)
		got, err := mustCompile(t, "object.kind == nil or "+needle+" in "+list, Options{Scope: Payload}).Value(env)
		want, wantErr := mustCompile(t, needle+" in concat([object.kind][1:], "+list+")", Options{Scope: Payload}).Value(env)
		if got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %v, %v, want %v, %v", needle, got, err, want, wantErr)
		}
	}
}
