package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// victim is healthy, and gives in to its vice as long as a file exists. If the file contains the
// name of an object, only events of that object count. Its arguments are the vice and the file.
type victim struct {
	plain
	vice, file string
}

func newVictim(args []string) (handler.Handler, error) {
	if len(args) != 2 {
		return nil, errors.New("victim takes a vice and the name of a file")
	}
	v := &victim{vice: args[0], file: args[1]}
	if v.vice == "exits-at-start" && v.tempted() {
		return nil, errors.New("no such database")
	}
	if v.vice == "floods" {
		go v.flood()
	}
	return v, nil
}

func (v *victim) tempted() bool {
	_, err := os.Stat(v.file)
	return err == nil
}

func (v *victim) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	poison, err := os.ReadFile(v.file)
	if err != nil || len(poison) > 0 && string(poison) != ev.Name {
		return handler.Answer{}, nil
	}
	switch v.vice {
	case "exits":
		slog.Error("these are my last words")
		os.Exit(3)
	case "faults":
		go func() { _ = *(*int)(nil) }() // nothing can recover from that
		<-ctx.Done()
	case "freezes":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
	return handler.Answer{}, nil
}

// flood writes without end to the descriptor from which informd reads the log. serve.Main replaces
// os.Stderr, which is another one.
func (v *victim) flood() {
	stderr := os.NewFile(2, "stderr")
	line := make([]byte, 512)
	for i := range line {
		line[i] = 'x'
	}
	line[len(line)-1] = '\n'
	for {
		if !v.tempted() {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		for range 1000 {
			if _, err := stderr.Write(line); err != nil {
				return
			}
		}
	}
}
