package delivery

import (
	"bytes"
	"encoding/json"

	"github.com/informd/informd/plugins/handler"
)

// Acts are a rule's own actions for one change, in pieces: there may be more of them than fit into
// memory. A nil Acts has none.
type Acts struct {
	// Pieces are all of them, if they are few and small together.
	Pieces []Piece
	// Make makes the pieces otherwise: see Walk. It is nil if Pieces has them.
	Make func(visit func(Piece) error) error
	// Digest identifies what the actions were made with. If the rule changes, so does the digest.
	Digest uint64
	// Prunes says that one of the pieces deletes what the rule applied and does not apply any more.
	// Nothing else is done if OnlyPrunes is set.
	Prunes, OnlyPrunes bool
}

// Piece has some of the actions that one action of a rule's manifest asks for. They are independent
// of each other. Pieces with the same label follow each other and make a step: the next step begins
// once all of this one is done.
type Piece struct {
	Label   string           `json:"label,omitempty"` // as actions[0]; "" for what is pruned
	Actions []handler.Action `json:"actions"`
}

// IsKept reports whether Pieces has all the actions.
func (a *Acts) IsKept() bool { return a == nil || a.Make == nil }

// IsEmpty reports whether there is nothing to perform.
func (a *Acts) IsEmpty() bool { return a.IsKept() && len(a.Actions()) == 0 }

// Walk calls visit with each piece, in the order in which they are performed. It may be called
// again, and then sees what it saw before, but for what the actions look up in their if and their
// templates. An error of visit ends the walk, and is returned unchanged. Any other error is about
// making the actions, and quotes nothing of objects; if it wraps handler.ErrReject, another attempt
// would not help.
func (a *Acts) Walk(visit func(Piece) error) error {
	if !a.IsKept() {
		return a.Make(visit)
	}
	if a == nil {
		return nil
	}
	for _, p := range a.Pieces {
		if err := visit(p); err != nil {
			return err
		}
	}
	return nil
}

// Actions returns the actions of Pieces.
func (a *Acts) Actions() (all []handler.Action) {
	if a == nil {
		return nil
	}
	for _, p := range a.Pieces {
		all = append(all, p.Actions...)
	}
	return all
}

// recordedActs are Acts as an [Answer] records them. They differ from the actions of a handler's
// answer, which are a list.
type recordedActs struct {
	Digest     uint64  `json:"digest"`
	Pieces     []Piece `json:"pieces"`
	Prunes     bool    `json:"prunes,omitempty"`
	OnlyPrunes bool    `json:"onlyPrunes,omitempty"`
}

// Answer returns an answer that records the Pieces.
func (a *Acts) Answer() (*Answer, error) {
	text, err := encoded(recordedActs{a.Digest, a.Pieces, a.Prunes, a.OnlyPrunes})
	if err != nil {
		return nil, err
	}
	return &Answer{Text: text}, nil
}

// encoded returns v as JSON, with the texts of actions as they are.
func encoded(v any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

// Acts returns what [Acts.Answer] recorded. It fails for the answer of a handler.
func (a *Answer) Acts() (*Acts, error) {
	var r recordedActs
	if err := json.Unmarshal(a.Text, &r); err != nil {
		return nil, err
	}
	for i := range r.Pieces {
		restoreNil(r.Pieces[i].Actions)
	}
	return &Acts{Pieces: r.Pieces, Digest: r.Digest, Prunes: r.Prunes, OnlyPrunes: r.OnlyPrunes}, nil
}
