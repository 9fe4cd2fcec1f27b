package expr

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Strings are counted in characters, by len, indexOf and slices alike.
var textFunctions = map[string]function{
	"string":      {min: 1, max: 1, call: func(r *run, args []any) (any, error) { return boxedText(r.text("string", args[0])) }},
	"upper":       {min: 1, max: 1, call: changeCase("upper", strings.ToUpper)},
	"lower":       {min: 1, max: 1, call: changeCase("lower", strings.ToLower)},
	"trim":        {min: 1, max: 2, call: trim("trim", strings.Trim, strings.TrimSpace)},
	"trimPrefix":  {min: 1, max: 2, call: trim("trimPrefix", strings.TrimPrefix, nil)},
	"trimSuffix":  {min: 1, max: 2, call: trim("trimSuffix", strings.TrimSuffix, nil)},
	"hasPrefix":   {min: 2, max: 2, takesNil: true, call: asOperator("startsWith")},
	"hasSuffix":   {min: 2, max: 2, takesNil: true, call: asOperator("endsWith")},
	"indexOf":     {min: 2, max: 2, call: search("indexOf", strings.Index)},
	"lastIndexOf": {min: 2, max: 2, call: search("lastIndexOf", strings.LastIndex)},
	"split":       {min: 2, max: 3, call: split("split", strings.SplitN)},
	"splitAfter":  {min: 2, max: 3, call: split("splitAfter", strings.SplitAfterN)},
	"replace":     {min: 3, max: 4, call: replace},
	"repeat":      {min: 2, max: 2, call: repeat},
	"join":        {min: 1, max: 2, call: join},
	"toBase64":    {min: 1, max: 1, call: toBase64},
	"fromBase64":  {min: 1, max: 1, call: fromBase64},
	"toJSON":      {min: 1, max: 1, call: toJSON},
	"fromJSON":    {min: 1, max: 1, call: fromJSON},
}

// stringArgs is the first n arguments as strings.
func stringArgs(name string, args []any, n int) (out [3]string, err error) {
	for i, arg := range args[:n] {
		s, ok := arg.(string)
		if !ok {
			return out, wrongArgument(name, arg)
		}
		out[i] = s
	}
	return out, nil
}

// intArg bounds a number to one more than anything here can count, so that what is too much stays too much.
func intArg(name string, v any) (int, error) {
	i, ok := whole(v)
	if !ok {
		return 0, wrongArgument(name, v)
	}
	return int(min(max(i, -MaxMemory-1), MaxMemory+1)), nil
}

func boxedText(s string, err error) (any, error) { return s, err }

// text renders a scalar that is not nil.
func (r *run) text(name string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	if err := r.alloc(maxReadable); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case time.Time:
		if y := v.UTC().Year(); y < 0 || y > 9999 {
			return "", failf("a time is out of range")
		}
		return v.UTC().Format(time.RFC3339Nano), nil
	case time.Duration:
		return v.String(), nil
	case *quantity:
		return v.String(), nil
	}
	return "", wrongArgument(name, v)
}

func changeCase(name string, change func(string) string) func(*run, []any) (any, error) {
	return func(r *run, args []any) (any, error) {
		s, err := stringArgs(name, args, 1)
		if err != nil {
			return nil, err
		}
		if err := r.alloc(2 * len(s[0])); err != nil { // a few letters change their length
			return nil, err
		}
		return change(s[0]), r.scan(len(s[0]))
	}
}

func trim(name string, cut func(s, what string) string, cutSpace func(string) string) func(*run, []any) (any, error) {
	return func(r *run, args []any) (any, error) {
		s, err := stringArgs(name, args, len(args))
		if err != nil {
			return nil, err
		}
		if err := r.scan(len(s[0]) + len(s[1])); err != nil {
			return nil, err
		}
		switch {
		case len(args) == 2:
			if cutSpace != nil { // Trim looks through the whole set for each letter
				if err := r.scan(len(s[0]) * min(len(s[1]), 1024)); err != nil {
					return nil, err
				}
			}
			return cut(s[0], s[1]), nil
		case cutSpace != nil:
			return cutSpace(s[0]), nil
		}
		return cut(s[0], " "), nil
	}
}

func asOperator(name string) func(*run, []any) (any, error) {
	return func(r *run, args []any) (any, error) { return binaries[name](r, args[0], args[1]) }
}

