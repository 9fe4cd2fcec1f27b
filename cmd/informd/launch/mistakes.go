package launch

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/informd/informd/config"
	"github.com/informd/informd/plugins/host"
)

// MistakesOf returns why a handler cannot be used: what it refuses of its config where that stands.
func MistakesOf(h config.Handler, err error) (all config.Mistakes) {
	refused, ok := errors.AsType[*host.RefusedError](err)
	if !ok || len(refused.Problems) == 0 || h.ConfigAt.Find("").IsZero() {
		return config.Mistakes{h.At.Mistake(0, err.Error())}
	}
	for _, p := range refused.Problems {
		path, message := strings.Join(p.Path, "."), p.Message
		if path != "" {
			message = path + ": " + message
		} else if m := placed.FindStringSubmatch(message); m != nil {
			path = strings.TrimPrefix(m[1]+"."+m[2], ".")
		}
		all = append(all, h.ConfigAt.Find(path).Mistake(0,
			fmt.Sprintf("handler %q refuses its config: %s", h.Name, message)))
	}
	return all
}

// placed matches the beginning of a message about a config that says what it is about, as those of
// the builtins do: the path of a field, and perhaps the name of an unknown one in it.
var placed = regexp.MustCompile(`^(?:([\w.\[\]-]+): )?(?:unknown field "([^"]+)")?`)
