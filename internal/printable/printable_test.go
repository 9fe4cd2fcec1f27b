package printable

import "testing"

func TestLine(t *testing.T) {
	for _, test := range []struct {
		why, in string
		max     int
		want    string
	}{
		{"plain", "not found", 20, "not found"},
		{"line breaks", "a\nb\r\nc", 20, "a b  c"},
		{"escapes of a terminal", "\x1b[31mred\x1b[0m", 20, "[31mred [0m"},
		{"direction of writing", "a\u202eb\u2028c", 20, "a b c"},
		{"invalid UTF-8", "a\xffb", 20, "ab"},
		{"white space around it", " \n a\t", 20, "a"},
		{"longer", "abcdef", 3, "abc…"},
		{"cut within a character", "aäb", 2, "a…"},
		{"no room", "ä", 0, "…"},
		{"nothing", "", 0, ""},
	} {
		if got := Line(test.in, test.max); got != test.want {
			t.Errorf("%s: %q, want %q", test.why, got, test.want)
		}
	}
}
