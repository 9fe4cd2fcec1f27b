package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// templates compiles the templates of a config. They are in informd's one template language, and
// see the fields of an event by their names in docs/reference/events.md, and secrets.
type templates struct {
	given    map[string][]string // names that templates see, beside object, old, event and now()
	problems []error
}

func newTemplates(secrets map[string]string) *templates {
	names := slices.Sorted(maps.Keys(secrets))
	if names == nil {
		names = []string{}
	}
	return &templates{given: map[string][]string{
		"id": nil, "rule": nil, "attempt": nil, "namespace": nil, "name": nil, "uid": nil,
		"resourceVersion": nil, "payload": nil, "attached": nil, "items": nil,
		"resource": {"group", "version", "resource"}, "secrets": names,
	}}
}

func (t *templates) fail(format string, args ...any) {
	t.problems = append(t.problems, fmt.Errorf(format, args...))
}

// compile compiles the template of a string. program is nil if there are no expressions in it.
func (t *templates) compile(at, text string, o expr.Options) (program *expr.Program, literal string) {
	o.Scope, o.Given = expr.Sent, t.given
	if m := foreign.FindString(text); m != "" {
		t.fail("%s: %s is the syntax of Go and Helm: "+
			"write ${…}, such as ${object.metadata.name}", at, m)
	}
	program, literal, err := expr.CompileTemplate(text, o)
	if err != nil {
		for _, mistake := range expr.Mistakes(err) {
			t.fail("%s: %w", at, mistake)
		}
	}
	return program, literal
}

// foreign matches the beginning of an expression as other tools write it.
var foreign = regexp.MustCompile(
	`\{\{-?\s*\.?(object|old|event|payload|secrets|attached|items|metadata|name|namespace)\b`)

// text is a template that gives a string.
type text struct {
	literal string
	program *expr.Program // nil: literal is the text
}

func (t *templates) text(at, source string, o expr.Options) text {
	program, literal := t.compile(at, source, o)
	return text{literal, program}
}

// render returns the string; ok is false if the template gives nil.
func (t text) render(env *expr.Env) (s string, ok bool, err error) {
	if t.program == nil {
		return t.literal, true, nil
	}
	v, err := t.program.Value(env)
	if err != nil {
		return "", false, err
	}
	switch v := v.(type) {
	case nil:
		return "", false, nil
	case string:
		return v, true, nil
	case bool:
		return strconv.FormatBool(v), true, nil
	case int64:
		return strconv.FormatInt(v, 10), true, nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true, nil
	}
	return "", false, errors.New("it is a list or a mapping, not a text")
}

// maxBodyDepth bounds how deep the mappings and lists of a body nest, as those of a payload.
const maxBodyDepth = 16

// body compiles a template of JSON.
func (t *templates) body(raw json.RawMessage) *rule.Template {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return t.value("body", d, 1)
}

func (t *templates) value(at string, d *json.Decoder, depth int) *rule.Template {
	token, err := d.Token()
	if err != nil {
		t.fail("body: is not JSON")
		return nil
	}
	switch v := token.(type) {
	case json.Delim:
		if depth > maxBodyDepth {
			t.fail("%s: is nested more than %d deep", at, maxBodyDepth)
			skip(d)
			return nil
		}
		return t.values(at, v, d, depth)
	case string:
		program, literal := t.compile(at, v, expr.Options{})
		if program != nil {
			return &rule.Template{Program: program}
		}
		if forgotten.MatchString(literal) {
			if _, err := expr.Compile(literal, expr.Options{Scope: expr.Sent, Given: t.given}); err == nil {
				t.fail(`%s: this is the text itself; for what the expression gives write "${%s}"`,
					at, literal)
			}
		}
		return rule.Constant(literal)
	case json.Number:
		return &rule.Template{JSON: json.RawMessage(v)}
	}
	constant, _ := json.Marshal(token) // true, false or null
	return &rule.Template{JSON: constant}
}

