package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/integration/apistub"
)

// scripted is a subject that reports a given sequence of sights, and then the last one for ever.
type scripted struct {
	sights []seen
	err    error // of the last
}

func (s *scripted) seen() (seen, error) {
	if len(s.sights) > 1 {
		now := s.sights[0]
		s.sights = s.sights[1:]
		return now, nil
	}
	return s.sights[0], s.err
}
func (*scripted) pid() int                                   { return 0 }
func (*scripted) begin() error                               { return nil }
func (*scripted) verify(context.Context, *ledger, due) error { return nil }
func (*scripted) stop() error                                { return nil }

func saw(objects, updates, handled int) seen {
	return seen{Objects: tally{objects, int64(objects)}, Updates: tally{updates, int64(updates)}, Handled: tally{handled, int64(handled)}}
}

// A figure is printed only if the contestant has seen exactly what was sent.
func TestAwait(t *testing.T) {
	want := due{objects: &tally{5, 5}, updates: &tally{3, 3}, handled: &tally{2, 2}}
	others := saw(5, 3, 2)
	others.Updates.Sum = 4
	uncounted := saw(5, 3, 2)
	uncounted.Objects.Sum, uncounted.Updates.Sum = unsummed, unsummed
	for _, test := range []struct {
		name string
		seen scripted
		want string // of the error; "" for none
	}{
		{"at once", scripted{sights: []seen{saw(5, 3, 2)}}, ""},
		{"in the end", scripted{sights: []seen{saw(0, 0, 0), saw(5, 0, 0), saw(5, 3, 1), saw(5, 3, 2)}}, ""},
		{"by who only counts", scripted{sights: []seen{uncounted}}, ""},
		{"one update is missing", scripted{sights: []seen{saw(5, 2, 2)}}, "saw 5 objects, 2 updates, 2 deliveries of 5 objects 3 updates 2 deliveries and nothing more"},
		{"one object is missing", scripted{sights: []seen{saw(4, 3, 2)}}, "saw 4 objects"},
		{"one delivery is missing", scripted{sights: []seen{saw(5, 3, 1)}}, "1 deliveries of"},
		{"an update came twice", scripted{sights: []seen{saw(5, 2, 2), saw(5, 4, 2)}}, "saw 4 updates, and 3 were due"},
		{"somebody else's object", scripted{sights: []seen{saw(6, 0, 0)}}, "saw 6 objects"},
		{"a delivery too many", scripted{sights: []seen{saw(5, 3, 3)}}, "saw 3 deliveries"},
		{"one update twice and another not at all", scripted{sights: []seen{others}}, "not the same"},
		{"ended", scripted{[]seen{saw(5, 2, 2)}, errors.New("it has ended")}, "it has ended"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &measurement{subject: &test.seen}
				err := m.await(t.Context(), want)
				if err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) || err == nil && test.want != "" {
					t.Errorf("got %v; want %q", err, test.want)
				}
			})
		})
	}
}

// The ledger knows what a server made, from no more than the first resourceVersion of each batch.
func TestLedger(t *testing.T) {
	server := apistub.New(t)
	var l ledger
	for r, n := range []int{7, 3} {
		gvr := resources[r].gvr
		l.resources = append(l.resources, &entries{resource: gvr.Resource, objects: n, first: server.Synthesize(gvr, resources[r].kind, true, resources[r].objects(n))})
	}
	last := map[string]map[int]int64{pods: {}, deployments: {}}
	var objects, updated tally
	for _, e := range l.resources {
		for i := range e.objects {
			last[e.resource][i] = e.first + int64(i)
			objects.add(1, e.first+int64(i))
		}
	}
	if diff := cmp.Diff(objects, *l.objects()); diff != "" {
		t.Error(diff)
	}
	made := map[string]int{}
	for _, n := range []int{1, 0, 9, 4, 30} {
		for r, e := range l.resources {
			first := server.Update(resources[r].gvr, n)
			e.batches = append(e.batches, batch{n, first})
			for j := range n {
				i, _ := apistub.Turn(e.objects, made[e.resource])
				made[e.resource]++
				last[e.resource][i] = first + int64(j)
				updated.add(1, first+int64(j))
			}
		}
	}
	var cached tally
	for _, objects := range last {
		for _, version := range objects {
			cached.add(1, version)
		}
	}
	if diff := cmp.Diff(updated, *l.updated()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(cached, l.cached()); diff != "" {
		t.Error(diff)
	}
	if twice := l.selected(func(change) int { return 2 }); twice.N != 2*updated.N || twice.Sum != 2*updated.Sum {
		t.Errorf("each twice: %+v", twice)
	}
}
