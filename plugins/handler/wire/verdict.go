package wire

import (
	"strings"

	"github.com/informd/informd/plugins/handler"
)

// Verdict is what a handler answered to an event, as a line of JSON. Handlers that are run by hand
// print it, and so does informd handler try.
type Verdict struct {
	Line  int    `json:"line,omitempty"` // of the input that the event begins on
	ID    string `json:"id"`
	Event string `json:"event"`
	// Object is RESOURCE NAMESPACE/NAME, without the parts that the event lacks. A handler that is run
	// by hand puts the rule before it.
	Object     string           `json:"object"`
	Result     string           `json:"result"`           // done, retry or reject
	Reason     string           `json:"reason,omitempty"` // of a retry or reject
	RetryAfter string           `json:"retryAfter,omitempty"`
	Actions    []handler.Action `json:"actions,omitempty"` // informd would perform them
	Batch      int              `json:"batch,omitempty"`   // events that were sent together
	Seconds    float64          `json:"seconds"`           // that the handler took
}

// ObjectName names an object for people: v1/pods shop/web-0.
func ObjectName(r handler.Resource, namespace, name string) string {
	var parts []string
	for _, part := range []string{r.Group, r.Version, r.Resource} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.TrimSpace(strings.Join(parts, "/") + " " + Key(namespace, name))
}
