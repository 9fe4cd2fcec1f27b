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

// The vices: what a neighbour does while its file exists, besides acknowledging its events.
const (
	exits  = "exits"
	stops  = "stops"
	floods = "floods"
	burns  = "burns"
)

// neighbour is a handler process beside the measured one. Its arguments are a vice and the name of
// a file.
type neighbour struct{ vice, file string }

func serveNeighbour(_ context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("arguments %q", args)
	}
	serve.Main(&neighbour{args[0], args[1]})
	return nil
}

// given returns the file into which a neighbour that gives in to its vice writes its process id.
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
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // the benchmark continues or kills it
	case floods:
		stderr := os.NewFile(2, "stderr") // serve.Main has replaced os.Stderr
		line := append(bytes.Repeat([]byte("x"), 500), '\n')
		for n.tempted() {
			for range 100 {
				_, _ = stderr.Write(line) // informd reads it as long as it runs
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
