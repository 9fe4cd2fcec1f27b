package engine

import (
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/state"
)

// letterStore records dead letters. It implements dispatch.LetterStore.
type letterStore struct {
	*state.Store
	engine *Engine // whose rules the letters belong to
}

// PutLetter implements dispatch.LetterStore. It does not record a payload that may hold text of
// Secrets.
func (s letterStore) PutLetter(l delivery.Letter) {
	if r := s.engine.rule(l.Rule); r != nil && l.Payload != nil && r.preparer.Reveals() {
		l.Payload = prepare.Null
	}
	s.Store.PutLetter(l)
}
