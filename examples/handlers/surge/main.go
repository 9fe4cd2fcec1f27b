// Command surge is a handler for informd that notices when many objects of one namespace are in
// trouble at once. Which objects are in trouble, the rule says; surge counts them, and appends an
// alert to a file when there are too many.
//
// It is an example of a complete handler by a third party: it imports plugins/handler and
// plugins/serve and nothing else of informd.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

func main() { serve.Main(&surge{}) }

// surge is the handler: the effects around counter, which decides.
type surge struct {
	counter *counter
	file    *os.File
}

func (s *surge) Describe() handler.Description {
	return handler.Description{
		Name: "surge", Version: "1.0.0",
		ConfigSchema: json.RawMessage(schema),
	}
}

func (s *surge) Configure(_ context.Context, raw json.RawMessage) error {
	c, err := handler.DecodeConfig(raw, defaults)
	if err != nil {
		return err
	}
	// One write per line in append mode: other programs may write to the file, or rotate it, at the
	// same time.
	s.file, err = os.OpenFile(c.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	s.counter = newCounter(c.Threshold, c.Window, c.Repeat)
	return nil
}

func (s *surge) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	switch ev.Event {
	case handler.Added, handler.Updated, handler.Deleted, handler.Synced:
	default:
		return handler.Answer{}, handler.Reject(fmt.Errorf("unknown kind of event %q", ev.Event))
	}
	o := object{ev.Rule, ev.Namespace, ev.Resource, ev.Name}
	alert, raised := s.counter.see(o, ev.ID, ev.Event != handler.Deleted, time.Now())
	if !raised {
		return handler.Answer{}, nil
	}
	line, err := json.Marshal(alert)
	if err != nil {
		return handler.Answer{}, err
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		s.counter.unraise(alert, ev.ID) // the repeat of this event raises it again
		return handler.Answer{}, fmt.Errorf("alert not written: %w", err)
	}
	return handler.Answer{}, nil
}

// Drain makes sure that what was written outlives the machine, too.
func (s *surge) Drain(context.Context) error {
	return errors.Join(s.file.Sync(), s.file.Close())
}
