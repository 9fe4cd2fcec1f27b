package delivery

import (
	"strings"

	"github.com/informd/informd/plugins/handler"
)

// Former is a name that a rule had before it was renamed. Deliveries that waited then keep the ids
// that they had, which begin with that name.
type Former struct {
	Rule string
	// Last and Redriven are the highest numbers of deliveries that have ids with this name: see
	// Numbers in package queue.
	Last, Redriven uint64
}

// NameAt returns the name that begins the id of the delivery with a number. It is now if no former
// name does. former has the oldest name first.
func NameAt(former []Former, n uint64, isRedriven bool, now string) string {
	for _, f := range former {
		if n <= f.Last && !isRedriven || n <= f.Redriven && isRedriven {
			return f.Rule
		}
	}
	return now
}

// NameIn returns the name of the rule with which an event's id begins.
func NameIn(id string) string {
	name, _, _ := strings.Cut(id, "/")
	return name
}

// MadeBy gives an event and its items the ids that they have under a former name of the rule.
func MadeBy(name string, ev handler.Event) handler.Event {
	if name == ev.Rule {
		return ev
	}
	rename := func(ev *handler.Event) { ev.ID = name + strings.TrimPrefix(ev.ID, ev.Rule) }
	rename(&ev)
	for i := range ev.Items {
		rename(&ev.Items[i])
	}
	return ev
}
