package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

var texts = []string{
	`{"a":{"b":[1,-2.5e3,"\u00e9\n\ud83d\ude00",true,false,null,{}]},"a\"b":1,"n":1e400,"i":-9223372036854775809}`,
	" {\r\n\t\"a\" : [ ] , \"b\" : [ 1 , 2 ] , \"c\" : { } , \"d\" : { \"e\" : \"f\" } } ",
	`"\ud800\udc00 \ud800 \udc00 \ud800\u0041 \"\\\/\b\f\n\r\t"`, "\"a\xffb\xe2\x82\"", "\"\u20ac\u00e9 12345678\U0001f600\"",
	`[0,-0,0.0,-0.5E+1,10,1e-400]`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `[1}`, `{"a"}`, `{"a":}`, `01`, `-`, `1.`, `1e`, `+1`, `.5`, `nul`, `nulL`, `truee`,
	`"\x"`, `"\u12g4"`, "\"\x1f\"", "\"12345678\n\"", "\u00a0", "\ufeff{}", `[[[[]]]]`, `]`, `}`, `:`, ``, ` `, `""`, `{"":""}`, `"a" "b"`,
	strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat(`{"a":[`, 130) + strings.Repeat("]}", 130),
}

// FuzzScan compares Skip and the steps with encoding/json. They must accept the same texts. A
// recording must be the compact text in UTF-8, with the same meaning. A text cut short must fail
// with io.ErrUnexpectedEOF.
func FuzzScan(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		valid := json.Valid(text)
		delimited := append(bytes.Clone(text), ' ') // without it a number might go on
		s := New(delimited)
		s.Record()
		raw, err := s.Skip()
		recorded := bytes.Clone(s.Recorded())
		if err == nil {
			err = s.End()
		}
		if (err == nil) != valid {
			t.Fatalf("%q: error %v, valid: %v", text, err, valid)
		}
		if bytes.Count(text, []byte("[")) > 5000 {
			return // step recurses below
		}
		stepped := New(delimited)
		stepped.Record()
		steppedErr := step(&stepped)
		if steppedErr == nil {
			steppedErr = stepped.End()
		}
		if (steppedErr == nil) != valid {
			t.Fatalf("%q: step by step error %v, valid: %v", text, steppedErr, valid)
		}
		if !valid {
			if offset, want := syntaxOffset(err), syntaxOffset(steppedErr); offset != want {
				t.Fatalf("%q: %v, but step by step %v", text, err, steppedErr)
			}
			return
		}
		if !bytes.Equal(stepped.Recorded(), recorded) || stepped.Deepest() != s.Deepest() || stepped.OutOfRange() != s.OutOfRange() {
			t.Fatalf("%q: recorded %q, but step by step %q", text, recorded, stepped.Recorded())
		}
		if !bytes.Equal(raw, bytes.Trim(text, " \t\r\n")) {
			t.Fatalf("%q is returned as %q", text, raw)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, text); err != nil {
			t.Fatal(err)
		}
		if want := string([]rune(want.String())); want != string(recorded) {
			t.Fatalf("%q: recorded %q, want %q", text, recorded, want)
		}
		value := bytes.TrimRight(text, " \t\r\n")
		for n := range value {
			cut := New(value[:n])
			if _, err := cut.Skip(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%q cut short: error %v", value[:n], err)
			}
			if n > 1000 {
				break
			}
		}
	})
}

func TestErrorsSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		`{"a" 1}`:           `invalid character '1' after an object's key at offset 5`,
		`{"a":1 "b"`:        `invalid character '"' after an object's value at offset 7`,
		`{"a":1,}`:          `invalid character '}' where an object's key should begin at offset 7`,
		`[1 2]`:             `invalid character '2' after a list's value at offset 3`,
		`[1,]`:              `invalid character ']' where a value should begin at offset 3`,
		`[01]`:              `invalid character '1' after a list's value at offset 2`,
		`[-a]`:              `invalid character 'a' in a number at offset 2`,
		`[trua]`:            `invalid character 'a' in true at offset 4`,
		"[\"a\nb\"]":        `invalid character '\n' in a string at offset 3`,
		`["\x"]`:            `invalid character 'x' in an escape sequence at offset 3`,
		`["\u00g0"]`:        `invalid character 'g' in \u at offset 6`,
		`["long enough\`:    `unexpected EOF`,
		`["long enough\u12`: `unexpected EOF`,
		`12`:                `unexpected EOF`,
	} {
		s := New([]byte(text))
		if raw, err := s.Skip(); err == nil || err.Error() != want || raw != nil {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
	s := New([]byte(`{} x`))
	if err := s.OpenList(); err == nil || err.Error() != "invalid character '{' where a list should begin at offset 0" {
		t.Error(err)
	}
	if _, err := s.String(); err == nil || err.Error() != "invalid character '{' where a string should begin at offset 0" {
		t.Error(err)
	}
	if _, err := s.Skip(); err != nil {
		t.Error(err)
	}
	if err := s.End(); err == nil || err.Error() != "invalid character 'x' after the value at offset 3" {
		t.Error(err)
	}
}

// Skip needs no stack for a text's depth.
func TestSkipAnyDepth(t *testing.T) {
	const depth = 5_000_000
	text := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
	s := New(text)
	if raw, err := s.Skip(); err != nil || len(raw) != len(text) || s.Deepest() != depth {
		t.Errorf("%d bytes, %d deep: %v", len(raw), s.Deepest(), err)
	}
	s.Reset(text[:depth])
	if _, err := s.Skip(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// A reader that gets a list in pieces begins the current item again when more of the text has
// arrived.
func TestItemsAsTheyArrive(t *testing.T) {
	text := []byte(`[ {"a":1}, "b" ,12 ]`)
	var items []string
	var s Scanner
	start, have := 0, 0
	retry := func(read func() error) {
		for {
			s.Reset(text[start:have])
			err := read()
			if err == nil {
				start += s.Pos()
				return
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) || have == len(text) {
				t.Fatal(err)
			}
			have++
		}
	}
	retry(s.OpenList)
	for more, first := true, true; more; first = false {
		var item []byte
		retry(func() (err error) {
			if more, err = s.NextItem(first); err == nil && more {
				item, err = s.Skip()
			}
			return err
		})
		if more {
			items = append(items, string(item))
		}
	}
	if got, want := strings.Join(items, "|"), `{"a":1}|"b"|12`; got != want {
		t.Errorf("items %s, want %s", got, want)
	}
}

// step reads a value with the steps of a Scanner.
func step(s *Scanner) error {
	kind, err := s.Kind()
	if err != nil {
		return err
	}
	switch kind {
	case '{':
		if err := s.OpenObject(); err != nil {
			return err
		}
		for first := true; ; first = false {
			_, more, err := s.NextKey(first)
			if err != nil || !more {
				return err
			}
			if err := step(s); err != nil {
				return err
			}
		}
	case '[':
		if err := s.OpenList(); err != nil {
			return err
		}
		for first := true; ; first = false {
			more, err := s.NextItem(first)
			if err != nil || !more {
				return err
			}
			if err := step(s); err != nil {
				return err
			}
		}
	case '"':
		if len(s.text)%2 == 0 {
			_, err := s.String()
			return err
		}
	}
	_, err = s.Skip()
	return err
}

func syntaxOffset(err error) int {
	var e *SyntaxError
	if errors.As(err, &e) {
		return e.Offset
	}
	return -1
}

func FuzzUnquote(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := New(text)
		quoted, err := s.String()
		if err != nil {
			return
		}
		var want string
		if err := json.Unmarshal(quoted, &want); err != nil {
			t.Fatal(err)
		}
		if got := Unquote(quoted); got != want {
			t.Fatalf("%q means %q, want %q", quoted, got, want)
		}
		if s.Plain() && want != string(quoted[1:len(quoted)-1]) {
			t.Fatalf("the scanner reports %q as plain", quoted)
		}
	})
}
