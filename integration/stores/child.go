package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// patience is how long a child may take.
const patience = 5 * time.Minute

// ask runs this program in a role and reads its result. The error has what it said last.
func ask[T any](ctx context.Context, role string, j job) (result T, err error) {
	arg, err := json.Marshal(j)
	if err != nil {
		return result, err
	}
	self, err := os.Executable()
	if err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, role, string(arg))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return result, fmt.Errorf("%s: %s: %w: %.2000s", j.Store, role, err, stderr.String())
	}
	return result, json.Unmarshal(out, &result)
}

// serve is the other side.
func serve(role func(job) (any, error), arg string) error {
	var j job
	if err := json.Unmarshal([]byte(arg), &j); err != nil {
		return err
	}
	result, err := role(j)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

func (j job) open() (store, error) {
	for _, c := range append(candidates, none) {
		if c.name == j.Store {
			return c.open(j.Dir)
		}
	}
	return nil, fmt.Errorf("no store is called %q", j.Store)
}
