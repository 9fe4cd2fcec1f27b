package explain

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/informd/informd/engine/expr"
)

// Part is a part of an expression, with what one evaluation made of it: an [expr.Part] as JSON.
type Part struct {
	Text      string          `json:"text"`
	Offset    int             `json:"offset"`
	Element   *int            `json:"element,omitempty"`
	Evaluated bool            `json:"evaluated"`
	Value     json.RawMessage `json:"value"`
	Error     string          `json:"error,omitempty"`
	Parts     []Part          `json:"parts,omitempty"`
	More      int             `json:"more,omitempty"`
	MoreTrue  int             `json:"moreTrue,omitempty"`
}

// PartOf returns the JSON of a part.
func PartOf(p expr.Part) Part {
	out := Part{
		Text: p.Text, Offset: p.Offset, Evaluated: p.Evaluated, Value: valueOf(p.Value),
		More: p.More, MoreTrue: p.MoreTrue,
	}
	if p.Element >= 0 {
		out.Element = &p.Element
	}
	if p.Err != nil {
		out.Error = p.Err.Error()
	}
	for _, inner := range p.Parts {
		out.Parts = append(out.Parts, PartOf(inner))
	}
	return out
}

func valueOf(v any) json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(v) != nil {
		return json.RawMessage("null") // cannot happen: the value can be encoded
	}
	return bytes.TrimSpace(b.Bytes())
}

// hidden takes the place of a value that depends on a Secret's values.
var hidden = json.RawMessage(`"***"`)

// mask hides the values in which p differs from as, which an evaluation on masked objects gave.
func (p *Part) mask(as *Part) {
	if as == nil || p.Error != as.Error || !bytes.Equal(p.Value, as.Value) ||
		p.Evaluated != as.Evaluated {
		if p.Evaluated {
			p.Value = hidden
		}
	}
	for i := range p.Parts {
		p.Parts[i].mask(as.like(&p.Parts[i]))
	}
}

// like returns the part of p that stands where q does, or nil. p may be nil.
func (p *Part) like(q *Part) *Part {
	if p == nil {
		return nil
	}
	for i := range p.Parts {
		r := &p.Parts[i]
		if r.Offset == q.Offset && r.Text == q.Text && (r.Element == nil) == (q.Element == nil) &&
			(q.Element == nil || *q.Element == *r.Element) {
			return r
		}
	}
	return nil
}

// isFalse reports whether a condition did not hold. nil is false, too.
func (p *Part) isFalse() bool {
	return p.Evaluated && p.Error == "" && (string(p.Value) == "false" || string(p.Value) == "null")
}

// longest is how many bytes of a value a sentence quotes.
const longest = 60

// why says in a few words why a condition is false, or returns "": it follows what was false down to
// the comparison that decided.
func (p *Part) why() string {
	at := p
	for {
		var isFalse []*Part
		for i := range at.Parts {
			if in := &at.Parts[i]; in.Element == nil && string(in.Value) == "false" && in.isFalse() {
				isFalse = append(isFalse, in)
			}
		}
		if len(isFalse) != 1 {
			break
		}
		at = isFalse[0]
	}
	var values []string
	for i := range at.Parts {
		in := &at.Parts[i]
		if !in.Evaluated || in.Error != "" || len(in.Value) > longest || in.Element != nil {
			continue
		}
		values = append(values, in.Text+" is "+clarified(in.Value))
	}
	switch {
	case len(values) > 0 && len(values) <= 2:
		return strings.Join(values, " and ")
	case at != p:
		return at.Text + " is false"
	}
	return ""
}

// clarified returns a value as one says it.
func clarified(v json.RawMessage) string {
	if string(v) == "null" {
		return "nil"
	}
	return string(v)
}
