package main

import (
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// counter keeps which objects are in trouble and decides when that is worth an alert. It takes the
// time as an argument and does nothing but count. Handle calls it from many goroutines.
type counter struct {
	threshold int
	window    time.Duration
	repeat    time.Duration

	mu     sync.Mutex
	groups map[group]*trouble
	seen   map[string]bool // ids of events that were counted, so that a repeat is not counted twice
	order  []string        // the same, oldest first; at most maxSeen, then the oldest is forgotten
}

// maxSeen bounds the memory of events. A repeat follows its event within minutes.
const maxSeen = 10_000

type object struct {
	rule, namespace string
	resource        handler.Resource
	name            string
}

// group is what is counted together: the objects of one namespace under one rule.
type group struct{ rule, namespace string }

type trouble struct {
	objects map[object]time.Time // since when each was last heard of
	alerted time.Time            // when the last alert was raised; zero: never
	before  time.Time            // the same, before that alert
}

// alert is a line in the file.
type alert struct {
	Time      time.Time `json:"time"`
	Rule      string    `json:"rule"`
	Namespace string    `json:"namespace,omitempty"`
	Objects   int       `json:"objects"`
	Last      string    `json:"last"`
}

func newCounter(threshold int, window, repeat time.Duration) *counter {
	return &counter{
		threshold: threshold, window: window, repeat: repeat,
		groups: map[group]*trouble{}, seen: map[string]bool{},
	}
}

// see records whether an object is in trouble, and reports whether that calls for an alert. A
// second call with the same event changes nothing.
func (c *counter) see(o object, id string, inTrouble bool, now time.Time) (alert, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.remember(id) {
		return alert{}, false
	}
	g := group{o.rule, o.namespace}
	t := c.groups[g]
	if t == nil {
		if !inTrouble {
			return alert{}, false
		}
		t = &trouble{objects: map[object]time.Time{}}
		c.groups[g] = t
	}
	for other, heard := range t.objects {
		if now.Sub(heard) > c.window {
			delete(t.objects, other)
		}
	}
	if inTrouble {
		t.objects[o] = now
	} else {
		delete(t.objects, o)
	}
	quiet := !t.alerted.IsZero() && now.Sub(t.alerted) < c.repeat
	if len(t.objects) == 0 && !quiet {
		delete(c.groups, g)
	}
	if !inTrouble || quiet || len(t.objects) < c.threshold {
		return alert{}, false
	}
	t.before, t.alerted = t.alerted, now
	return alert{
		Time: now.UTC(), Rule: o.rule, Namespace: o.namespace,
		Objects: len(t.objects), Last: o.name,
	}, true
}

// unraise takes back an alert that could not be written, and forgets the event that raised it.
func (c *counter) unraise(a alert, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, id)
	if t := c.groups[group{a.Rule, a.Namespace}]; t != nil {
		t.alerted = t.before
	}
}

// remember reports whether an event is new.
func (c *counter) remember(id string) bool {
	if c.seen[id] {
		return false
	}
	c.seen[id] = true
	c.order = append(c.order, id)
	if len(c.order) > maxSeen {
		delete(c.seen, c.order[0])
		c.order = c.order[1:]
	}
	return true
}
