package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/informd/informd/plugins/handler/nearest"
)

// suggest names the candidate that the author probably meant, as "; did you mean x?", or returns
// "".
func suggest(name string, candidates []string) string {
	slices.Sort(candidates)
	best := nearest.Name(name, candidates)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// clip shortens a name for a message.
func clip(name string) string {
	if len(name) > 64 {
		return strings.ToValidUTF8(name[:64], "") + "…"
	}
	return name
}
