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

// Skip and the steps agree with encoding/json on what is JSON; a recording is the compact text in UTF-8, and what it
// means; of a text cut short nothing is read.
func FuzzScan(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		valid := json.Valid(text)
		delimited := append(bytes.Clone(text), ' ') // a number might go on
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
			return // the steps below recurse
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

// step reads a value by the Scanner's steps.
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
			t.Fatalf("%q is said to be plain", quoted)
		}
	})
}
