package explain

import "time"

// Target is what a rule asks of one object of the cluster, for one object of its source.
type Target struct {
	Rule      string `json:"rule"`
	Resource  string `json:"resource"`       // VERSION/RESOURCE or GROUP/VERSION/RESOURCE
	Part      string `json:"part,omitempty"` // status, if that alone; or one of the parts below
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	For       string `json:"for"`   // the object of the rule's source: NAMESPACE/NAME, or NAME
	State     string `json:"state"` // asked, done, waits, refused, behind or dropped
	// Owner has the target. It is nil if nobody does, because the rule does not prune.
	Owner *Owner `json:"owner,omitempty"`
	Trouble
}

// The parts of targets that are not the objects themselves.
const (
	EventPart = "event" // a Kubernetes Event about the object
	PrunePart = "prune" // what was applied for the object of the source, and is not wanted any more
)

// Owner is who has a target: an object of the source of a rule.
type Owner struct {
	Rule   string `json:"rule"`
	Object string `json:"object"`
}

// Trouble says why the last attempt at a target failed.
type Trouble struct {
	Failures int    `json:"failures,omitempty"` // in a row
	Cause    string `json:"cause,omitempty"`    // in a word, such as quota
	Reason   string `json:"reason,omitempty"`   // without what may quote a Secret
	// Next is when the target is tried again, if it waits. A zero Next then means now.
	Next time.Time `json:"next,omitzero"`
}

// Targets are the targets of a rule, or of one object of its source.
type Targets struct {
	Owned  int            `json:"owned"`  // by the rule, or for the object
	States map[string]int `json:"states"` // how many are in each state; none is left out
	// First has the first targets: those that fail come before those that are behind another one.
	// Of a rule, it has no others.
	First []Target `json:"first,omitempty"`
}
