package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// scale says how much to measure. All other sizes follow from it.
type scale struct {
	objects, updates, rounds int
	full                     bool
	only                     string        // only sections with a job of that name; "": all
	old                      string        // an older informd to compare with, or ""
	rest                     time.Duration // see measurement
}

// listed returns the number of pods in the measurement of lists: by default 100,000.
func (s scale) listed() int { return 5 * s.objects }

// watched returns the number of pods in the measurement of latencies.
func (s scale) watched() int { return max(1, s.objects/4) }

// isTiny reports whether it is that of a test, which has no time for what takes seconds with any
// load.
func (s scale) isTiny() bool { return s.objects < 100 }

// timed returns the number of updates for a measurement of latencies at a rate per second: five
// seconds' worth.
func (s scale) timed(rate int) int { return max(20, s.updates/3*rate/1000) }

// job is one thing to measure, once a round.
type job struct {
	name string
	do   func(context.Context) error // measures, and keeps the result
	once bool                        // only in the first round
}

// run measures everything. self and informd are absolute paths of this program and of informd. If
// something is missing in the report, run returns both the report and an error.
func run(ctx context.Context, self, informd, command string, s scale) (*report, error) {
	// Not in $TMPDIR: the paths of sockets must be short.
	dir, err := os.MkdirTemp("/tmp", "bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	at := site{self, informd, dir, s.rest}
	r := &report{}
	if r.conditions, err = conditions(ctx, at, command); err != nil {
		return nil, err
	}

	sections := []section{
		newRows(at, s), newListing(at, s), newRules(at, s), newTimed(at, s),
		newLookups(at, s), newLatencies(at, s), newDurability(at, s), newRestarts(at, s),
		newNeighbours(at, s), newHanging(at, s), newCostly(at, s), newGets(at, s),
		newLaunches(at, s), newReads(at, s),
		newRates(at, s), newTails(at, s), newActions(at, s),
		newReplicas(at, s), newTakeovers(at, s),
	}
	if s.full {
		sections = append(sections, newSizes(at, s), newHandlers(at, s))
	}
	if s.only != "" {
		sections = slices.DeleteFunc(sections, func(one section) bool {
			return !slices.ContainsFunc(one.jobs(), func(j job) bool {
				return strings.Contains(j.name, s.only)
			})
		})
	}
	if s.old != "" {
		sections = []section{newSideBySide(at, s.old, s), newCostlyBeside(at, s.old, s)}
	}
	var jobs []job
	for _, section := range sections {
		jobs = append(jobs, section.jobs()...)
	}
	var failures error
	for round := range s.rounds {
		for i := range jobs {
			j := jobs[(i+round)%len(jobs)] // each job is first in some round
			if j.once && round > 0 {
				continue
			}
			fmt.Fprintf(os.Stderr, "bench: round %d of %d, %d of %d: %s\n",
				round+1, s.rounds, i+1, len(jobs), j.name)
			if err := j.do(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
				failures = errors.Join(failures, fmt.Errorf("%s: %w", j.name, err))
			}
			if ctx.Err() != nil {
				return nil, errors.New("interrupted")
			}
		}
	}
	for _, section := range sections {
		t, targets := section.report()
		r.tables = append(r.tables, t)
		r.targets = append(r.targets, targets...)
		if c, ok := section.(charted); ok {
			r.charts = append(r.charts, c.charts()...)
		}
	}
	r.after = "load average after, the benchmark's own included: " + loadAverage()
	return r, failures
}

// section is one table of the report, with the jobs that fill it.
type section interface {
	jobs() []job
	report() (table, []target)
}

// charted is a section that also draws charts.
type charted interface{ charts() []chart }
