package expr

import (
	"math"

	"github.com/informd/informd/engine/expr/value"
)

// likeExamples give the same result here and in expr-lang. Most come from expr-lang's own
// description of the language, in its order.
const likeExamples = `
	// literals
	[true, false, 42, 0x2A, 0o52, 0b101010, 1_000, 0.5, .5, 1e3, 2.5e-3]
	["foo", 'bar', "Hello\nWorld", '\'\t\\', "\u00e9\x41", ""]
	[[1, 2, 3], [], {a: 1, "b c": 2, 3: 4, ("d" + "e"): 5}, {}, [1, 2,], {a: 1,}]
	1 /* one */ + 2 // two

	// arithmetic
	[1 + 2, 1 - 2, 2 * 3, 7 / 2, 6 / 2, 7 % 3, -7 % 3, 2 ^ 3, 2 ** 3, 2 ** -1, 2 ** 3 ** 2, -2 ** 2, -object.n, +object.n, 1.5 + 1, 2 * 0.5, 1 - 0.5]
	[1 + 2 * 3, (1 + 2) * 3, 10 - 3 - 2, 100 / 10 / 2, 7 / 2 * 2, 0.1 + 0.2]
	object.n + object.m * object.f - object.ints[0]

	// comparison
	[1 == 1, 1 != 1, 1 < 2, 1 > 2, 1 <= 1, 1 >= 2, 1 == 1.0, 1.5 > 1, 2 <= 2.0, "a" < "b", "a" >= "b", "B" < "a", true == true, true != false]
	[1 < 2 < 3, 1 < 3 <= 2, 1 < object.n <= 3, 3 > 2 > 1]
	[[1, 2] == [1, 2], [1] == [1.0], [1, 2] != [2, 1], {a: 1} == {a: 1}, {a: object.n} == {a: 3}, [] == [], object.items[0] == object.items[2]]
	[object.n == object.s, object.s == object.yes, object.ints == object.labels]

	// logic
	[true and false, true && true, true or false, false || false, not true, !false, not not true, true or true and false, not true or true]
	[false and object.n / 0 > 1, true or object.ints[99] > 1]

	// conditions
	object.yes ? 1 : 2
	object.no ? 1 : object.yes ? 2 : 3
	object.yes ?: 2
	if object.n > 5 { "many" } else if object.n > 2 { "some" } else { "few" }
	if object.no { 1 } else { let x = 2; x + 1 }
	object.s ?? "default"
	object.missing ?? "default"
	object?.missing?.field ?? object.s

	// members, slices
	[object.n, object["n"], object?.n, object?.["n"], object.items[0].name, object.items[-1]["name"], object.labels["app.kubernetes.io/name"]]
	[object.ints[0], object.ints[-1], object.ints[6 / 3], object.ints[object.f], [1, 2, 3][1], {a: {b: 1}}.a.b, ["a", "b"][object.n % 2]]
	[object.ints[1:4], object.ints[1:-1], object.ints[:3], object.ints[3:], object.ints[:], object.ints[-2:], object.ints[2:1], object.ints[9:], object.ints[-9:9]]
	[object.s[1:3], object.s[:-1], object.s[-2:], object.s[9:], "hello"[1:][:2], object.ints[object.f:object.floats[1]]]
	["John" in ["John", "Jane"], "name" in {"name": "John", "age": 30}, "x" in object.labels, 1 in object.ints, 1.0 in object.ints, "1" in object.ints, "1" not in object.ints, not (1 in [2])]
	[2 in 1..3, object.f in 1..3, object.s in ["a", "web-0"], [1] in [[1], [2]], object.n in [1, 2, 3]]

	// strings
	["a" + "b", "abc" contains "b", "abc" startsWith "a", "abc" endsWith "b", "abc" not contains "b", "abc" not startsWith "b", not ("abc" endsWith "b")]
	["abc" matches "^a.c$", object.s matches "[0-9]", object.s not matches "^web", "a+b" matches "a\\+b", "b" matches "[" + "a-c" + "]", "x\ny" matches "(?s)x.y"]

	// ranges and pipes
	[1..3, 3..1, 0..0, -1..1, 1..object.floats[1], 1..2 + 1]
	object.t | trim() | upper() | split(",")
	[3, 1, 2] | sort() | map(# * 2) | filter(# > 2) | len()
	object.items | filter(.on) | map(.name) | uniq() | join("+")

	// variables
	let x = 42; x * 2
	let x = 42; let y = 2; x * y
	let name = object.s | lower() | split("-"); "Hello, " + name[0] + "!"
	let l = object.items; any(l, {let n = .name; count(l, .name == n) > 1})
	(let x = 1; x) + (let x = 2; x)
	1; "a"; object.n

	// predicates
	filter(0..9, {# % 2 == 0})
	filter(object.items, {len(.name) > 0 and .on})
	filter(object.items, {let item = #; any(object.items, .n > item.n)})
	map(object.items, {.n * 2})
	map(object.items, ({name: .name, place: #index}))
	map([[1, 2], [3]], map(#, # * 10))

	// functions of strings
	[trim("  Hello  "), trim("__Hello__", "_"), trim("abcba", "ab"), trim(" a ", "")]
	[trimPrefix("HelloWorld", "Hello"), trimSuffix("HelloWorld", "World"), trimPrefix("HelloWorld", "World"), trimPrefix("  a"), trimSuffix("a  ")]
	[upper("hello"), lower("HELLO"), upper("äß"), lower("ÄÖ")]
	[split("apple,orange,grape", ","), split("apple,orange,grape", ",", 2), split("a,b", ",", 0), split("a,b", ",", -1), split("", ","), split("äb", ""), split("a b", ""), split("a,b,c", ",", object.floats[1])]
	[splitAfter("apple,orange,grape", ","), splitAfter("apple,orange,grape", ",", 2)]
	[replace("Hello World", "World", "Universe"), replace("aaa", "a", "b", 2), replace("abc", "", "-"), replace("aaa", "a", "b", -1)]
	[repeat("Hi", 3), repeat("Hi", 0), repeat("a", object.floats[1])]
	[indexOf("apple pie", "pie"), indexOf("a", "b"), indexOf("a", ""), lastIndexOf("apple pie apple", "apple"), lastIndexOf("a", ""), lastIndexOf("a", "b")]
	[hasPrefix("HelloWorld", "Hello"), hasSuffix("HelloWorld", "World"), hasPrefix("a", "ab"), hasSuffix("a", "")]

	// times
	now().Year() == 2026
	duration("1h").Seconds() == 3600
	[now() - duration("1h"), duration("1h") + now(), now() + duration("90s")]
	[now() - (now() - duration("1h")), duration("1h") + duration("1m"), duration("1h") - duration("1m"), duration("1h") * 2, 2 * duration("1h")]
	[now() > now() - duration("1h"), now() == now(), duration("1h") == duration("60m"), duration("1h") < duration("2h")]
	[now().Year(), now().Month(), now().Day(), now().Hour(), now().Minute(), now().Second(), now().Unix()]
	[duration("90m").Hours(), duration("90m").Minutes(), duration("1.5s").Seconds(), duration("1.5s").Milliseconds(), string(duration("90m"))]

	// functions of numbers
	[max(5, 7), max(5, 7.5, 6), max([1, 3, 2]), max(1, [5, 3]), max([1, [9, [4]]]), max(object.ints, object.n)]
	[min(5, 7), min(5, 7.5, 4.5), min([1, 3, 2]), min(1, [5, 3]), min([[1], [], 3]), min(object.ints)]
	[max(1, 1.0), max(1.0, 1), min(1, 1.0), min(1.0, 1)]
	[abs(-5), abs(5), abs(-0.5)]
	[ceil(1.5), ceil(-1.5), ceil(2), floor(1.5), floor(-1.5), floor(2), round(1.5), round(2.5), round(-1.5), round(2)]

	// functions of lists
	[all(object.items, {.n < 280}), all([], false), all([1, 2], # > 1)]
	[any(object.items, {.n > 280}), any([], true), any([1, 2], # > 1)]
	[one(object.items, {.name == "b"}), one([], true), one([1, 2], true)]
	[none(object.items, {.n > 280}), none([], true), none([1, 2], # > 1)]
	[map(object.items, {.n}), map([], #), map(1..3, # / 2), map(["a"], #index)]
	[filter(object.items, .name startsWith "a"), filter([1, 2, 3], # > 1)]
	[find([1, 2, 3, 4], # > 2), findIndex([1, 2, 3, 4], # > 2), find(object.items, .on).name]
	findLast([1, 2, 3, 4], # > 2)
	findLastIndex([1, 2, 3, 4], # > 2)
	findLast(object.items, .on).n
	groupBy(object.items, .name)
	groupBy(object.ints, # % 2)
	groupBy(object.items, .on)
	[count(object.items, .n > 1), count([true, false, true]), count([], true)]
	[concat([1, 2], [3, 4]), concat([1]), concat([], []), concat([1], [[2]], ["a"])]
	[flatten([1, 2, [3, 4]]), flatten([1, [2, [3, []]]]), flatten([[{a: [1]}]])]
	[uniq([1, 2, 3, 2, 1]), uniq(["a", "b", "a"]), uniq([1, 1.0, "1", true]), uniq([[1], [1], [2]]), uniq(object.items | map(.name))]
	[join(["apple", "orange", "grape"], ","), join(["apple", "orange", "grape"]), join([], ","), join(split("a-b", "-"), "+")]
	[reduce(1..9, #acc + #), reduce(1..9, #acc + #, 0), reduce([1, 2], #acc + #index), reduce([1, 2], #acc + #index, 0), reduce([], #acc, "none"), reduce(["a", "b"], # + #acc, "")]
	[sum([1, 2, 3]), sum([]), sum([0.5, 1]), sum(object.items, .n), sum(1..3, # * 2), sum(map(object.items, .n))]
	[mean([1, 2, 3]), mean(1, 2), mean([1, [2, 6]]), mean(object.floats), median([1, 2, 3]), median([4, 1, 3, 2]), median(1, [5, [9]])]
	[first([1, 2, 3]), last([1, 2, 3]), first(object.items).name, last([[1], [2]])]
	[take([1, 2, 3, 4], 2), take([1], 5), take([1], 0)]
	[reverse([3, 1, 4]), reverse(reverse([3, 1, 4])), reverse([])]
	[sort([3, 1, 4]), sort([3, 1, 4], "desc"), sort([3, 1, 4], "asc"), sort(["b", "a"]), sort([0.5, 0, 1.5]), sort([])]
	[sortBy(object.items, .n), sortBy(object.items, .n, "desc"), sortBy(object.items, .name), sortBy(["ccc", "a", "bb"], len(#))]

	// functions of maps
	[sort(keys({"name": "John", "age": 30})), keys({}), sort(values({"a": "x", "b": "y"})), values({a: [1]})]
	[toPairs({"name": "John"}), fromPairs([["name", "John"], ["age", 30]]), fromPairs(toPairs(object.labels)), fromPairs([])]

	// conversions
	[type(42), type("hello"), type(nil), type(true), type(0.5), type([]), type({}), type(object), type(object.n), type(6 / 2), type(len("a")), type(1..2), type(split("a", "b")), type(keys({}))]
	[int("123"), int("-1"), int(1.9), int(-1.9), int(2), float("123.45"), float(2), float("1e3"), float("-.5")]
	[string(123), string(-1), string(0.5), string(6 / 2), string(1e6), string(1e21), string(0.00001), string(true), string("a")]
	[toJSON("a"), toJSON(1), toJSON(0.5), toJSON(true), toJSON([]), toJSON({})]
	fromJSON('{"name": "John", "on": true, "list": ["a", [], {}], "float": 0.5}')
	[toBase64("Hello World"), fromBase64("SGVsbG8gV29ybGQ="), fromBase64(toBase64("äöü")), toBase64("")]

	// anything
	[len([1, 2, 3]), len({"name": "John", "age": 30}), len("Hello"), len("äöü"), len(1..3), len([])]
	[get([1, 2, 3], 1), get([1, 2, 3], -1), get({"name": "John", "age": 30}, "name"), get([1], 9) ?? "none", get({}, "a") ?? "none", get(object.labels, "tier")]
`

