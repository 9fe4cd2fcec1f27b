package dispatch

import (
	"context"
	"errors"
)

// Journal encloses the records of one change, so that all of them are kept or none. The dispatcher encloses what an answer
// changes, and what merging changes when it loads what was left to the store alone.
//
// Between Begin and End the dispatcher only moves values: it evaluates, encodes, logs and waits for nothing. Begin is never
// called within another Begin. Begin is taken before all locks of this package.
type Journal interface {
	Begin()
	End()
	// Written has everything that was recorded before written, and returns when it would survive a crash. If it cannot be
	// written, or not within a few seconds, the error says why. It is not called between Begin and End.
	Written(ctx context.Context) error
}

type noJournal struct{}

func (noJournal) Begin()                        {}
func (noJournal) End()                          {}
func (noJournal) Written(context.Context) error { return nil }

// ErrNotYet is wrapped by errors of LaneOptions.Store.Load if nothing is wrong and the store is to be asked again soon.
var ErrNotYet = errors.New("not yet")
