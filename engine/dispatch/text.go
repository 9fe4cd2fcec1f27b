package dispatch

import "strings"

const (
	maxReason = 1024 // bytes of a reason that are kept
	maxLogged = 256  // bytes of a reason that are logged
)

// bounded returns at most limit bytes of s, as valid UTF-8.
func bounded(s string, limit int) string {
	const more = "…"
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit-len(more)], "") + more
	}
	return strings.ToValidUTF8(s, "")
}