// differences lists every difference from expr-lang. there and here are each a value or an error.
// documented quotes the section "What differs" of docs/reference/expressions.md, which gives the
// reasons.
var differences = []struct {
	documented, text string
	there, here      any
}{
	{"Absent fields are nil, and nil goes through", `upper(object.missing)`, value.Error("interface conversion: interface {} is nil, not string"), nil},
	{"Absent fields are nil, and nil goes through", `object.ints[99]`, value.Error("index out of range: 99 (array length is 4)"), nil},
	{"Absent fields are nil, and nil goes through", `object.missing.field`, value.Error("cannot fetch field from <nil>"), nil},
	{"Absent fields are nil, and nil goes through", `string(nil)`, "<nil>", nil},
	{"Absent fields are nil, and nil goes through", `nil in [nil]`, true, false},
	{"Absent fields are nil, and nil goes through", `flatten([nil, 1])`, list{nil, int64(1)}, list{int64(1)}},
	{"`mean` and `median` of no values are nil", `mean([])`, 0.0, nil},
	{"`mean` and `median` of no values are nil", `median([])`, 0.0, nil},

	{"An empty list is not nil", `concat([], []) ?? "none"`, "none", list{}},
	{"An empty list is not nil", `split("a", ",", 0) ?? "none"`, "none", list{}},

	{"A number that does not fit fails", `9223372036854775807 + object.n`, int64(math.MinInt64 + 2), value.ErrOverflow},
	{"A number that does not fit fails", `object.n / 0`, math.Inf(1), value.Error("division by zero")},
	{"A number that does not fit fails", `object.n ** 2000`, math.Inf(1), value.ErrOverflow},
	{"A number that does not fit fails", `float("inf")`, math.Inf(1), value.Error(`"float" cannot parse its argument`)},
	{"Maps are equal where their entries are", `{a: 1} == {a: 1.0}`, false, true},
	{"Maps are equal where their entries are", `len(uniq([{a: 1}, {a: 1.0}]))`, int64(2), int64(1)},
	{"Maps are equal where their entries are", `[fromPairs([["a", 1]])] == [{a: 1}]`, false, true},
	{"Integers and floats compare exactly", `9007199254740993 == 9007199254740992.0`, true, false},

	{"`and` and `or` take and give true and false only", `object.yes and object.s`, "web-0", value.Error(`operator "and" needs true or false, not a string`)},
	{"`and` and `or` take and give true and false only", `object.no or object.n`, int64(3), value.Error(`operator "or" needs true or false, not an int`)},

	{"a `+` in front takes numbers only", `+object.s`, "web-0", value.Error(`operator "+" needs a number, not a string`)},

	{"Strings are counted in characters", `indexOf("äöü", "ü")`, int64(4), int64(2)},
	{"Strings are counted in characters", `lastIndexOf("äöü", "ü")`, int64(4), int64(2)},
	{"Strings are counted in characters", `"äöü"[2:4]`, "ö", "ü"},
	{"are no lists of bytes", `object.s[0]`, int64('w'), value.Error("a string cannot be indexed with an int")},
	{"Functions of lists take lists only", `last(object.s)`, int64('0'), value.Error(`"last" cannot take a string`)},
	{"Functions of lists take lists only", `count(object.labels.tier, true)`, int64(5), value.Error(`"count" needs a list, not a string`)},
	{"Functions of lists take lists only", `count(object.labels, true)`, int64(2), value.Error(`"count" needs a list, not a map`)},
	{"`get` lists and maps", `get(object.n, 0) ?? "none"`, "none", value.Error("an int cannot be indexed with an int")},

	{"`groupBy` turns its keys into strings", `keys(groupBy([1], #))`, list{int64(1)}, list{"1"}},
	{"`groupBy` turns its keys into strings", `groupBy([1], #)[1]`, list{int64(1)}, value.Error("a map cannot be indexed with an int")},
	{"`fromPairs` takes no other keys", `fromPairs([[object.n, 2]])`, dict{"3": int64(2)}, value.Error("a key must be a string, not an int")},

	{"`string` takes no lists and maps", `string(object.ints)`, "[3 1 2 1]", value.Error(`"string" cannot take a list`)},
	{"`string` takes no lists and maps", `string({a: 1})`, "map[a:1]", value.Error(`"string" cannot take a map`)},
	{"`toJSON`, which is compact", `toJSON({a: [1, "<"]})`, "{\n  \"a\": [\n    1,\n    \"\\u003c\"\n  ]\n}", `{"a":[1,"<"]}`},
	{"`fromJSON` keeps integers", `fromJSON("9007199254740993")`, 9007199254740992.0, int64(9007199254740993)},
	{"`fromJSON` keeps integers", `type(fromJSON("1"))`, "float", "int"},

	{"`#` in the third argument of `reduce` is the element", `map(["a", "b"], reduce(["x", "y"], #acc + #, #))`, list{"xxy", "xxy"}, list{"axy", "bxy"}},
	{"A constant that cannot work is a mistake", `object.yes ? 1 : int("x")`, int64(1), value.Error(`"int" cannot parse its argument`)},

	{"have only the methods", `now().YearDay()`, int64(2), value.Error(`unknown method "YearDay"`)},
	{"have only the methods", `duration("1h").String()`, "1h0m0s", value.Error(`unknown method "String"`)},
	{"`.Weekday()` is a name", `now().Weekday()`, int64(5), "Friday"},
	{"`type` knows them", `[type(now()), type(duration("1h"))]`, list{"time.Time", "time.Duration"}, list{"time", "duration"}},
	{"Strings beside times and durations are read", `{a: duration("1h")}.a == "1h"`, false, true},
	{"Durations are multiplied by integers only", `duration("1s") * 0.5`, 5e8, value.Error(`operator "*" cannot take a duration and a float`)},

	{"There are no `date` and `timezone`", `date("2026-01-02")`, "2026-01-02T00:00:00Z", value.Error("there is no function date; use time(…), which reads RFC 3339")},
	{"There are no `date` and `timezone`", `date("1:00", "15:04", "UTC").In(timezone("UTC")).Hour()`, int64(1), value.Error(`unknown method "In"`)},
	{"no `bitand` and its like", `bitand(6, 3) + bitor(6, 3) + bitxor(6, 3) + bitnand(6, 3)`, int64(18), value.Error("there is no function bitand; there is nothing in its place")},
	{"no `bitand` and its like", `bitshl(1, 3) + bitshr(8, 1) + bitushr(8, 1) + bitnot(0)`, int64(15), value.Error("there is no function bitshl; there is nothing in its place")},
	{"no `$env`", `$env["event"]`, "updated", value.Error(`unknown name "$env"`)},
	{"no bytes", `b"a"`, list{int64('a')}, value.Error("bytes are not supported; leave out the b")},
}
