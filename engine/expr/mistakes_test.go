package expr

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	inBoth   = `: write object.metadata.name in an expression, and "${object.metadata.name}" in a text`
	ofGo     = "{{ }} is the syntax of Go and Helm" + inBoth
	ofGitHub = "${{ }} is the syntax of GitHub Actions" + inBoth
	ofTekton = "$( ) is the syntax of Kubernetes and Tekton" + inBoth
)

func TestMistakesInTheText(t *testing.T) {
	for _, test := range []struct {
		why     string
		scope   Scope
		text    string // | stands in front of the mistake
		message string
	}{
		{"unknown name", When, "true and |objekt.spec", `unknown name "objekt"; did you mean object?`},
		{"unknown name, after letters of two bytes", When, `"äöü" == |evnt`, `unknown name "evnt"; did you mean event?`},
		{"unknown name that is like a variable", When, "let nodes = 1; |node", `unknown name "node"; did you mean nodes?`},
		{"unknown name that is like nothing", When, "|zzzzzz", `unknown name "zzzzzz"`},
		{"a variable is known in its own expression only", When, "any([1], let x = 1; true) and |x", `unknown name "x"`},
		{"unknown function", When, "|quantiti(1)", `unknown function "quantiti"; did you mean quantity?`},
		{"a template of Go", When, `|{{ .object.metadata.name }} == "x"`, ofGo},
		{"a template of Go without its dot", Payload, `|{{ object.metadata.name }} restarts`, ofGo},
		{"a template of Go within a text", Payload, `Pod |{{ object.metadata.name }}`, ofGo},
		{"one beside a quote", Payload, `Pod's |{{ .metadata.name }}`, ofGo},
		{"a template of Tekton", Payload, "|$(object.metadata.name)", ofTekton},
		{"a template of Tekton within a text", Payload, "Pod |$(object.metadata.name)", ofTekton},
		{"a template of GitHub", When, "|${{ object.metadata.name }}", ofGitHub},
		{"a template of Go in a string", When, `"{{ .metadata.name }}" == |nam`, `unknown name "nam"; a text needs quotes: "nam"`},
		{"maps in maps", Payload, `[{|{"a": 1}}]`, "a map key must be a quoted string, a number, a identifier, or an expression enclosed in parentheses (unexpected \"{\")"},
		{"a function without its call", When, "|now > 1", "now is a function; call it as now(…)"},
		{"a method that is a function", When, "object.spec.|len() > 1", "len is a function; write len(x) or x | len()"},
		{"a field without its object", When, `|status.phase == "Failed"`, `unknown name "status"; did you mean object.status?`},
		{"a method that is an operator", When, `object.metadata.name.|startsWith("x")`, "there is no method startsWith; write x startsWith y"},
		{"one of another language", When, `object.metadata.name.|includes("x")`, "there is no method includes; write x contains y"},
		{"a function of another language", When, `|size(object.spec) > 1`, "there is no function size; use len(…)"},
		{"one that absent fields make needless", When, `|has(object.spec.x)`, "there is no function has; compare with nil: object.spec.x != nil"},
		{"an unknown method", When, "object.spec.|foo()", `unknown method "foo"`},
		{"what is left out says what to use", When, `|date("2026-01-01") < now()`, "there is no function date; use time(…), which reads RFC 3339"},
		{"too few arguments", When, "|len() > 0", "len takes 1 argument, not 0"},
		{"too many arguments", When, `|time("a", "b") == nil`, "time takes 1 argument, not 2"},
		{"a field with a dash", When, "object.metadata.labels.my-|app", `unknown name "app"; a field with - or / in its name needs brackets: object.metadata.labels["my-app"]`},

		{"a field whose end is like a name", When, `object.metadata.annotations.example.com/|told == nil`, `unknown name "told"; a field with - or / in its name needs brackets: object.metadata.annotations["example.com/told"]`},
		{"a field whose end is a name of another language", When, `object.metadata.labels.is-|new == "x"`, `unknown name "new"; a field with - or / in its name needs brackets: object.metadata.labels["is-new"]`},
		{"a field whose end is a field of objects", When, `object.metadata.labels.my-|status == "x"`, `unknown name "status"; a field with - or / in its name needs brackets: object.metadata.labels["my-status"]`},
		{"where and old", Where, "|old.spec != object.spec", "where cannot use old: it must come out the same whenever it is asked, so it reads object alone; use old in when"},
		{"where and event", Where, `|event == "added"`, "where cannot use event: it must come out the same whenever it is asked, so it reads object alone; use event in when"},
		{"where and the time", Where, "|now() > time(object.x)", "where cannot use now(): it must come out the same whenever it is asked, so it reads object alone; use now() in when, or for and due, which are about time"},
		{"due and the time", Due, `|now() + duration("1h")`, `due cannot use now(): it reads object alone, and gives the time from which it is a member, such as time(object.spec.renewTime) + duration("2m")`},
		{"due without the object", Due, `|time("2026-01-02T03:04:05Z")`, `the expression does not depend on the object: due is the time from which it is a member, such as time(object.spec.renewTime) + duration("2m")`},
		{"a due that is a condition", Due, `|time(object.spec.renewTime) > duration("2m")`, `the expression gives true or false: due is the time from which it is a member, such as time(object.spec.renewTime) + duration("2m")`},
		{"where and other objects", Where, `|byIndex("byNode", "x") | any(true)`, "where cannot use byIndex(): it must come out the same whenever it is asked, so it reads object alone; use byIndex() in when"},
		{"an index of a text", Index, "|yes", `unknown name "yes"; for the text itself write '"yes"'`},
		{"an index and old", Index, "|old.spec.nodeName", "an index cannot use old: it is kept per object, so it reads object alone"},
		{"a condition that is none", When, `|"Failed"`, "the expression gives a string, not true or false"},

		{"unknown index", When, `byIndex(|"byNod", "x") | any(true)`, `the rule's source has no index "byNod"; did you mean byNode?`},
		{"an index that is not constant", When, `byIndex(|object.x, "x") | any(true)`, "the first argument of byIndex must be the name of an index, in quotes"},

		{"an unknown source", When, `lookup(|"node.byName", "x") | any(true)`, `unknown source "node"; did you mean nodes?`},
		{"a source that is like none", When, `lookup(|"zzzzzz.byName", "x") | any(true)`, `unknown source "zzzzzz"; there are bare, nodes, pods`},
		{"another source's unknown index", When, `lookup(|"nodes.byNam", "x") | any(true)`, `source nodes has no index "byNam"; did you mean byName?`},
		{"a source without its index", When, `lookup(|"nodes", "x") | any(true)`, `"nodes" names no index; write "nodes.INDEX": there is byName, byZone`},
		{"a source that has no index", When, `lookup(|"bare.byName", "x") | any(true)`, "source bare has no index to look things up by; give it one, such as indexes: {byName: object.metadata.name}"},
		{"a lookup that is not constant", When, `lookup(|object.x, "x") | any(true)`, `the first argument of lookup must be "SOURCE.INDEX", in quotes`},
		{"a lookup without its quotes", When, `lookup(|nodes.byName, "x") | any(true)`, `the first argument of lookup must be "SOURCE.INDEX", in quotes`},
		{"an index without its quotes", When, `byIndex(|byNode, "x") | any(true)`, "the first argument of byIndex must be the name of an index, in quotes"},
		{"a lookup without a value", When, `|lookup("nodes.byName") | any(true)`, "lookup takes 2 arguments, not 1"},
		{"where and other sources", Where, `|lookup("nodes.byName", "x") | any(true)`, "where cannot use lookup(): it must come out the same whenever it is asked, so it reads object alone; use lookup() in when"},
		{"an index and other sources", Index, `|lookup("nodes.byName", "x")`, "an index cannot use lookup(): it is kept per object, so it reads object alone"},
		{"parts of objects to attach", Attach, `|map(lookup("nodes.byName", "x"), .metadata.name)`, "attach sends whole objects, as lookup and byIndex give them; to send parts of them write a payload"},

		{"an unfinished expression", When, `object.spec == 1 ==|`, "unexpected end of the expression"},
		{"one = for two", When, `object.spec |= 1`, `unexpected "="; what compares is ==`},
		{"a wrong token", When, `object.spec == |)`, `unexpected ")"`},
		{"a string without its end", When, `object.x == |"abc`, "the string that begins here has no closing \""},
		{"a string without its beginning", When, `object.x == abc|"`, "the string that begins here has no closing \""},
		{"a string whose end is that of another", When, `object.x == "abc and object.y == "z|"`, "the string that begins here has no closing \""},
		{"a string in single quotes without its end", When, `object.x == |'a"b"`, "the string that begins here has no closing '"},
		{"a string without its end, behind one with escapes", When, `"a\"b" == |"c\"`, "the string that begins here has no closing \""},
		{"a strange letter", When, `object.x == |§`, "unrecognized character: U+00A7 '§'"},
		{"an integer that does not fit", When, `object.x == 9999999999999999999|9`, "the number does not fit into 64 bits"},
		{"bytes", When, `|b"x" == object.x`, "bytes are not supported; leave out the b"},
		{"a pointer outside", When, `|# > 1`, ""},
		{"an unknown pointer", When, `any([1], |#indx > 1)`, "unknown pointer #indx; did you mean index?"},
		{"#acc outside of reduce", When, `any([1], |#acc > 1)`, "#acc means nothing outside of reduce"},
		{"a name that is taken", When, `let |object = 1; true`, "object already has a meaning; choose another name"},
		{"a variable twice", When, `let x = 1; let |x = 2; true`, "x already has a meaning; choose another name"},
		{"a key that cannot be one", When, `{(|1): 2} == nil`, "a key must be a string, not an int"},

		{"a duration in days", When, `now() > time(object.x) + duration(|"3d")`, `"3d" is no duration: write "72h"`},
		{"a duration in weeks", When, `duration(|"2 weeks") == object.x`, `"2 weeks" is no duration: write "336h"`},
		{"a duration in days and less", When, `duration(|"1d12h10s") == object.x`, `"1d12h10s" is no duration: write "36h0m10s"`},
		{"a duration that is none", When, `duration(|"soon") == object.x`, `"soon" is no duration: write one such as "10m", "1h30m" or "24h"`},
		{"a date", When, `time(|"2026-01-01") < now()`, `"2026-01-01" is no time: write "2026-01-01T00:00:00Z"`},
		{"a time with a space", When, `time(|"2026-01-01 08:30:00") < now()`, `"2026-01-01 08:30:00" is no time: write "2026-01-01T08:30:00Z"`},
		{"a date that there is not", When, `time(|"2026-02-30") < now()`, `"2026-02-30" is no time: write one such as "2030-01-31T08:00:00Z"`},
		{"a key twice", When, `{a: 1, b: 2, |"a": 3} == nil`, `the key "a" is given twice`},
		{"a key twice, of which one is put together", When, `{ab: 1, ("a" |+ "b"): 3} == nil`, `the key "ab" is given twice`},
		{"a constant that cannot be parsed", When, `object.x > quantity(|"10 GB")`, `"10 GB" is no quantity: write one such as "500m" or "1Gi"`},
		{"constants that do not go together", When, `object.x == (1 |+ "a")`, `operator "+" cannot take an int and a string; write string(…) around what is no string`},
		{"a pattern that is wrong", When, `object.x matches |"(a"`, "the pattern is wrong: missing closing ): \"(a\""},
		{"empty", When, "|  ", "the expression is empty"},
		{"a comment alone", When, "// nothing|", "unexpected end of the expression"},
	} {
		t.Run(test.why, func(t *testing.T) {
			at := strings.Index(test.text, "|")
			text := test.text[:at] + test.text[at+1:]
			_, err := Compile(text, Options{Scope: test.scope, Indexes: []string{"byNode"}, Sources: payload.Sources})
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%s: got %v, want a mistake", text, err)
			}
			if test.message != "" && e.Message != test.message {
				t.Errorf("%s: message\n got %s\nwant %s", text, e.Message, test.message)
			}
			if e.Offset != at {
				t.Errorf("%s: offset %d, want %d", text, e.Offset, at)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for _, test := range []struct{ why, text, want string }{
		{"a field of a string", `object.status.phase.x`, `a string has no field "x"`},
		{"a field of a list", `object.spec.containers.image`, `a list has no field "image"; ask each element, with any(LIST, .image == …), or take it of each, with map(LIST, .image)`},
		{"a string as an index", `object.spec.containers[object.kind]`, "a list cannot be indexed with a string"},
		{"a number as a key", `object.spec[0]`, "a map cannot be indexed with an int"},
		{"a letter of a string", `object.kind[0]`, "a string cannot be indexed with an int"},
		{"logic of what is not a bool", `object.kind and true`, `operator "and" needs true or false, not a string`},
		{"a condition that is not a bool", `object.kind ? 1 : 2`, "a condition must be true or false, not a string"},
		{"a predicate that is not a bool", `any(object.spec.containers, .name)`, `the condition of "any" must be true or false, not a string`},
		{"a predicate on a map", `any(object.metadata.labels, true)`, `"any" needs a list, not a map`},
		{"a function of the wrong kind", `upper(object.spec.replicas)`, `"upper" cannot take an int`},
		{"a method of the wrong kind", `object.kind.Hour()`, `a string has no method "Hour"`},
		{"a time that JSON cannot hold", `time("9999-12-31T00:00:00Z") + duration("1000h") * object.spec.replicas`, "a time is out of range"},
	} {
		t.Run(test.why, func(t *testing.T) {
			_, err := mustCompile(t, test.text, payload).Value(testEnv(t))
			if err == nil || err.Error() != test.want {
				t.Errorf("%s:\n got %v\nwant %s", test.text, err, test.want)
			}
		})
	}
}

func TestBool(t *testing.T) {
	for _, test := range []struct {
		why, text string
		want      bool
		err       string
	}{
		{"true", `object.status.phase == "Failed"`, true, ""},
		{"false", `object.status.phase == "Running"`, false, ""},
		{"nil is false", `object.status.missing`, false, ""},
		{"a bool of the object", `object.status.ready`, false, ""},
		{"anything else is a failure", `object.status.phase`, false, "the expression gives a string, not true or false"},
	} {
		t.Run(test.why, func(t *testing.T) {
			got, err := mustCompile(t, test.text, Options{Scope: When}).Bool(testEnv(t))
			if got != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("%s: got %v, %v, want %v, %s", test.text, got, err, test.want, test.err)
			}
		})
	}
}

// Whoever knows kubectl, CEL, jq, JavaScript or Go templates hears what to write here.
func TestHints(t *testing.T) {
	for _, test := range []struct{ text, message string }{ // | stands in front of the mistake
		{`object.metadata.labels.app.kubernetes.io/|name == "x"`, `unknown name "name"; a field with - or / in its name needs brackets: object.metadata.labels["app.kubernetes.io/name"]`},
		{`object.metadata.annotations.a-|b-c != nil`, `unknown name "b"; a field with - or / in its name needs brackets: object.metadata.annotations["a-b-c"]`},
		{`object.data.key|-1 == "x"`, `the result of - never equals a text; a field with - in its name needs brackets: object.data["key-1"]`},
		{`"x" != object.data.a |* 2`, `the result of * never equals a text`},
		{`len(object.spec.containers) == |"2"`, `len() is a number, which never equals a text: leave the quotes out`},
		{`object.metadata.labels.'my-app' |!= nil`, `expected name; a field whose name needs quotes is written in brackets: labels["a-b"]`},
		{`map(object.xs, {kind|: "User", name: #})`, `unexpected ":"; a map as the last argument needs parentheses: ({name: #})`},
		{`now() - time(object.a) > |2m`, `2m is no number; a duration is duration("2m"), a quantity is quantity("2m")`},
		{`now() - time(object.a) > |7d`, `7d is no number; a duration is duration("168h")`},
		{`now() - time(object.a) > |1.5d`, `1.5d is no number; a duration is duration("36h")`},
		{`duration(|30s)`, `30s is no number; a duration is duration("30s")`},
		{`object.a > |5Mi`, `5Mi is no number; a quantity is quantity("5Mi")`},
		{`object.status.phase == |Failed`, `unknown name "Failed"; a text needs quotes: "Failed"`},
		{`object.a in ["x", |y]`, `unknown name "y"; a text needs quotes: "y"`},
		{`event == |added`, `unknown name "added"; a text needs quotes: "added"`},
		{`object.metadata.labels.quarantine == |true`, `a label is a string, which never equals true: write "true"`},
		{`old.metadata.annotations["example.com/n"] != |3`, `an annotation is a string, which never equals 3: write "3"`},
		{`|0.5 == object.spec.template.metadata.labels.n`, `a label is a string, which never equals 0.5: write "0.5"`},
		{`object.data |changed`, `unexpected "changed"; compare with the state before: object.data != old.data`},
		{`event == |"create"`, `event is never "create": it is added, updated, deleted or synced; did you mean added?`},
		{`event in |["ADDED", "deleted"]`, `event is never "ADDED": it is added, updated, deleted or synced; did you mean added?`},
		{`|"MODIFIED" == event`, `event is never "MODIFIED": it is added, updated, deleted or synced; did you mean updated?`},
		{`$|{object.metadata.name} == "a"`, `unexpected "{"; this is an expression already: leave out ${ and }`},
		{`|"${object.metadata.name}" == "a"`, `this is the text itself; for what the expression gives, leave out the quotes and ${ }: object.metadata.name`},
		{`|{{ .metadata.name }}`, ofGo},
		{`|{{- .spec.nodeName -}}`, strings.ReplaceAll(ofGo, "metadata.name", "spec.nodeName")},
		{`"/api" in |.spec.uri`, `unexpected "."; a field begins with its object: object.spec.uri`},
		{`object.a == 1 and |.b`, `unexpected "."; a field begins with its object: object.b`},
		{`|.metadata.name == "a"`, `unexpected "."; a field begins with its object: object.metadata.name`},
		{`|self.metadata.name == "a"`, `unknown name "self"; write object`},
		{`|oldSelf.x == 1`, `unknown name "oldSelf"; the state before is old`},
		{`|oldObject.x == 1`, `unknown name "oldObject"; the state before is old`},
		{`object.a == |null`, `unknown name "null"; write nil`},
		{`|True`, `unknown name "True"; write true`},
		{`object.a |is nil`, `unexpected "is"; compare with nil: x == nil`},
		{`object.a |is not nil`, `unexpected "is"; compare with nil: x != nil`},
		{`object.a |is null or true`, `unexpected "is"; compare with nil: x == nil`},
		{`object.a |is "Failed"`, `unexpected "is"; write x == y`},
		{`object.a |is not "Failed"`, `unexpected "is"; write x != y`},
		{`object.a |is not 3`, `unexpected "is"; write x != y`},
		{`object.a |is`, `unexpected "is"; compare with nil: x != nil`},
		{`object.spec.containers|.0.name == "x"`, `an element of a list is written in brackets: object.spec.containers[0]`},
		{`map(object.a, #|.1.name) == nil`, `an element of a list is written in brackets: x[1]`},
		{`object.spec.containers|.0 == "x"`, `an element of a list is written in brackets: object.spec.containers[0]`},
		{`object.metadata.labels.|includes("x")`, `there is no method includes; write y in x`},
		{`object.spec.containers.|contains("x")`, `there is no method contains; write y in x`},
		{`object.status.|contains("x")`, `there is no method contains; write x contains y`},
		{`object.a |exists`, `unexpected "exists"; compare with nil: x != nil`},
		{`|exists(object.a)`, `there is no function exists; compare with nil: object.spec.x != nil`},
		{`|default(object.a, 1) == 1`, `there is no function default; write x ?? y`},
		{`object.x.|exists(c, c.name == "a")`, `there is no method exists; write any(x, .name == y)`},
		{`object.x.|filter(c, c.y) == nil`, `filter is a function; write filter(x, .y == 1)`},
		{`object.x.|size() > 1`, `there is no method size; write len(x)`},
		{`filter(object.a, x |=> x.y == 1) == nil`, `unexpected "="; ` + elementNamed},
		{`object.spec.containers[|].image == nil`, `unexpected "]"; for a field of each element write map(object.spec.containers, .image)`},
		{`object.spec.containers[|*].image == nil`, `unexpected "*"; for a field of each element write map(object.spec.containers, .image)`},
		{`[x |for x in object.a] == nil`, `unexpected "for"; for a value of each element write map(object.spec.containers, .image)`},
		{`object.a | length|`, `unexpected end of the expression; a function behind | needs its parentheses: | len()`},
		{`if object.a |then 1 else 2`, `unexpected "then"; a condition is written x ? y : z, or if x {y} else {z}`},
		{`object.a <|> "b"`, `unexpected ">"; what compares is !=`},
		{`object.a == 'b' |AND object.c == 'd'`, `unexpected "AND"; write and`},
		{`object.a in ("a"|, "b")`, `unexpected ","; a list is written in brackets: in [1, 2]`},
		{`object.a |like "x%"`, `unexpected "like"; write matches, contains, startsWith or endsWith`},
		{`object.a =|~ "x"`, `unrecognized character: U+007E '~'; what compares with a pattern is matches`},
	} {
		at := strings.LastIndex(test.text, "|")
		if strings.Contains(test.text, "||") {
			at = strings.Index(test.text, "||")
		}
		if !strings.Contains(test.text, " | ") {
			at = strings.Index(test.text, "|")
		}
		text := test.text[:at] + test.text[at+1:]
		_, err := Compile(text, Options{Scope: When})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v, want a mistake", text, err)
			continue
		}
		if e.Message != test.message || e.Offset != at {
			t.Errorf("%s: at %d, want %d\n got %s\nwant %s", text, e.Offset, at, e.Message, test.message)
		}
	}
}

// Each hint can be reached: what exists here, or has a sentence elsewhere, needs none.
func TestHintsAreReachable(t *testing.T) {
	for name := range otherFunctions {
		if _, elsewhere := absent[name]; elsewhere || isFunction(name) {
			t.Errorf("the hint for the function %s is never shown", name)
		}
	}
	for name := range otherMethods {
		if _, elsewhere := operatorLike[name]; elsewhere || isFunction(name) {
			t.Errorf("the hint for the method %s is never shown", name)
		}
	}
	for name := range otherNames {
		if isFunction(name) {
			t.Errorf("the hint for the name %s is never shown", name)
		}
	}
	for name := range namesElements {
		if !isFunction(name) {
			t.Errorf("%s is no function", name)
		}
	}
}

// All names of a text that mean nothing are reported at once.
func TestUnknownNames(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string // what stands at each place
	}{
		{`has(object.x) && object.metadata.name.startsWith("a") && object.xs.exists(c, c.y)`, []string{"has", "startsWith", "exists"}},
		{`objekt.x == Failed and size(object.y) > 1`, []string{"objekt", "Failed", "size"}},
		{`any(object.x, foo == .y) or (let a = bar; a == 1)`, []string{"foo", "bar"}},
		{`object.labels.my-app == "x"`, []string{"app"}}, // what else is wrong follows from it
		{strings.Repeat("x == 1 or ", 50) + "true", slices.Repeat([]string{"x"}, 10)},
	} {
		_, err := Compile(test.text, Options{Scope: When})
		_, _, inTemplate := CompileTemplate("a ${1} ${"+test.text+"}", Options{Scope: Payload})
		for before, err := range map[int]error{0: err, len("a ${1} ${"): inTemplate} {
			var at []string
			for _, e := range Mistakes(err) {
				at = append(at, name.FindString(test.text[e.Offset-before:]))
			}
			if !slices.Equal(at, test.want) {
				t.Errorf("%s: mistakes at %q, want %q", test.text, at, test.want)
			}
		}
	}
	_, _, err := CompileTemplate("${foo} and ${bar}", Options{Scope: Payload})
	if all := Mistakes(err); len(all) != 2 || all[1].Offset != len("${foo} and ${") {
		t.Errorf("got %v, want a mistake for each expression", all)
	}
}

var name = regexp.MustCompile(`^\w+`)

// Without a rule, no source is unknown and no index missing: there is no cache.
func TestLookUpsWithoutACache(t *testing.T) {
	for _, text := range []string{`lookup("pods.byName", "a")`, `len(byIndex("byName", "a"))`} {
		_, err := Compile(text, Options{Scope: Payload, NoCache: true})
		if err == nil || !strings.Contains(err.Error(), "looks into the caches of a rule's sources, which are not there without a rule") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
