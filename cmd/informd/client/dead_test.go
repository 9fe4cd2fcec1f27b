package client

import (
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/plugins/handler"
)

// A rule's own actions have no handler that saw anything.
func TestHandlerOfDeadLetter(t *testing.T) {
	for handler, want := range map[string]string{
		"page":             "\nevent, as the handler saw it:\n",
		control.OwnActions: "\nevent, as the rule saw it:\n",
	} {
		var b strings.Builder
		if err := writeLetter(&b, control.Letter{Handler: handler}, new(controlFlags), time.Now()); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v, of handler %s:\n%s", err, handler, b.String())
		}
	}
}

func TestItemsOfDeadLetter(t *testing.T) {
	event := handler.Event{Name: "web-1", Items: []handler.Event{{Name: "web-0"}, {Name: "web-1"}}}
	var b strings.Builder
	if err := writeLetter(&b, control.Letter{Name: "web-1", Event: &event}, new(controlFlags), time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nitems      2 (the last is of this object)\n", "\nitems:\n", "  name: web-0\n", "  name: web-1\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	event.Items = nil
	if err := writeLetter(&b, control.Letter{Name: "web-1", Event: &event}, new(controlFlags), time.Now()); err != nil || strings.Contains(b.String(), "items") {
		t.Errorf("without a group: %v\n%s", err, b.String())
	}
}
