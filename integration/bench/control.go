package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// question is a line of JSON on the standard input of a process of the benchmark. The process
// answers on its standard output and ends with its input. A handler's standard input belongs to
// informd, so a handler reads questions from a socket.
type question struct {
	Ask string

	// For the load: how many updates of a resource to make, and how many per second; 0 means at
	// full speed, or with askBusy none.
	Resource string `json:",omitempty"`
	N        int    `json:",omitempty"`
	Rate     int    `json:",omitempty"`

	Text string `json:",omitempty"` // for askApply: what the config maps are to have
}

// The questions.
const (
	askReady   = "ready"   // of the load: where it is served; of others: whether they have come up
	askUpdate  = "update"  // of the load; answered when all are made, or without a rate at once
	askBusy    = "busy"    // of the load: to update a resource at a rate, until asked again
	askReplace = "replace" // of the load: to end the watches of a resource, and forget its history
	askBegin   = "begin"   // of a contestant: to watch
	askSeen    = "seen"    // of a contestant or handler: what it has seen
	askCache   = "cache"   // of a contestant: what it has in its cache
	askHeap    = "heap"    // of a contestant: its heap after garbage collection
	askTime    = "time"    // of a handler: to begin to note latencies
	askLatency = "latency" // of a handler: those that it has noted; how many until there are N
	askHang    = "hang"    // of a handler that hangs: to let go, and hang with N others from now on
	askReads   = "reads"   // of a handler: to read the cache N times
	askApply   = "apply"   // of a contestant without informd: to apply config maps
	// of a stock informer, or a handler that notes them: the updates since the last such request
	askArrivals = "arrivals"
)

type answer struct {
	Error   string           `json:",omitempty"`
	URL     string           `json:",omitempty"`
	First   map[string]int64 `json:",omitempty"` // resourceVersions, by resource
	Took    time.Duration    `json:",omitempty"` // to make the updates
	Seen    seen             `json:",omitzero"`
	Cache   tally            `json:",omitzero"`
	Heap    uint64           `json:",omitempty"`
	Latency latency          `json:",omitzero"`
	Reads   readings         `json:",omitzero"`

	Arrivals []arrival `json:",omitempty"`
}

// answerQuestions answers one question after the other, until there are no more.
func answerQuestions(in io.Reader, out io.Writer, reply func(question) (answer, error)) error {
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q question
		if err := questions.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := reply(q)
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// asked is the asking side of a process.
type asked struct {
	name      string
	questions *json.Encoder
	answers   *json.Decoder
}

func newAsked(name string, conn io.ReadWriter) *asked {
	return &asked{name, json.NewEncoder(conn), json.NewDecoder(conn)}
}

func (p *asked) ask(q question) (a answer, err error) {
	if err = p.questions.Encode(q); err == nil {
		err = p.answers.Decode(&a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", p.name, q.Ask, err)
	}
	return a, err
}

// child is a process of this program in one of its roles.
type child struct {
	*asked
	cmd   *exec.Cmd
	input io.Closer
}

// start starts a role and waits until it answers questions. The end of ctx kills it.
func (at site) start(ctx context.Context, role string, args ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, at.self, append([]string{role}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{newAsked(role, struct {
		io.Reader
		io.Writer
	}{out, in}), cmd, in}
	if _, err := c.ask(question{Ask: askReady}); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop ends the process. It kills one that does not end with its input.
func (c *child) stop() error {
	_ = c.input.Close() // if this fails, the process has ended, and Wait says how
	defer time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() }).Stop()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}
