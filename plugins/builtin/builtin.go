// Package builtin names the handlers that come with informd. They are ordinary handlers, written
// against plugins/handler like anyone's; informd runs each in a process of its own.
package builtin

import (
	"maps"
	"slices"

	"github.com/informd/informd/plugins/builtin/exec"
	"github.com/informd/informd/plugins/builtin/log"
	"github.com/informd/informd/plugins/builtin/webhook"
	"github.com/informd/informd/plugins/handler"
)

var builtins = map[string]func() handler.Handler{
	"exec":    func() handler.Handler { return exec.New() },
	"log":     func() handler.Handler { return log.New() },
	"webhook": func() handler.Handler { return webhook.New() },
}

// Names lists the builtins, sorted.
func Names() []string { return slices.Sorted(maps.Keys(builtins)) }

// New returns a new handler of the named builtin; false if there is no such builtin.
func New(name string) (handler.Handler, bool) {
	construct, ok := builtins[name]
	if !ok {
		return nil, false
	}
	return construct(), true
}