func search(name string, index func(s, substring string) int) func(*run, []any) (any, error) {
	return func(r *run, args []any) (any, error) {
		s, err := stringArgs(name, args, 2)
		if err != nil {
			return nil, err
		}
		if err := r.scan(2 * len(s[0])); err != nil {
			return nil, err
		}
		i := index(s[0], s[1])
		if i > 0 {
			i = utf8.RuneCountInString(s[0][:i])
		}
		return int64(i), nil
	}
}

func split(name string, splitN func(s, separator string, n int) []string) func(*run, []any) (any, error) {
	return func(r *run, args []any) (any, error) {
		s, err := stringArgs(name, args, 2)
		if err != nil {
			return nil, err
		}
		n := -1
		if len(args) == 3 {
			if n, err = intArg(name, args[2]); err != nil {
				return nil, err
			}
		}
		if err := r.scan(2 * len(s[0])); err != nil {
			return nil, err
		}
		parts := strings.Count(s[0], s[1]) + 1
		if n >= 0 {
			parts = min(parts, n)
		}
		if err := r.scan(16 * parts); err != nil {
			return nil, err
		}
		if err := r.alloc(parts * 3 * sizeValue); err != nil { // the strings, boxed, and the list that is boxed from
			return nil, err
		}
		return boxStrings(splitN(s[0], s[1], n)), nil
	}
}

func boxStrings(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

func replace(r *run, args []any) (any, error) {
	s, err := stringArgs("replace", args, 3)
	if err != nil {
		return nil, err
	}
	n := -1
	if len(args) == 4 {
		if n, err = intArg("replace", args[3]); err != nil {
			return nil, err
		}
	}
	text, from, to := s[0], s[1], s[2]
	if err := r.scan(2 * len(text)); err != nil {
		return nil, err
	}
	times := strings.Count(text, from)
	if n >= 0 {
		times = min(times, n)
	}
	if err := r.scan(8 * times); err != nil {
		return nil, err
	}
	if err := r.alloc(len(text) + times*max(len(to)-len(from), 0)); err != nil {
		return nil, err
	}
	return strings.Replace(text, from, to, n), nil
}

func repeat(r *run, args []any) (any, error) {
	s, err := stringArgs("repeat", args, 1)
	if err != nil {
		return nil, err
	}
	n, err := intArg("repeat", args[1])
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, failf(`"repeat" cannot take a negative number`)
	}
	if err := r.alloc(len(s[0]) * n); err != nil {
		return nil, err
	}
	return strings.Repeat(s[0], n), nil
}

// join leaves nils out.
func join(r *run, args []any) (any, error) {
	list, ok := args[0].([]any)
	if !ok {
		return nil, wrongArgument("join", args[0])
	}
	separator := ""
	if len(args) == 2 {
		if separator, ok = args[1].(string); !ok {
			return nil, wrongArgument("join", args[1])
		}
	}
	if err := r.scan(16 * len(list)); err != nil {
		return nil, err
	}
	if err := r.allocList(len(list)); err != nil {
		return nil, err
	}
	parts := make([]string, 0, len(list))
	for _, v := range list {
		switch v := v.(type) {
		case nil:
		case string:
			if err := r.alloc(len(v) + len(separator)); err != nil {
				return nil, err
			}
			parts = append(parts, v)
		default:
			return nil, failf(`"join" cannot take a list with %s in it`, some(v))
		}
	}
	return strings.Join(parts, separator), nil
}

func toBase64(r *run, args []any) (any, error) {
	s, err := stringArgs("toBase64", args, 1)
	if err != nil {
		return nil, err
	}
	if err := r.alloc(3 * len(s[0])); err != nil {
		return nil, err
	}
	return base64.StdEncoding.EncodeToString([]byte(s[0])), r.scan(len(s[0]))
}

// fromBase64 gives text: what is not UTF-8 inside becomes U+FFFD when it is encoded as JSON.
func fromBase64(r *run, args []any) (any, error) {
	s, err := stringArgs("fromBase64", args, 1)
	if err != nil {
		return nil, err
	}
	if err := r.alloc(2 * len(s[0])); err != nil {
		return nil, err
	}
	decoded, err := base64.StdEncoding.DecodeString(s[0])
	if err != nil {
		return nil, failf(`"fromBase64" cannot parse its argument`)
	}
	return string(decoded), r.scan(len(s[0]))
}
