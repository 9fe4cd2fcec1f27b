package value

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// len, indexOf and slices all count strings in characters.
var textFunctions = map[string]Function{
	"string":      {Min: 1, Max: 1, Call: toStringFunction},
	"upper":       {Min: 1, Max: 1, Call: changeCase("upper", strings.ToUpper)},
	"lower":       {Min: 1, Max: 1, Call: changeCase("lower", strings.ToLower)},
	"trim":        {Min: 1, Max: 2, Call: trim("trim", strings.Trim, strings.TrimSpace)},
	"trimPrefix":  {Min: 1, Max: 2, Call: trim("trimPrefix", strings.TrimPrefix, nil)},
	"trimSuffix":  {Min: 1, Max: 2, Call: trim("trimSuffix", strings.TrimSuffix, nil)},
	"hasPrefix":   {Min: 2, Max: 2, takesNil: true, Call: asOperator("startsWith")},
	"hasSuffix":   {Min: 2, Max: 2, takesNil: true, Call: asOperator("endsWith")},
	"indexOf":     {Min: 2, Max: 2, Call: search("indexOf", strings.Index)},
	"lastIndexOf": {Min: 2, Max: 2, Call: search("lastIndexOf", strings.LastIndex)},
	"split":       {Min: 2, Max: 3, Call: split("split", strings.SplitN)},
	"splitAfter":  {Min: 2, Max: 3, Call: split("splitAfter", strings.SplitAfterN)},
	"replace":     {Min: 3, Max: 4, Call: replace},
	"repeat":      {Min: 2, Max: 2, Call: repeat},
	"join":        {Min: 1, Max: 2, Call: join},
	"toBase64":    {Min: 1, Max: 1, Call: toBase64},
	"fromBase64":  {Min: 1, Max: 1, Call: fromBase64},
	"toJSON":      {Min: 1, Max: 1, Call: toJSON},
	"fromJSON":    {Min: 1, Max: 1, Call: fromJSON},
}

func toStringFunction(m *Meter, args []any) (any, error) { return m.Text("string", args[0]) }

// stringArgs returns the first n arguments as strings.
func stringArgs(name string, args []any, n int) (out [3]string, err error) {
	for i, arg := range args[:n] {
		s, ok := arg.(string)
		if !ok {
			return out, WrongArgument(name, arg)
		}
		out[i] = s
	}
	return out, nil
}

// intArg returns a number, bounded to one more than anything here can count, so that too much stays
// too much.
func intArg(name string, v any) (int, error) {
	i, ok := whole(v)
	if !ok {
		return 0, WrongArgument(name, v)
	}
	return int(min(max(i, -MaxMemory-1), MaxMemory+1)), nil
}

// Count returns an argument of a function as a number of elements.
func Count(function string, v any) (int, error) { return intArg(function, v) }

// Text returns a scalar as text. It must not be nil.
func (m *Meter) Text(name string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	if err := m.Alloc(maxReadable); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case time.Time:
		if y := v.UTC().Year(); y < 0 || y > 9999 {
			return "", Errorf("a time is out of range")
		}
		return v.UTC().Format(time.RFC3339Nano), nil
	case time.Duration:
		return v.String(), nil
	case *quantity:
		return v.String(), nil
	}
	return "", WrongArgument(name, v)
}

func changeCase(name string, change func(string) string) func(*Meter, []any) (any, error) {
	return func(m *Meter, args []any) (any, error) {
		s, err := stringArgs(name, args, 1)
		if err != nil {
			return nil, err
		}
		// a few letters change their length, and bytes that are not UTF-8 become U+FFFD
		if err := m.Alloc(3 * len(s[0])); err != nil {
			return nil, err
		}
		return change(s[0]), m.Scan(len(s[0]))
	}
}

