package main

import (
	"context"
	"fmt"
)

// sideBySide compares informd with an older one, in turns.
type sideBySide struct {
	*figures
	scale scale
}

// The contestants' names.
const (
	newInformd = "informd"
	oldInformd = "the older informd"
	keepsState = ", with a state directory"
)

func newSideBySide(at site, old string, s scale) section {
	f := newFigures(at, s.updates)
	for _, state := range []bool{false, true} {
		suffix := ""
		if state {
			suffix = keepsState
		}
		f.add(delivered("", newInformd+suffix, setup{handlers: 1, state: state}), mixed(s.objects))
		how := setup{handlers: 1, state: state}
		f.add(by(old, delivered("", oldInformd+suffix, how)), mixed(s.objects))
	}
	return &sideBySide{f, s}
}

// by returns a contestant that runs another informd.
func by(informd string, c contestant) contestant {
	start := c.start
	c.start = func(ctx context.Context, at site, l *load) (subject, error) {
		at.informd = informd
		return start(ctx, at, l)
	}
	return c
}

// perObject returns the column of memory at rest, divided by the number of objects. It includes the
// memory of the handler, and leaves out the pages of programs' files: the system holds those once
// for all processes, however many objects there are.
func (s *sideBySide) perObject() column {
	return column{"memory B/object at rest", 0, func(one sample) float64 {
		return one.restedAnon * (1 << 20) / float64(s.scale.objects)
	}}
}

func (s *sideBySide) report() (table, []target) {
	title := fmt.Sprintf("Two informds, each to a handler process, all acknowledged; "+
		"%d objects, %d updates",
		s.scale.objects, moreDelivered*s.scale.updates)
	t := s.table(title, "", cpuDelta, deltaRate, s.perObject(),
		column{"RSS MiB at rest", 0, restedRSS.of}, steadyRSS, written)
	var targets []target
	for _, suffix := range []string{"", keepsState} {
		informd, older := newInformd+suffix, oldInformd+suffix
		targets = append(targets,
			s.ratio("CPU per delta, to the older informd"+suffix, false, 1,
				cpuDelta, informd, older),
			s.ratio("memory per object, to the older informd"+suffix, false, 1,
				s.perObject(), informd, older),
			s.ratio("deliveries per second, to the older informd"+suffix, true, 1,
				deltaRate, informd, older))
	}
	return t, targets
}

// newCostlyBeside returns a section that measures a costly source beside another one, in both
// informds.
func newCostlyBeside(at site, old string, s scale) section {
	c := newCostly(at, s)
	older := at
	older.informd = old
	c.runs = append(c.runs, &costlyRun{name: oldInformd, at: older})
	return c
}
