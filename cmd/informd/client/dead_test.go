package client

import (
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/cmd/informd/control"
)

// A rule's own actions have no handler that saw anything.
func TestHandlerOfDeadLetter(t *testing.T) {
	for handler, want := range map[string]string{
		"page":             "\nevent, as the handler saw it:\n",
		control.OwnActions: "\nevent, as the rule saw it:\n",
	} {
		var b strings.Builder
		if err := writeLetter(&b, control.Letter{Handler: handler}, time.Now()); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v, of handler %s:\n%s", err, handler, b.String())
		}
	}
}
