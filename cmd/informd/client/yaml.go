package client

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/informd/informd/engine/object/scan"
	"github.com/informd/informd/internal/printable"
)

// yamlWriter writes JSON values as YAML, in the form of kubectl: keys are sorted, lists are not
// indented, and texts of several lines are blocks. It reads a value once for each level that the
// value nests. A YAML library takes many times as long, because it builds trees of every token.
type yamlWriter struct {
	out     []byte
	members []member // of the mappings that are being written, the outermost first
}

// member is a member of a mapping.
type member struct {
	key   string
	value []byte // JSON
}

// item writes a value that begins at a column of so many spaces, where the output ends.
func (w *yamlWriter) item(text []byte, spaces int) error {
	s := scan.New(text)
	kind, err := s.Kind()
	switch {
	case err != nil:
		return err
	case kind == '{' && !isEmpty(&s):
		return w.mapping(text, spaces)
	case kind == '[' && !isEmpty(&s):
		return w.list(text, spaces)
	}
	if err := w.scalar(text, spaces); err != nil {
		return err
	}
	w.out = append(w.out, '\n')
	return nil
}

// isEmpty reports whether the mapping or list at s has nothing in it.
func isEmpty(s *scan.Scanner) bool {
	if s.OpenObject() == nil {
		_, more, err := s.NextKey(true)
		return !more && err == nil
	}
	if s.OpenList() == nil {
		more, err := s.NextItem(true)
		return !more && err == nil
	}
	return false
}

// maxSimpleKey is the most bytes of a key that stand before its value without a mark. YAML allows
// 1024 characters.
const maxSimpleKey = 512

func (w *yamlWriter) mapping(text []byte, spaces int) error {
	base := len(w.members)
	defer func() { w.members = w.members[:base] }()
	if err := w.read(text); err != nil {
		return err
	}
	slices.SortStableFunc(w.members[base:], func(a, b member) int {
		return strings.Compare(a.key, b.key)
	})
	isFirst := true
	for i, end := base, len(w.members); i < end; i++ {
		m := w.members[i]
		if i+1 < end && w.members[i+1].key == m.key {
			continue // the last one counts
		}
		if !isFirst {
			w.indent(spaces)
		}
		isFirst = false
		if err := w.member(m, spaces); err != nil {
			return err
		}
	}
	return nil
}

// read appends the members of a mapping.
func (w *yamlWriter) read(text []byte) error {
	s := scan.New(text)
	if err := s.OpenObject(); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, more, err := s.NextKey(first)
		if err != nil || !more {
			return err
		}
		value, err := s.Skip()
		if err != nil {
			return err
		}
		w.members = append(w.members, member{scan.Unquote(key), value})
	}
}

func (w *yamlWriter) member(m member, spaces int) error {
	if len(m.key) > maxSimpleKey {
		w.out = append(appendQuoted(append(w.out, "? "...), m.key), '\n')
		w.indent(spaces)
		w.out = append(w.out, ": "...)
		return w.item(m.value, spaces+2)
	}
	w.out = append(appendLine(w.out, m.key), ':')
	s := scan.New(m.value)
	kind, err := s.Kind()
	switch {
	case err != nil:
		return err
	case kind == '{' && !isEmpty(&s):
		w.out = append(w.out, '\n')
		w.indent(spaces + 2)
		return w.mapping(m.value, spaces+2)
	case kind == '[' && !isEmpty(&s):
		w.out = append(w.out, '\n')
		w.indent(spaces)
		return w.list(m.value, spaces)
	}
	w.out = append(w.out, ' ')
	if err := w.scalar(m.value, spaces+2); err != nil {
		return err
	}
	w.out = append(w.out, '\n')
	return nil
}

func (w *yamlWriter) list(text []byte, spaces int) error {
	s := scan.New(text)
	if err := s.OpenList(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.NextItem(first)
		if err != nil || !more {
			return err
		}
		value, err := s.Skip()
		if err != nil {
			return err
		}
		if !first {
			w.indent(spaces)
		}
		w.out = append(w.out, "- "...)
		if err := w.item(value, spaces+2); err != nil {
			return err
		}
	}
}

func (w *yamlWriter) indent(spaces int) {
	for range spaces {
		w.out = append(w.out, ' ')
	}
}

