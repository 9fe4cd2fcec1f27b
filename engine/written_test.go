package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/plugins/handler"
)

// What an operator has asked for is on the disk once Written returns: killed then, informd knows it.
func TestWhatIsWrittenSurvivesAKill(t *testing.T) {
	t.Parallel()
	const anyNumber = -1
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "1")
	h := &teller{answer: func(ev handler.Event) error { return handler.Reject(errors.New("never")) }}
	e, stop := l.start(mapSource+aRule("all", ""), h)
	defer stop()
	letters := awaitLetters(t, e, 2)
	for _, step := range []struct {
		name   string
		do     func() error
		paused bool
		left   int
	}{
		{"pause", func() error { return e.SetPaused("all", true) }, true, 2},
		{"drop", func() error { return e.DropLetter(letters[0].ID) }, true, 1},
		{"retry", func() error { return e.RetryLetter(letters[1].ID) }, true, 0},
		{"resume", func() error { return e.SetPaused("all", false) }, false, anyNumber}, // it is rejected again
	} {
		if err := errors.Join(step.do(), e.Written(t.Context())); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		killed := copyOf(t, l.dir)
		s, err := state.Open(killed, state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		rules, err := s.Rules()
		if err != nil || len(rules) != 1 || rules[0].Paused != step.paused {
			t.Errorf("%s: rules %+v, %v", step.name, rules, err)
		}
		found, err := s.Letters()
		if err != nil || step.left != anyNumber && len(found) != step.left {
			t.Errorf("%s: %d letters, %v; want %d", step.name, len(found), err, step.left)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := s.Run(ended); err != nil {
			t.Error(err)
		}
	}
}

// copyOf returns a copy of the directory of a daemon that runs, as the next one finds it if that is
// killed now.
func copyOf(t *testing.T, dir string) (killed string) {
	t.Helper()
	killed = filepath.Join(t.TempDir(), "killed")
	copied := fs.ErrNotExist // a file of a store that runs may go meanwhile
	for errors.Is(copied, fs.ErrNotExist) {
		copied = errors.Join(os.RemoveAll(killed), os.CopyFS(killed, os.DirFS(dir)))
	}
	if copied != nil {
		t.Fatal(copied)
	}
	return killed
}
