// Package strict decodes the config of a builtin: JSON in which every member must be known and of
// the right type. It reports everything that is wrong at once, by the members' names. It knows
// nothing of what values mean.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/plugins/handler/nearest"
)

// Fields are the members that a mapping may have, and where their values go: a *string (which must
// not be empty), a *time.Duration (a string such as "10s"), a *bool, a *[]string, a
// *map[string]string, a *json.RawMessage (anything, as it is), or Fields for a mapping inside. An
// Instead is no member.
type Fields map[string]any

// Instead says what to write instead of a name that people look for.
type Instead string

// maxProblems is how many mistakes are listed; further ones are counted.
const maxProblems = 20

// Decode decodes config into fields. A member that is absent or null leaves its field as it is. The
// error lists what is wrong, one line each, and never contains a value.
func Decode(config json.RawMessage, fields Fields) error {
	if len(bytes.TrimSpace(config)) == 0 {
		return nil
	}
	var problems []error
	decodeFields(config, "", fields, func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(format, args...))
	})
	if len(problems) == 0 {
		return nil
	}
	mistaken := namesIn(errors.Join(problems...).Error(), fields)
	if beyond := len(problems) - maxProblems; beyond > 0 {
		problems = append(problems[:maxProblems], fmt.Errorf("and %d more mistakes", beyond))
	}
	return &failure{problems, mistaken}
}

// failure is what is wrong with a config.
type failure struct {
	problems []error
	mistaken []string // the members that the problems mention
}

func (f *failure) Error() string   { return errors.Join(f.problems...).Error() }
func (f *failure) Unwrap() []error { return f.problems }

// Join adds to an error of Decode, or nil, what is wrong with the values. It leaves out what
// mentions a member that the error mentions too: that would often follow from it.
func Join(decoding error, values ...error) error {
	f, isFailure := decoding.(*failure)
	if !isFailure {
		return errors.Join(values...)
	}
	problems := slices.Clone(f.problems)
	for _, err := range values {
		if err != nil && !slices.ContainsFunc(f.mistaken, func(name string) bool {
			return slices.Contains(word.FindAllString(err.Error(), -1), name)
		}) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

var (
	word   = regexp.MustCompile(`\w+`)
	listed = regexp.MustCompile(`(?m) \(known: .*\)$`) // what unknown appends
)

// namesIn returns the members that a report mentions, apart from lists of what is known. A config
// that is no mapping is about all of them.
func namesIn(report string, fields Fields) (names []string) {
	said := word.FindAllString(listed.ReplaceAllString(report, ""), -1)
	for name := range fields {
		if slices.Contains(said, name) || strings.HasPrefix(report, "config: ") {
			names = append(names, name)
		}
	}
	return names
}

type report func(format string, args ...any)

func decodeFields(raw json.RawMessage, path string, fields Fields, fail report) {
	members, ok := decodeAs[map[string]json.RawMessage](raw, path, "a mapping", fail)
	if !ok {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		member := join(path, name)
		switch field := fields[name].(type) {
		case nil:
			fail("%s", unknown(path, name, fields))
		case Instead:
			fail("unknown field %q; %s", member, field)
		case Fields:
			decodeFields(members[name], member, field, fail)
		case *string:
			if s, ok := decodeAs[string](members[name], member, "a string", fail); ok {
				if *field = s; s == "" {
					fail("%s: must not be empty", member)
				}
			}
		case *bool:
			if b, ok := decodeAs[bool](members[name], member, "true or false", fail); ok {
				*field = b
			}
		case *json.RawMessage:
			if !isNull(members[name]) {
				*field = members[name]
			}
		case *time.Duration:
			s, ok := decodeAs[string](members[name], member, `a duration such as "10s"`, fail)
			if ok {
				d, err := time.ParseDuration(s)
				if *field = d; err != nil {
					fail(`%s: must be a duration such as "10s" or "1m30s"`, member)
				}
			}
		case *[]string:
			list := members[name]
			items, _ := decodeAs[[]json.RawMessage](list, member, "a list of strings", fail)
			for i, item := range items {
				// Each one is decoded by itself, even null, so that a mistake has its place.
				s, ok := decodeAs[string](item, fmt.Sprintf("%s[%d]", member, i), "a string", fail)
				if !ok && isNull(item) {
					fail("%s[%d]: must be a string, not null", member, i)
				}
				*field = append(*field, s)
			}
		case *map[string]string:
			mapping := members[name]
			values, _ := decodeAs[map[string]json.RawMessage](
				mapping, member, "a mapping of strings", fail)
			*field = make(map[string]string, len(values))
			for _, key := range slices.Sorted(maps.Keys(values)) {
				s, ok := decodeAs[string](values[key], join(member, key), "a string", fail)
				if !ok && isNull(values[key]) {
					fail("%s: must be a string, not null", join(member, key))
				}
				(*field)[key] = s
			}
		default:
			fail("%s: the field's type %T is not supported", member, field)
		}
	}
}

// decodeAs decodes raw as a T. ok is false for null and for anything that is not a T; for the
// latter it calls fail.
func decodeAs[T any](raw json.RawMessage, path, want string, fail report) (value T, ok bool) {
	if isNull(raw) {
		return value, false
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		if path == "" {
			path = "config"
		}
		what := kind(raw)
		if what == "a number" && want == "a string" {
			what += " (put it in quotes)"
		}
		fail("%s: must be %s, not %s", path, want, what)
		return value, false
	}
	return value, true
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// kind returns the name of a JSON value's type.
func kind(raw json.RawMessage) string {
	if !json.Valid(raw) {
		return "something that is not JSON"
	}
	switch bytes.TrimSpace(raw)[0] {
	case '{':
		return "a mapping"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func join(path, name string) string {
	if path == "" {
		return shorten(name)
	}
	return path + "." + shorten(name)
}

// shorten bounds a name from the config, so that the report stays bounded.
func shorten(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}

func unknown(path, name string, fields Fields) string {
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), func(name string) bool {
		_, isInstead := fields[name].(Instead)
		return isInstead
	})
	message := fmt.Sprintf("unknown field %q", shorten(name))
	if path != "" {
		message = fmt.Sprintf("%s: %s", path, message)
	}
	if near := nearest.Name(name, known); near != "" {
		message += fmt.Sprintf(", did you mean %q?", near)
	}
	return message + " (known: " + strings.Join(known, ", ") + ")"
}