// values compiles the members of a mapping or the elements of a list.
func (t *templates) values(
	at string, open json.Delim, d *json.Decoder, depth int,
) *rule.Template {
	out := &rule.Template{Items: []*rule.Template{}}
	if open == '{' {
		out = &rule.Template{Members: []rule.Member{}}
	}
	for i := 0; d.More(); i++ {
		if open == '[' {
			item := t.value(fmt.Sprintf("%s[%d]", at, i), d, depth+1)
			out.Items = append(out.Items, item)
			continue
		}
		token, _ := d.Token()
		name, _ := token.(string)
		program, literal := t.compile(at+"."+name, name, expr.Options{})
		if program != nil {
			t.fail("%s.%s: a key cannot have expressions in it", at, name)
		}
		out.Members = append(out.Members,
			rule.Member{Name: literal, Value: t.value(at+"."+name, d, depth+1)})
	}
	_, _ = d.Token() // what closes it
	return out
}

// skip reads on to the end of the mapping or list that d is in.
func skip(d *json.Decoder) {
	for depth := 1; depth > 0; {
		switch token, err := d.Token(); {
		case err != nil:
			return
		case token == json.Delim('{') || token == json.Delim('['):
			depth++
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		}
	}
}

// forgotten matches texts that look like an expression whose ${ and } the author forgot.
var forgotten = regexp.MustCompile(
	`^((object|old)\.(metadata|spec|status|data|type|kind)\b|(payload|secrets|attached|resource)\.)`)

var onlySecret = regexp.MustCompile(`^\s*secrets\.\w+\s*$`)

// inURL returns the text of an expression within a URL. It escapes what comes from the event, so
// that no object chooses the place that its event goes to. Secrets stand as they are.
func inURL(expression, text string) string {
	if onlySecret.MatchString(expression) {
		return text
	}
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

// environment returns what templates see of ev.
func environment(ev *handler.Event, secrets map[string]any, now time.Time) (*expr.Env, error) {
	given, err := members(ev)
	if err != nil {
		return nil, err
	}
	attached := make(map[string]any, len(ev.Attached))
	for name, objects := range ev.Attached {
		list := make([]any, len(objects))
		for i, o := range objects {
			if list[i], err = tree(o); err != nil {
				return nil, errors.New("what is attached is not valid JSON")
			}
		}
		attached[name] = list
	}
	// An event of a rule without a group is its own only item, so a template can serve both kinds
	// of rules.
	items := []any{maps.Clone(given)}
	if len(ev.Items) > 0 {
		items = make([]any, len(ev.Items))
	}
	for i := range ev.Items {
		if items[i], err = members(&ev.Items[i]); err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
	}
	env := &expr.Env{
		Event: ev.Event, Object: given["object"], Old: given["old"], Now: now, Given: given,
	}
	for _, name := range []string{"event", "object", "old"} { // Env has them
		delete(given, name)
	}
	given["attached"], given["items"], given["secrets"] = attached, items, secrets
	return env, nil
}

// members returns what templates see of an event and of each of its items.
func members(ev *handler.Event) (map[string]any, error) {
	m := map[string]any{
		"id": ev.ID, "rule": ev.Rule, "event": ev.Event, "attempt": int64(ev.Attempt),
		"namespace": orNil(ev.Namespace), "name": ev.Name, "uid": ev.UID,
		"resourceVersion": ev.ResourceVersion,
		"resource": map[string]any{
			"group": ev.Resource.Group, "version": ev.Resource.Version,
			"resource": ev.Resource.Resource,
		},
	}
	for name, raw := range map[string]json.RawMessage{
		"object": ev.Object, "old": ev.Old, "payload": ev.Payload,
	} {
		value, err := tree(raw)
		if err != nil {
			return nil, fmt.Errorf("%s is not valid JSON", name)
		}
		m[name] = value
	}
	return m, nil
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// tree decodes JSON as expressions have it: integers are int64. No text is nil.
func tree(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return numbers(v), nil
}

// numbers replaces each json.Number within v.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = numbers(member)
		}
	case []any:
		for i, item := range v {
			v[i] = numbers(item)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}
