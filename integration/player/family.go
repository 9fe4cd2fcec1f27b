package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"syscall"

	"github.com/informd/informd/plugins/handler"
)

// family starts processes when it gets its config: a child in its process group, a child in a
// session of its own, and a grandchild in another session whose parent has ended. Each holds
// family's descriptors and sleeps for a day.
type family struct{}

func newFamily([]string) (handler.Handler, error) { return family{}, nil }

func (family) Configure(context.Context, json.RawMessage) error {
	for _, child := range []struct {
		script string
		setsid bool
	}{
		{"exec sleep 86400", false},
		{"trap '' HUP INT TERM; sleep 86400", true},
		{"setsid sleep 86400 & exit 0", true},
	} {
		cmd := exec.Command("/bin/sh", "-c", child.script)
		cmd.Stderr = os.NewFile(2, "stderr")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: child.setsid}
		if err := cmd.Start(); err != nil {
			return err
		}
		go func() { _ = cmd.Wait() }()
	}
	return nil
}

func (family) Handle(context.Context, handler.Event) (handler.Answer, error) {
	return handler.Answer{}, nil
}
