package printable

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// hostile has a character of each kind that a terminal acts on.
const hostile = "a\x1b[31m\x00\x7f\u0085\u009b31m\u061c\u200e\u202e\u2066\u2028\u2029é\u00a0\U0001F600z"

func TestEscape(t *testing.T) {
	const want = `a\u001b[31m\u0000\u007f\u0085\u009b31m\u061c\u200e\u202e\u2066\u2028\u2029é` + "\u00a0\U0001F600z"
	if got := Escape(hostile); got != want {
		t.Errorf("got %q", got)
	}
	if got := Escape("a\n\tb\xff"); got != "a\n\tb\uFFFD" {
		t.Errorf("got %q", got)
	}
}

func TestJSON(t *testing.T) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "\t")
	given := map[string]any{hostile: []any{hostile, 1.0, nil}}
	if err := encoder.Encode(given); err != nil {
		t.Fatal(err)
	}
	got := JSON(text.Bytes())
	for _, r := range string(got) {
		if actsOnTerminal(r) && r != '\n' && r != '\t' {
			t.Errorf("%q is left", r)
		}
	}
	var back map[string]any
	if err := json.Unmarshal(got, &back); err != nil || len(back[hostile].([]any)) != 3 || back[hostile].([]any)[0] != hostile {
		t.Errorf("it says something else: %v, %v", back, err)
	}
	plain := []byte(`{"a":"é\u0007…"}`)
	if got := JSON(plain); &got[0] != &plain[0] {
		t.Error("text without such characters is copied")
	}
}

// However a text is cut into writes, it comes out the same.
func TestWriter(t *testing.T) {
	text := strings.Repeat(hostile, 3) + "\xff\xc2"
	want := string(JSON([]byte(text)))
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := NewWriter(&out)
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			if got, err := w.Write(rest[:n]); got != n || err != nil {
				t.Fatal(got, err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil || out.String() != want {
			t.Fatalf("in parts of %d: %v\n%q, want\n%q", size, err, out.String(), want)
		}
	}
}

// obeyed looks at the first bytes of all characters that it has to find.
func TestFirstBytes(t *testing.T) {
	for r := rune(0x7f); r <= unicode.MaxRune; r++ {
		if actsOnTerminal(r) && obeyed([]byte(string(r))) != 0 {
			t.Errorf("%U is not found", r)
		}
	}
}
