package config

import (
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	yamlPrefix = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	// quotedStart matches a line whose value begins with a quoted string and goes on after it.
	quotedStart = regexp.MustCompile(
		`^[ -]*[A-Za-z0-9_-]+:[ \t]+(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')[ \t]*[^ \t#]`)
	// templateStart matches a line up to a value that begins as a template of Go.
	templateStart = regexp.MustCompile(`^[ -]*[A-Za-z0-9_-]+:[ \t]+\{\{`)
)

// lookAhead is how many characters the parser reads ahead before it decides on a token.
const lookAhead = 4

// syntaxError places an error of the parser. The parser's own line belongs to the context, such as
// the mapping around the error, and may be off by one. So syntaxError parses the document again,
// byte by byte, to see how far the parser gets. It puts an empty line before the document, because
// the parser does not distinguish a first line from none.
func (d part) syntaxError() Mistake {
	r := &byteReader{text: "\n" + d.text()}
	_, err := decodeYAML(r)
	if err == nil { // it was an error the first time
		return d.file.mistake(d.start, "not YAML")
	}
	message := yamlPrefix.ReplaceAllString(err.Error(), "")
	read := strings.TrimPrefix(r.text[:r.pos], "\n")
	// up to the last thing that the parser read
	last := cutRunes(strings.TrimRight(read, " \t\r\n"), 1)
	at, hint := d.start+len(last), ""
	switch {
	case strings.Contains(message, "unexpected end of stream"),
		strings.Contains(message, "unexpected document indicator"):
		// the one error whose context says more
		at, message = d.lastQuote(err), "a quote is not closed"
	case strings.Contains(message, "mapping values are not allowed"):
		at = d.start + len(r.current(read, last))
		hint = " (check the indentation; put a value that contains \": \" in quotes: '…')"
	case strings.Contains(message, "tab character") && strings.Contains(read, "\t"):
		// the last one that the parser read, or the first of several beside each other
		at = d.start + len(strings.TrimRight(read[:strings.LastIndexByte(read, '\t')], "\t"))
		hint = " (indent by spaces)"
	case strings.Contains(message, "cannot start any token"):
		at = d.start + len(r.current(read, last))
		hint = " (put a value that begins like this in quotes, and indent by spaces, not tabs)"
	case strings.Contains(message, "did not find expected key"):
		hint = " (check the indentation)"
		start, end := d.file.bounds(d.file.line(at))
		if at := templateStart.FindStringIndex(d.file.text[start:end]); at != nil {
			begins := start + at[1] - len("{{")
			return d.file.mistake(begins, "not YAML: "+hintForTemplate(d.file.text[begins:]))
		}
		if quoted := quotedStart.FindString(d.file.text[start:end]); quoted != "" {
			at, message = start+len(cutRunes(quoted, 1)), "the value ended with its closing quote"
			hint = "; put the whole of an expression in quotes of the other kind, " +
				"or in a block below |"
		}
	case strings.Contains(message, "expected ',' or") && d.commentBefore(at) >= 0:
		at, message = d.commentBefore(at), "# begins a comment, and the value ends before it"
		hint = "; put the whole value in quotes"
	case strings.Contains(message, "expected ',' or"):
		hint = " (within { } and [ ], put a value that contains , ? { } [ ] in quotes: '…')"
	}
	return d.file.mistake(at, "not YAML: "+message+hint)
}

// cutting matches a comment without a space behind its #, which its author may have meant as text.
var cutting = regexp.MustCompile(`[{\[,].*[ \t](#[^\s#])`)

// commentBefore returns the offset of such a comment on the line of another offset, or -1.
func (d part) commentBefore(at int) int {
	start, end := d.file.bounds(d.file.line(at))
	m := cutting.FindStringSubmatchIndex(d.file.text[start:end])
	if m == nil {
		return -1
	}
	return start + m[2]
}

// lastQuote returns the offset of the last quote on the line that err names.
func (d part) lastQuote(err error) int {
	line := 0
	if m := yamlPrefix.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
	}
	line = d.file.line(d.start) + max(0, line-2) // from 0, without the empty line
	start, end := d.file.bounds(min(line, len(d.file.lines)-1))
	return start + max(0, strings.LastIndexAny(d.file.text[start:end], `"'`))
}

// cutRunes returns s without its last n characters.
func cutRunes(s string, n int) string {
	for range n {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

// byteReader returns a text byte by byte.
type byteReader struct {
	text  string
	pos   int
	ended bool // somebody read its end
}

func (r *byteReader) Read(p []byte) (int, error) {
	if r.pos == len(r.text) {
		r.ended = true
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	p[0] = r.text[r.pos]
	r.pos++
	return 1, nil
}

// current returns the part of read before the parser's current token, or last if the parser had no
// more text to read ahead.
func (r *byteReader) current(read, last string) string {
	if r.ended {
		return last
	}
	return cutRunes(read, lookAhead)
}
