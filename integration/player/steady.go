package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// steady appends a line for each event to the file that its argument names, with one write, before
// it acknowledges. The line has the name, the resourceVersion, the attempt, the version of this
// executable, the process id and the time in nanoseconds.
type steady struct {
	file          *os.File
	version, vice string
	pause         time.Duration // from the line to the answer
}

func newSteady(args []string) (handler.Handler, error) {
	if len(args) != 1 {
		return nil, errors.New("steady takes the name of a file")
	}
	version, vice, err := self()
	if err != nil {
		return nil, err
	}
	if vice == "crashes" {
		return nil, errors.New("this version cannot start")
	}
	file, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	pause, _ := time.ParseDuration(os.Getenv("PLAYER_PAUSE")) // none: none
	return &steady{file: file, version: version, vice: vice, pause: pause}, nil
}

func (s *steady) Describe() handler.Description {
	return handler.Description{Name: "player", Version: s.version}
}

func (s *steady) Configure(context.Context, json.RawMessage) error {
	if s.vice == "refuses" {
		return errors.New("this version knows no such config")
	}
	return nil
}

func (s *steady) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	_, err := fmt.Fprintf(s.file, "%s %s %d %s %d %d\n", ev.Name, ev.ResourceVersion,
		ev.Attempt, s.version, os.Getpid(), time.Now().UnixNano())
	time.Sleep(s.pause)
	return handler.Answer{}, err
}
