package object

import (
	"regexp"
	"strconv"
	"strings"
)

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// PathText returns a path of a Paths in the form of an expression, without "object.".
func PathText(path []string) string {
	var b strings.Builder
	for i, key := range path {
		switch {
		case key == "" && i == len(path)-1:
			// a program asks whether the field exists, or how many elements it has
			b.WriteString(" (its presence)")
		case key == Each:
			b.WriteString("[]")
		case !plainKey.MatchString(key):
			b.WriteString("[" + strconv.Quote(key) + "]")
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(key)
		}
	}
	return b.String()
}
