package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

// What a neighbour does as long as there is a file, besides acknowledging its events.
const (
	exits  = "exits"
	stops  = "stops"
	floods = "floods"
	burns  = "burns"
)

// neighbour is a handler process beside the one that is measured. Its arguments are a vice and a
// file's name.
type neighbour struct{ vice, file string }

func serveNeighbour(_ context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("arguments %q", args)
	}
	serve.Main(&neighbour{args[0], args[1]})
	return nil
}

// given is the file in which a neighbour that gives in to its vice leaves its number.
func given(file string) string { return file + ".given" }

func (n *neighbour) Configure(context.Context, json.RawMessage) error {
	go func() {
		for ; ; time.Sleep(10 * time.Millisecond) {
			if !n.tempted() {
				continue
			}
			pid := []byte(strconv.Itoa(os.Getpid()))
			if err := os.WriteFile(given(n.file), pid, 0o600); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			n.giveIn()
		}
	}()
	return nil
}

func (n *neighbour) tempted() bool {
	_, err := os.Stat(n.file)
	return err == nil
}

func (n *neighbour) giveIn() {
	switch n.vice {
	case exits:
		os.Exit(3)
	case stops:
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // which is the end of it
	case floods:
		stderr := os.NewFile(2, "stderr") // serve.Main has another one
		line := append(bytes.Repeat([]byte("x"), 500), '\n')
		for n.tempted() {
			for range 100 {
				_, _ = stderr.Write(line) // it is read as long as informd lives
			}
		}
	case burns:
		for sum := 0; n.tempted(); {
			for i := range 1_000_000 {
				sum += i
			}
		}
	}
}

func (n *neighbour) Handle(context.Context, handler.Event) (handler.Answer, error) {
	return handler.Answer{}, nil
}
