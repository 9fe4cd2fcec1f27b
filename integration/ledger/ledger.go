// Package ledger compares two ledgers: what a writer knows that an API server did, and the events
// that a handler received, while the daemon between them, its handlers and the API server were
// killed. [Check] is a pure function of both.
//
// For each rule and object it demands:
//
//   - Truth: each event is about a uid, a resourceVersion and a content that the server had
//     together. The old of an updated is an earlier state of the same object. What a deleted
//     shows has left the rule by then.
//   - Order: nothing comes after something newer. After a crash, though, events may repeat, and
//     then all come again in order.
//   - Completeness: a rule with delivery: every gets each change. The exception is changes that
//     nobody could know, because the server lost its history ([Window]). A rule with delivery:
//     latest gets the last change of each object, and the deletion of each object that it got.
//   - The end: the last event about an object shows the object's final state.
//   - Repeats: a repeated event has the same id and content. Events repeat only after a crash, and
//     only those that came shortly before it, within a bound.
//
// It does not know how either ledger was written down.
package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Key is the name that objects have, one after the other.
type Key struct{ Resource, Name string }

func (k Key) String() string { return k.Resource + "/" + k.Name }

// Write is the time that a write took. The server did it in between.
type Write struct{ Sent, Answered time.Time }

// State is the state of an object between two writes.
type State struct {
	Write
	Version int64  // resourceVersion
	Digest  string // of the content; see Digest
	Team    string // rules may select by it
}

// Life is an object under one uid.
type Life struct {
	UID     string
	States  []State // in order; at least one
	Deleted *Write  // nil: the object still exists
}

// History is everything that the server did, by its responses. The lives of a key are in order.
type History map[Key][]Life

// Rule is a rule with events in the handler's ledger.
type Rule struct {
	Name, Resource string
	Every          bool
	Team           string // the one that its where asks for; "" is all
}

func (r Rule) inside(s State) bool { return r.Team == "" || r.Team == s.Team }

// Seen is the state that an event shows.
type Seen struct {
	UID     string `json:"uid"`
	Version int64  `json:"version"`
	Digest  string `json:"digest"`
}

// Event is a line of the handler's ledger.
type Event struct {
	Run     int       `json:"run"`     // of the daemon, counted
	Process int       `json:"process"` // of the handler
	At      time.Time `json:"at"`
	Rule    string    `json:"rule"`
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Attempt int       `json:"attempt"`
	Key     Key       `json:"key"`
	UID     string    `json:"uid"`
	Version int64     `json:"version"`
	Object  *Seen     `json:"object,omitempty"`
	Old     *Seen     `json:"old,omitempty"`
}

// Window is a time whose changes may be unknowable. It begins with the last moment that the daemon
// certainly remembers, includes the loss of the server's history, and ends when the daemon has
// caught up again.
type Window struct{ From, To time.Time }

func (w Window) touches(x Write) bool { return !x.Answered.Before(w.From) && !x.Sent.After(w.To) }

// Crash is the end of the daemon, of a handler, or of both: from the signal to the moment when the
// handler was gone.
type Crash struct{ From, To time.Time }

// Trial is what Check compares.
type Trial struct {
	History History
	Rules   []Rule
	Events  []Event // in the order in which the handler wrote them
	// Ready is when the daemon was ready for the first time. Objects from before may come as
	// synced.
	Ready time.Time
	// Caught has, by run, when the daemon had caught up with what happened since the run before.
	Caught  map[int]time.Time
	Crashes []Crash // in order
	Lost    []Window
	// Unwritten is how long an acknowledgement may be missing on disk.
	Unwritten time.Duration
}

// Report is what Check found.
type Report struct {
	Problems []Problem
	Events   int
	Steps    int // changes as the rules see them
	// Repeats came again with the same id. Retold came again under another id: merged with a later
	// change, or found by comparison after the history was lost.
	Repeats, Retold int
	// Oldest is the longest time between an event that was repeated and the crash that explains it.
	Oldest time.Duration
	Missed int // changes that only a lost history had, of rules with every
}

// Problem is a violation of a law.
type Problem struct {
	Rule string
	Key  Key
	What string
}

func (p Problem) String() string { return fmt.Sprintf("%s %s: %s", p.Rule, p.Key, p.What) }

// Look returns what both ledgers record of an object's JSON. The digest covers everything except
// the resourceVersion, which a deletion changes, and managedFields, which informd does not deliver.
func Look(object []byte) (seen Seen, team, name string, err error) {
	var tree map[string]any
	if err := json.Unmarshal(object, &tree); err != nil {
		return Seen{}, "", "", fmt.Errorf("look at an object: %w", err)
	}
	meta, _ := tree["metadata"].(map[string]any)
	text := func(m map[string]any, field string) string { s, _ := m[field].(string); return s }
	labels, _ := meta["labels"].(map[string]any)
	seen.UID, team, name = text(meta, "uid"), text(labels, "team"), text(meta, "name")
	if seen.Version, err = strconv.ParseInt(text(meta, "resourceVersion"), 10, 64); err != nil {
		return Seen{}, "", "", fmt.Errorf("look at %s: %w", name, err)
	}
	delete(meta, "resourceVersion")
	delete(meta, "managedFields")
	canonical, err := json.Marshal(tree)
	if err != nil {
		return Seen{}, "", "", err
	}
	sum := sha256.Sum256(canonical)
	seen.Digest = hex.EncodeToString(sum[:8])
	return seen, team, name, nil
}
