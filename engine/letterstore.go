package engine

import (
	"slices"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/running"
	"github.com/informd/informd/engine/state"
)

// letterStore records dead letters. It implements dispatch.LetterStore.
type letterStore struct {
	*state.Store
	rules *running.Present // to which the letters belong
}

// PutLetter implements dispatch.LetterStore. It does not record payloads that may hold text of
// Secrets, of the letter or of its items.
func (s letterStore) PutLetter(l delivery.Letter) {
	if r := s.rules.Maker(l.Rule); r != nil && r.Preparer.Reveals() {
		if l.Payload != nil {
			l.Payload = prepare.Null
		}
		l.Items = slices.Clone(l.Items)
		for i := range l.Items {
			if item := &l.Items[i]; item.Payload != nil {
				item.Payload = prepare.Null
			}
		}
	}
	s.Store.PutLetter(l)
}
