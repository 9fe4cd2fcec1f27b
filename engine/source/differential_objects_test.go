package source

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// scribe writes custom resources in all forms of JSON, including differences that only the text
// shows. Examples are 1.0 and 1, \ud834\udd1e and the letter itself, and duplicate keys.
type scribe struct{ *rand.Rand }

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// hostileText holds texts for strings and keys alike.
var hostileText = []string{
	``, ` `, `plain`, `with space`, `a.b/c`, `a/b`, `x\"y`, `back\\slash`, `\\\"`, `sl\/ash`, `'`, `<b>&amp;</b>`, `[]`, `{}`, `]}`, `,`, `:`,
	`null`, `true`, `0`, `-1`, `1e3`, `name`, `\u006eame`, `metadata`, `managedFields`, `items`, `type`, `object`, `kind`,
	`é`, `e\u0301`, `e` + "\u0301", `ключ`, `日本`, `𝄞`, `\ud834\udd1e`, `\uD834\uDD1E`, `👩‍👩‍👧`, `\ud800`, `\udc00x`, `\ud800\ud800\udc00`, `\ud834x`,
	`\u2028\u2029`, "\u2028", `\u0000`, `\u001f`, `\b\f\n\r\t`, "\u007f", `\ufeff`, "\ufeff", `\ufffd`, "\ufffd", `\uffff`, "\u202eabc",
}

var hostileNumbers = []string{
	`0`, `-0`, `0.0`, `-0.0`, `1`, `-1`, `1.0`, `-1.0`, `1e3`, `1E+3`, `1e-3`, `10e-1`, `0e0`, `0.1`, `0.30000000000000004`,
	`9007199254740991`, `9007199254740993`, `-9007199254740993`, `9007199254740993.0`,
	`9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `18446744073709551615`,
	`123456789012345678901234567890`, `-123456789012345678901234567890.5`, `1e21`, `1e20`, `100000000000000000000`,
	`1.7976931348623157e308`, `-1.7976931348623157e308`, `2.2250738585072014e-308`, `5e-324`, `1e-400`, `-1e-400`,
	`0.1000000000000000055511151231257827021181583404541015625`,
}

func (s scribe) text() string {
	switch s.IntN(40) {
	case 0:
		return strings.Repeat(pick(s.Rand, hostileText)+`x`, 1+s.IntN(200))
	case 1:
		return pick(s.Rand, hostileText) + pick(s.Rand, hostileText) + pick(s.Rand, hostileText)
	}
	return pick(s.Rand, hostileText)
}

func (s scribe) number() string {
	switch s.IntN(4) {
	case 0:
		return strconv.FormatInt(int64(s.Uint64())>>s.IntN(64), 10)
	case 1:
		return strconv.FormatFloat(s.NormFloat64(), "eEfg"[s.IntN(4)], -1, 64)
	}
	return pick(s.Rand, hostileNumbers)
}

// value returns a value that nests at most depth levels, except for one in a thousand.
func (s scribe) value(depth int) string {
	if s.IntN(1000) == 0 {
		levels := 1 + s.IntN(400)
		return strings.Repeat(`{"d":[`, levels) + s.number() + strings.Repeat(`]}`, levels)
	}
	if s.IntN(2000) == 0 {
		return `"` + strings.Repeat(pick(s.Rand, hostileText)+`0123456789`, 10_000) + `"`
	}
	kinds := 9
	if depth == 0 {
		kinds = 7
	}
	switch s.IntN(kinds) {
	case 0:
		return `null`
	case 1:
		return pick(s.Rand, []string{`true`, `false`})
	case 2:
		return pick(s.Rand, []string{`{}`, `[]`, `""`, `[null]`, `[[],[{}]]`, `{"":null}`})
	case 3, 4:
		return s.number()
	case 5, 6:
		return `"` + s.text() + `"`
	case 7:
		return s.list(depth - 1)
	}
	return s.object(depth - 1)
}

func (s scribe) list(depth int) string {
	items := make([]string, s.IntN(5))
	for i := range items {
		items[i] = s.value(depth)
	}
	return `[` + strings.Join(items, `,`) + `]`
}

// object returns an object, which may have duplicate keys.
func (s scribe) object(depth int) string {
	fields := make([]string, s.IntN(5))
	for i := range fields {
		fields[i] = `"` + s.text() + `":` + s.value(depth)
	}
	return `{` + strings.Join(fields, `,`) + `}`
}

// tags returns the value that is indexed, mostly a list of strings.
func (s scribe) tags() string {
	if s.IntN(8) == 0 {
		return s.value(1)
	}
	items := make([]string, s.IntN(5))
	for i := range items {
		items[i] = `"` + pick(s.Rand, hostileText) + `"`
		if s.IntN(10) == 0 {
			items[i] = s.value(1)
		}
	}
	return `[` + strings.Join(items, `,`) + `]`
}

// labels returns labels. They decide whether the informers select the object: see selected.
func (s scribe) labels() string {
	return pick(s.Rand, []string{
		`null`, `{}`, `{"tier":"db"}`, `{"tier":"web"}`, `{"tier":"\u0077eb"}`, `{"tier":"cache","tier":"web"}`, `{"tier":"web","tier":"db"}`,
		`{"tier":"cache"}`, `{"tier":"cache","hidden":""}`, `{"tier":"web","hidden":"yes"}`, `{"app.kubernetes.io/name":"web","tier":"cache"}`,
	})
}

const selected = "tier in (web,cache),!hidden"

// custom is a custom resource of which a few fields change at a time.
type custom struct {
	namespace, name, uid                       string
	labels, annotations, tags, spec, data, top string
}

func (s scribe) change(c *custom) {
	for range 1 + s.IntN(2) {
		switch s.IntN(8) {
		case 0, 1:
			c.labels = s.labels()
		case 2:
			c.annotations = fmt.Sprintf(`{"%s":"%s"}`, s.text(), s.text())
		case 3:
			c.tags = s.tags()
		case 4, 5:
			c.spec = s.value(4)
		case 6:
			c.data = s.object(2)
		case 7:
			c.top = s.value(3)
		}
	}
}

func (s scribe) custom(namespace, name string) *custom {
	return &custom{
		namespace: namespace, name: name,
		labels: s.labels(), annotations: `{}`, tags: s.tags(), spec: s.value(4), data: s.object(2), top: s.value(3),
	}
}

// json returns the object as it goes to the server. Its managedFields differ each time.
func (s scribe) json(c *custom) string {
	uid := ""
	if c.uid != "" {
		uid = fmt.Sprintf(`"uid":%q,`, c.uid)
	}
	return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,%s"labels":%s,"annotations":%s,`+
		`"managedFields":[{"manager":"differential","fieldsV1":{"f:spec":{"f:body":%s}}}],"finalizers":[],"generation":%d},`+
		`"spec":{"tags":%s,"body":%s,"metadata":{"managedFields":[{"of":"a template"}]}},"data":%s,"Metadata":{"name":"another"},"%s":%s}`,
		c.namespace, c.name, uid, c.labels, c.annotations, s.value(1), s.IntN(9), c.tags, c.spec, c.data, `\u0442\"op.x/y`, c.top)
}
