package handlertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest"
	"github.com/informd/informd/plugins/serve"
)

// TestMain re-executes the test binary as the handler under test.
func TestMain(m *testing.M) {
	if os.Getenv("HANDLER") != "" {
		serve.Main(&writer{})
		return
	}
	if vice := os.Getenv("ROGUE"); vice != "" {
		if err := serveRogue(vice); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// writer writes the last object that it was given to the file that its config names.
type writer struct{ file string }

func (w *writer) Configure(_ context.Context, config json.RawMessage) error {
	var fields map[string]string
	if err := json.Unmarshal(config, &fields); err != nil {
		return err
	}
	if w.file = fields["file"]; w.file == "" || len(fields) != 1 {
		return errors.New("file is required, and nothing else is known")
	}
	return nil
}

func (w *writer) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	return handler.Answer{}, os.WriteFile(w.file, ev.Object, 0o600)
}

func TestSuite(t *testing.T) {
	file := t.TempDir() + "/out"
	config, err := json.Marshal(map[string]string{"file": file})
	if err != nil {
		t.Fatal(err)
	}
	handlertest.Run(t, handlertest.Options{
		Command: []string{os.Args[0]},
		Env:     []string{"HANDLER=1", "GORACE=atexit_sleep_ms=0 halt_on_error=1"},
		Config:  config,
		Integers: func(ev handler.Event) error {
			got, err := os.ReadFile(file)
			if err == nil && string(got) != string(ev.Object) {
				err = fmt.Errorf("got %s", got)
			}
			return err
		},
	})
}
