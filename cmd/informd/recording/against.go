package recording

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/informd/informd/cmd/informd/ruletest"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/simulate"
)

// recipient returns the handler that got an event; "" for what a rule does itself.
func recipient(e simulate.Event) string {
	if e.Handler == engine.OwnActions {
		return ""
	}
	return e.Handler
}

// comparison compares the events of two configurations while they come. It keeps the events that
// differ, and those whose counterpart has not come yet.
type comparison struct {
	waiting [2]map[eventKey]compared // of OTHER, and of -f
	differ  []change                 // both have the event, and it differs
	came    int                      // events so far
	same    int
}

// eventKey says which events of two configurations are the same one.
type eventKey struct {
	rule, id string
	attempt  int
	isOwn    bool // it has the actions of the rule itself
}

// compared is an event of one configuration.
type compared struct {
	jsonEvent
	line    string // for people
	details []string
	nth     int // of the events that came
}

// change is a difference between the configurations.
type change struct {
	was, is     *compared // of OTHER and of -f; one may be nil
	differences []ruletest.Difference
}

func newComparison() *comparison {
	return &comparison{
		waiting: [2]map[eventKey]compared{make(map[eventKey]compared), make(map[eventKey]compared)},
	}
}

// The configurations.
const (
	ofOther = 0
	ofNew   = 1
)

// add takes an event of a configuration.
func (c *comparison) add(e simulate.Event, of int) {
	c.came++
	key := eventKey{e.Rule, e.Event.ID, e.Event.Attempt, recipient(e) == ""}
	shown := ruletest.Show(e)
	event := compared{newJSONEvent(e), shown.Line(), shown.Details(), c.came}
	other, ok := c.waiting[1-of][key]
	if !ok {
		c.waiting[of][key] = event
		return
	}
	delete(c.waiting[1-of], key)
	was, is := &other, &event
	if of == ofOther {
		was, is = is, was
	}
	differences := compare(was, is)
	if len(differences) == 0 {
		c.same++
		return
	}
	c.differ = append(c.differ, change{was, is, differences})
}

// compare returns where two events differ.
func compare(was, is *compared) (out []ruletest.Difference) {
	if was.At != is.At {
		out = append(out, ruletest.Difference{Path: "at", Was: was.At, Is: is.At})
	}
	if was.Handler != is.Handler {
		out = append(out, ruletest.Difference{Path: "handler", Was: was.Handler, Is: is.Handler})
	}
	if !bytes.Equal(was.Event, is.Event) {
		out = append(out, ruletest.Compare(was.Event, is.Event)...)
	}
	return out
}

// changes returns all differences, in the order of their times.
func (c *comparison) changes() []change {
	all := slices.Clone(c.differ)
	for _, e := range c.waiting[ofOther] {
		all = append(all, change{was: &e})
	}
	for _, e := range c.waiting[ofNew] {
		all = append(all, change{is: &e})
	}
	slices.SortFunc(all, func(a, b change) int {
		first, second := cmp.Or(a.was, a.is), cmp.Or(b.was, b.is)
		return cmp.Or(cmp.Compare(first.At, second.At), cmp.Compare(first.nth, second.nth))
	})
	return all
}

// differs reports whether there is a difference.
func (c *comparison) differs() bool {
	return len(c.waiting[ofOther])+len(c.waiting[ofNew])+len(c.differ) > 0
}

// text writes the differences for people.
func (c *comparison) text(w io.Writer, other, present string) error {
	var b bytes.Buffer
	if c.differs() {
		fmt.Fprintf(&b, "--- %s\n+++ %s\n", other, present)
	}
	for _, d := range c.changes() {
		sign, event := "~", cmp.Or(d.is, d.was)
		details := event.details
		switch {
		case d.was == nil:
			sign = "+"
		case d.is == nil:
			sign = "-"
		default:
			details = nil
			for _, difference := range d.differences {
				details = append(details, difference.String())
			}
		}
		fmt.Fprintf(&b, "%s %s %s\n", sign, event.At, event.line)
		for _, line := range details {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	news, gone, differ := len(c.waiting[ofNew]), len(c.waiting[ofOther]), len(c.differ)
	fmt.Fprintf(&b, "%d %s, %d %s, %d %s, %d the same\n",
		news, verb(news, "comes", "come"), gone, verb(gone, "goes", "go"),
		differ, verb(differ, "differs", "differ"), c.same)
	_, err := w.Write(b.Bytes())
	return err
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// jsonChange is a difference as -o json prints it.
type jsonChange struct {
	Change      string                `json:"change"` // comes, goes or differs
	Was         *jsonEvent            `json:"was,omitempty"`
	Is          *jsonEvent            `json:"is,omitempty"`
	Differences []ruletest.Difference `json:"differences,omitempty"`
}

// json writes a line per difference.
func (c *comparison) json(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, d := range c.changes() {
		out := jsonChange{Change: "differs", Differences: d.differences}
		if d.was != nil {
			out.Was = &d.was.jsonEvent
		} else {
			out.Change = "comes"
		}
		if d.is != nil {
			out.Is = &d.is.jsonEvent
		} else {
			out.Change = "goes"
		}
		if err := encoder.Encode(out); err != nil {
			return err
		}
	}
	return nil
}
