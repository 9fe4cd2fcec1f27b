package config

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Extent is where a list and its key stand in a file, for who rewrites it. All numbers are bytes.
type Extent struct {
	Key        int  // where the key begins
	Start, End int  // of the list
	Indent     int  // how far the key stands from the start of its line
	IsFlow     bool // the list is written within [ and ]
	InFlow     bool // the mapping around it is written within { and }
}

// extent returns where a list and its key stand.
func (r *reader) extent(list, key, parent *yaml.Node) Extent {
	e := Extent{
		Key: r.offset(key), Start: r.offset(list), IsFlow: list.Style&yaml.FlowStyle != 0,
		InFlow: parent.Style&yaml.FlowStyle != 0,
	}
	line, _ := r.file.bounds(r.file.line(e.Key))
	e.Indent = e.Key - line
	if e.IsFlow {
		e.End = endOfFlow(r.file.text, e.Start)
	} else {
		e.End = r.file.endOfBlock(e.Start, e.Start, true)
	}
	return e
}

// written returns an element of the list as the file has it, with a comment behind it. It returns ""
// if that text would mean something else in another place: it has several lines, and not the usual
// indentation.
func (r *reader) written(item *yaml.Node, list Extent) string {
	start, text := r.offset(item), r.file.text
	if list.IsFlow {
		if text[start] != '{' { // a: b
			return ""
		}
		source := text[start:endOfFlow(text, start)]
		if strings.ContainsAny(source, "\r\n") {
			return ""
		}
		return source
	}
	source := text[start:r.file.endOfBlock(start, list.Start, false)]
	dash, _ := r.file.bounds(r.file.line(list.Start))
	line, _ := r.file.bounds(r.file.line(start))
	isUsual := start-line == list.Start-dash+len("- ") && text[start-len("- "):start] == "- "
	if strings.ContainsAny(source, "\r\n") && !isUsual {
		return ""
	}
	return source
}

// endOfFlow returns the offset behind the bracket that closes the one at start. The parser has
// accepted the text.
func endOfFlow(text string, start int) int {
	depth, inPlain := 0, false // in a scalar without quotes, where a quote is a character
	for i := start; i < len(text); i++ {
		switch b := text[i]; {
		case isBlank(b) || isBreak(b):
		case b == '[' || b == '{':
			depth++
			inPlain = false
		case b == ']' || b == '}':
			if depth--; depth == 0 {
				return i + 1
			}
			inPlain = false
		case b == ',', b == ':' && i+1 < len(text) &&
			strings.IndexByte(" \t\r\n,[]{}", text[i+1]) >= 0:
			inPlain = false
		case b == '#' && (isBlank(text[i-1]) || isBreak(text[i-1])):
			for i+1 < len(text) && !isBreak(text[i+1]) {
				i++
			}
		case (b == '"' || b == '\'') && !inPlain:
			i = endOfQuoted(text, i)
		default:
			inPlain = true
		}
	}
	return len(text)
}

// endOfQuoted returns the offset of the quote that closes the one at start.
func endOfQuoted(text string, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch {
		case text[start] == '"' && text[i] == '\\':
			i++
		case text[i] == text[start] && strings.HasPrefix(text[i+1:], "'") && text[i] == '\'':
			i++
		case text[i] == text[start]:
			return i
		}
	}
	return len(text) - 1
}

// endOfBlock returns where the last line of a block list ends that begins at start, or of one of its
// elements. The first dash of the list is at dash. It counts the lines of all elements from there on
// if all is set.
func (f *file) endOfBlock(start, dash int, all bool) int {
	lineStart, _ := f.bounds(f.line(dash))
	indent := dash - lineStart
	first := f.line(start)
	_, end := f.bounds(first)
	for line := first + 1; line < len(f.lines); line++ {
		from, to := f.bounds(line)
		text := f.text[from:to]
		content := strings.TrimLeft(text, " \t")
		switch depth := len(text) - len(content); {
		case content == "", depth <= indent && content[0] == '#':
			// it belongs to the list if something follows
		case depth > indent, all && depth == indent && isMarker(content, "-"):
			end = to
		default:
			return end
		}
	}
	return end
}
