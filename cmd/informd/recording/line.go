package recording

import (
	"encoding/json"
	"time"

	"github.com/informd/informd/engine/object"
)

// The types of lines. The first five are those of a watch, as kubectl prints them.
const (
	typeAdded    = "ADDED"
	typeModified = "MODIFIED"
	typeDeleted  = "DELETED"
	typeError    = "ERROR"    // what follows until typeListed has happened unseen
	typeBookmark = "BOOKMARK" // means nothing here
	// typeRecording is the first line of a recording. Then come all objects as added, and
	// typeListed.
	typeRecording = "RECORDING"
	typeListed    = "LISTED"
)

// line is one line of a recording.
type line struct {
	Type string    `json:"type"`
	Time time.Time `json:"time,omitzero"`
	// Resource is that of the object, as sources write it. kubectl does not print it.
	Resource string          `json:"resource,omitempty"`
	Object   json.RawMessage `json:"object,omitempty"`
	// Selections are what a recording has, on its first line.
	Selections []selection `json:"selections,omitempty"`
}

// selection is a object.Selection as a recording has it.
type selection struct {
	Resource      string `json:"resource"`
	Namespace     string `json:"namespace,omitempty"` // empty: all
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
}

func newSelection(s object.Selection) selection {
	return selection{
		Resource: object.ResourceName(s.Resource), Namespace: s.Namespace,
		LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector,
	}
}

// covers reports whether every object of the other selection is in s. It may miss that: it compares
// selectors by their text.
func (s selection) covers(other selection) bool {
	return s.Resource == other.Resource &&
		(s.Namespace == "" || s.Namespace == other.Namespace) &&
		(s.LabelSelector == "" || s.LabelSelector == other.LabelSelector) &&
		(s.FieldSelector == "" || s.FieldSelector == other.FieldSelector)
}

// String describes the selection for people.
func (s selection) String() string {
	text := s.Resource
	for _, part := range []struct{ name, value string }{
		{"namespace", s.Namespace}, {"labels", s.LabelSelector}, {"fields", s.FieldSelector},
	} {
		if part.value != "" {
			text += " (" + part.name + " " + part.value + ")"
		}
	}
	return text
}