// scalar writes a scalar, or what is empty. Further lines of a text are indented by spaces.
func (w *yamlWriter) scalar(text []byte, spaces int) error {
	text = bytes.TrimSpace(text)
	switch text[0] {
	case '"':
		if s := scan.Unquote(text); spaces > 0 && isBlock(s) {
			w.block(s, spaces)
		} else {
			w.out = appendLine(w.out, s)
		}
	case '{':
		w.out = append(w.out, "{}"...)
	case '[':
		w.out = append(w.out, "[]"...)
	case 't', 'f', 'n':
		w.out = append(w.out, text...)
	default:
		if bytes.ContainsAny(text, "eE") { // YAML wants a point or a sign in there
			f, err := strconv.ParseFloat(string(text), 64)
			if err != nil {
				return err
			}
			text = strconv.AppendFloat(nil, f, 'g', -1, 64)
		}
		w.out = append(w.out, text...)
	}
	return nil
}

// isBlock reports whether a text can be a block. Spaces at the end of lines would not be seen, and
// space at its beginning would be taken for indentation.
func isBlock(s string) bool {
	if !strings.Contains(s, "\n") || strings.ContainsAny(s[:1], " \n\t") ||
		strings.Contains(s, " \n") || strings.HasSuffix(s, " ") {
		return false
	}
	for _, r := range s {
		if r != '\n' && r != '\t' && !printable.IsVisible(r) {
			return false
		}
	}
	return true
}

func (w *yamlWriter) block(s string, spaces int) {
	body := strings.TrimRight(s, "\n")
	switch len(s) - len(body) {
	case 0:
		w.out = append(w.out, "|-"...)
	case 1:
		w.out = append(w.out, '|')
	default:
		w.out = append(w.out, "|+"...)
		body = s[:len(s)-1]
	}
	for line := range strings.SplitSeq(body, "\n") {
		w.out = append(w.out, '\n')
		if line != "" {
			w.indent(spaces)
			w.out = append(w.out, line...)
		}
	}
}

// appendLine appends a string as one line.
func appendLine(b []byte, s string) []byte {
	switch {
	case !isString(s) || strings.ContainsFunc(s, func(r rune) bool { return !printable.IsVisible(r) }):
		return appendQuoted(b, s)
	case isPlain(s):
		return append(b, s...)
	}
	b = append(b, '\'')
	b = append(b, strings.ReplaceAll(s, "'", "''")...)
	return append(b, '\'')
}

// isString reports whether YAML reads s as a string if it stands without quotes. It is not sure of
// all numbers and times, and then returns false.
func isString(s string) bool {
	if s == "" {
		return false
	}
	switch c := s[0]; {
	case c >= '0' && c <= '9', c == '+', c == '-', c == '.':
		if strings.ContainsAny(s, ":_") || len(s) > 4 && s[4] == '-' { // a time or a date, perhaps
			return false
		}
		if digits := strings.TrimLeft(s, "+-"); strings.HasPrefix(digits, ".") && digits != "." {
			return false
		}
		_, notFloat := strconv.ParseFloat(s, 64)
		_, notInt := strconv.ParseInt(s, 0, 64)
		return notFloat != nil && notInt != nil
	case c == '~', c == '<', c == '=':
		return false
	}
	return len(s) > len("false") || !reserved[strings.ToLower(s)]
}

// reserved are the words that some version of YAML does not read as strings.
var reserved = map[string]bool{
	"y": true, "yes": true, "n": true, "no": true, "true": true, "false": true, "on": true,
	"off": true, "null": true,
}

// isPlain reports whether a visible s can stand without quotes.
func isPlain(s string) bool {
	if strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...") { // ends a document
		return false
	}
	if len(s) > 1 && s[1] != ' ' && (s[0] == '-' || s[0] == '?' || s[0] == ':') {
		return isPlain("x" + s[1:])
	}
	return !strings.ContainsRune(`-?:,[]{}#&*!|>'"%@`+"`"+` `, rune(s[0])) &&
		!strings.Contains(s, ": ") && !strings.Contains(s, " #") &&
		!strings.HasSuffix(s, ":") && !strings.HasSuffix(s, " ")
}

// appendQuoted appends a string between double quotes.
func appendQuoted(b []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case printable.IsVisible(r):
			b = utf8.AppendRune(b, r)
		default:
			escape, width := byte('x'), 2
			if r > 0xffff {
				escape, width = 'U', 8
			} else if r > 0xff {
				escape, width = 'u', 4
			}
			b = append(b, '\\', escape)
			for shift := 4 * (width - 1); shift >= 0; shift -= 4 {
				b = append(b, digits[r>>shift&15])
			}
		}
	}
	return append(b, '"')
}