func trim(
	name string, cut func(s, what string) string, cutSpace func(string) string,
) func(*Meter, []any) (any, error) {
	return func(m *Meter, args []any) (any, error) {
		s, err := stringArgs(name, args, len(args))
		if err != nil {
			return nil, err
		}
		if err := m.Scan(len(s[0]) + len(s[1])); err != nil {
			return nil, err
		}
		switch {
		case len(args) == 2:
			if cutSpace != nil { // Trim searches the whole set for each letter
				if err := m.Scan(len(s[0]) * min(len(s[1]), 1024)); err != nil {
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

func asOperator(name string) func(*Meter, []any) (any, error) {
	return func(m *Meter, args []any) (any, error) { return Binary[name](m, args[0], args[1]) }
}

func search(name string, index func(s, substring string) int) func(*Meter, []any) (any, error) {
	return func(m *Meter, args []any) (any, error) {
		s, err := stringArgs(name, args, 2)
		if err != nil {
			return nil, err
		}
		if err := m.Scan(2 * len(s[0])); err != nil {
			return nil, err
		}
		i := index(s[0], s[1])
		if i > 0 {
			i = utf8.RuneCountInString(s[0][:i])
		}
		return int64(i), nil
	}
}

func split(
	name string, splitN func(s, separator string, n int) []string,
) func(*Meter, []any) (any, error) {
	return func(m *Meter, args []any) (any, error) {
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
		if err := m.Scan(2 * len(s[0])); err != nil {
			return nil, err
		}
		parts := strings.Count(s[0], s[1]) + 1
		if n >= 0 {
			parts = min(parts, n)
		}
		if err := m.Scan(16 * parts); err != nil {
			return nil, err
		}
		if err := m.Alloc(parts * 3 * SizeValue); err != nil {
			// the strings, boxed, and the list they come from
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

func replace(m *Meter, args []any) (any, error) {
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
	if err := m.Scan(2 * len(text)); err != nil {
		return nil, err
	}
	times := strings.Count(text, from)
	if n >= 0 {
		times = min(times, n)
	}
	if err := m.Scan(8 * times); err != nil {
		return nil, err
	}
	if err := m.Alloc(len(text) + times*max(len(to)-len(from), 0)); err != nil {
		return nil, err
	}
	return strings.Replace(text, from, to, n), nil
}

func repeat(m *Meter, args []any) (any, error) {
	s, err := stringArgs("repeat", args, 1)
	if err != nil {
		return nil, err
	}
	n, err := intArg("repeat", args[1])
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, Errorf(`"repeat" cannot take a negative number`)
	}
	if err := m.Alloc(len(s[0]) * n); err != nil {
		return nil, err
	}
	return strings.Repeat(s[0], n), nil
}

// join leaves out nils.
func join(m *Meter, args []any) (any, error) {
	list, ok := args[0].([]any)
	if !ok {
		return nil, WrongArgument("join", args[0])
	}
	separator := ""
	if len(args) == 2 {
		if separator, ok = args[1].(string); !ok {
			return nil, WrongArgument("join", args[1])
		}
	}
	if err := m.Scan(16 * len(list)); err != nil {
		return nil, err
	}
	if err := m.AllocList(len(list)); err != nil {
		return nil, err
	}
	parts := make([]string, 0, len(list))
	for _, v := range list {
		switch v := v.(type) {
		case nil:
		case string:
			if err := m.Alloc(len(v) + len(separator)); err != nil {
				return nil, err
			}
			parts = append(parts, v)
		default:
			return nil, Errorf(`"join" cannot take a list with %s in it`, Some(v))
		}
	}
	return strings.Join(parts, separator), nil
}

func toBase64(m *Meter, args []any) (any, error) {
	s, err := stringArgs("toBase64", args, 1)
	if err != nil {
		return nil, err
	}
	if err := m.Alloc(3 * len(s[0])); err != nil {
		return nil, err
	}
	return base64.StdEncoding.EncodeToString([]byte(s[0])), m.Scan(len(s[0]))
}

// fromBase64 gives text. Bytes that are not UTF-8 become U+FFFD in JSON.
func fromBase64(m *Meter, args []any) (any, error) {
	s, err := stringArgs("fromBase64", args, 1)
	if err != nil {
		return nil, err
	}
	if err := m.Alloc(2 * len(s[0])); err != nil {
		return nil, err
	}
	decoded, err := base64.StdEncoding.DecodeString(s[0])
	if err != nil {
		return nil, Errorf(`"fromBase64" cannot parse its argument`)
	}
	return string(decoded), m.Scan(len(s[0]))
}
