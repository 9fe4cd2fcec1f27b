package main

import (
	"fmt"

	"github.com/informd/informd/integration/bench/fleet"
)

// lookups measures what a lookup in another source costs a rule.
type lookups struct {
	*figures
	scale scale
}

const (
	withoutLookup = "a rule about every pod"
	withLookup    = "the same, which looks up its deployment"
)

func newLookups(at site, s scale) section {
	f := newFigures(at, s.updates)
	every := rule{
		"every", pods, `object.metadata.labels.tier != ""`,
		`object.spec.nodeName != "" and object.metadata.labels.app != ""`,
		"", map[string]string{"pod": `object.metadata.name`}, func(_, _ state) bool { return true },
	}
	looking := every
	looking.when = `object.spec.nodeName != "" and ` +
		`first(lookup("deployments.byApp", object.metadata.labels.app)).spec.replicas > 0`
	other := rule{
		"none", deployments, `object.metadata.labels.tier == "none"`,
		`object.spec.replicas > 0`, "", nil, func(_, _ state) bool { return false },
	}
	population := population{s.objects, fleet.Apps, 0}
	f.add(inProcess("", withoutLookup, []rule{every, other}, "whole"), population)
	f.add(inProcess("", withLookup, []rule{looking, other}, "whole"), population)
	return &lookups{f, s}
}

func (l *lookups) report() (table, []target) {
	title := fmt.Sprintf("Lookups, from %d pods into %d deployments kept whole",
		l.scale.objects, fleet.Apps)
	return l.table(title, "", cpuDelta, deltaRate, peakRSS), []target{
		l.more("CPU µs per delta that a lookup in a rule takes", 10,
			cpuDelta, withLookup, withoutLookup),
	}
}
