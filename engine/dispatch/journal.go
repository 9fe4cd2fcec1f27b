package dispatch

import (
	"context"
	"errors"
)

// Journal makes the records of one change a unit, so that either all of them are kept or none. The
// dispatcher encloses the records of an answer in Begin and End, and those of merging during a
// load.
//
// Between Begin and End the dispatcher only moves values: it evaluates, encodes and logs nothing,
// and does not wait. It never nests Begin. It calls Begin before it takes any lock of this package.
type Journal interface {
	Begin()
	End()
	// Written writes everything recorded so far, and returns when that would survive a crash. The
	// error says why that failed, or did not happen within a few seconds. Written is not called
	// between Begin and End.
	Written(ctx context.Context) error
	// Await returns nil when the records of a cut would survive the end of the program, though
	// perhaps not a loss of power. The dispatcher calls it before it hands an event over, so that no
	// handler receives an event that may be forgotten. A Journal may give up soon and return nil all
	// the same. If it is strict, it waits until ctx ends or nothing more can be recorded, and returns
	// an error. The dispatcher then delivers nothing more.
	Await(ctx context.Context, cut uint64) error
}

// within makes one change of a journal. A panic, which the dispatcher may contain, ends the change
// too.
func within(j Journal, change func()) {
	j.Begin()
	defer j.End()
	change()
}

type noJournal struct{}

func (noJournal) Begin()                              {}
func (noJournal) End()                                {}
func (noJournal) Written(context.Context) error       { return nil }
func (noJournal) Await(context.Context, uint64) error { return nil }

// ErrNotYet is wrapped by errors of the Load of LaneOptions.Store when nothing is wrong and the
// lane should soon ask again.
var ErrNotYet = errors.New("not yet")
