package ruletest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/informd/informd/engine/simulate"
	"github.com/informd/informd/internal/printable"
)

// Shown is an event as tests write it. Replays show events in the same form.
type Shown struct{ came came }

// Show returns an event in the form of tests.
func Show(ev simulate.Event) Shown { return Shown{newCame(ev, ev.At)} }

// Fields returns the fields that a test can expect. The caller must not change them.
func (s Shown) Fields() map[string]any { return s.came.fields }

// Line describes the event on one line: added shop/web-0 (rule pending, to handler print).
func (s Shown) Line() string { return s.came.summary() }

// Details describes what the event carries, a line each.
func (s Shown) Details() []string { return s.came.details() }

// Difference is one place where two events differ.
type Difference struct {
	Path string `json:"path"` // as payload.pods[0].name
	Was  any    `json:"was"`
	Is   any    `json:"is"`
}

// String shows the difference on one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s → %s", d.Path, shown(d.Was), shown(d.Is))
}

// Compare returns where the fields of two events differ. Both are JSON, as the bytes of
// json.Marshal of Fields.
func Compare(was, is json.RawMessage) (out []Difference) {
	w, _ := decode(was).(map[string]any)
	i, _ := decode(is).(map[string]any)
	for _, d := range appendDifferences(nil, "", w, i, true) {
		out = append(out, Difference{strings.TrimPrefix(d.Path, "."), d.Want, d.Got})
	}
	return out
}

// summary describes the event on one line, without its time.
func (c came) summary() string {
	return printable.Line(c.text(), maxLine)
}
