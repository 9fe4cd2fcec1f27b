package records

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWriteRecord(t *testing.T) {
	for _, w := range []Write{
		{Resource: "pods", Key: key("a"), To: "1", Depth: 1, Chain: []string{"r"}},
		{N: MaxWrite, At: 10 * time.Minute, Group: "apps", Resource: "deployments", Key: key("a"), From: "1", To: "deletion of u", Depth: 9, Chain: []string{"r", "q", "r"}},
	} {
		b := AppendWrite(nil, &w)
		got, err := ReadWrite(b)
		if diff := cmp.Diff(w, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		for n := range b {
			if _, err := ReadWrite(b[:n]); err == nil {
				t.Errorf("%d bytes of %d make a write", n, len(b))
			}
		}
	}
}

// What makes no sense, or what only a later informd understands, is an error.
func TestWriteRecordThatMakesNoSense(t *testing.T) {
	sane := Write{Resource: "pods", Key: key("a"), To: "1", Depth: 1, Chain: []string{"r"}}
	for name, spoil := range map[string]func(*Write){
		"no rule":       func(w *Write) { w.Chain = nil },
		"no version":    func(w *Write) { w.To = "" },
		"a high number": func(w *Write) { w.N = MaxWrite + 1 },
		"a long time":   func(w *Write) { w.At = (maxRan + 1) * time.Second },
		"a great depth": func(w *Write) { w.Depth = maxDepth + 1 },
	} {
		w := sane
		spoil(&w)
		if _, err := ReadWrite(AppendWrite(nil, &w)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	later := AppendWrite(nil, &sane)
	later[0]++
	if _, err := ReadWrite(later); err == nil {
		t.Error("a later version: no error")
	}
}
