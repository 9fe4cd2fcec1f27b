package delivery

import (
	"strings"

	"github.com/informd/informd/plugins/handler"
)

// Former is a name that a rule had before it was renamed. Deliveries that waited then keep the ids
// that they had, which begin with that name.
type Former struct {
	Rule string
	Last uint64 // the highest number of a delivery whose id begins with this name
}

// NameAt returns the name that begins the id of the delivery with a number. It is now if no former
// name does. former has the oldest name first.
func NameAt(former []Former, n uint64, now string) string {
	for _, f := range former {
		if n <= f.Last {
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
