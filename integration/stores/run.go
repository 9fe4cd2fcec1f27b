package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// scale is how much is measured.
type scale struct {
	objects, batch, seeds int
	every, lasts          time.Duration
}

// result is all that is known of a store.
type result struct {
	candidate
	written
	readBack
	onDisk int
	idle   time.Duration // CPU of who makes the changes and writes none
}

func run(ctx context.Context, s scale) (string, error) {
	dir, err := os.MkdirTemp("", "stores") // $TMPDIR is to be on the disk that is meant
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	text := conditions(s)
	for _, packed := range []bool{true, false} {
		results, err := measureAll(ctx, s, packed, dir)
		if err != nil {
			return "", err
		}
		text += table(results, packed)
	}
	damaged, err := damageAll(ctx, s, dir)
	if err != nil {
		return "", err
	}
	return text + damageTable(damaged, s), nil
}

func (s scale) job(c candidate, packed bool, dir string) job {
	return job{Store: c.name, Packed: packed, Dir: filepath.Join(dir, c.name), Objects: s.objects,
		Batches: int(s.lasts / s.every), Batch: s.batch, Every: s.every}
}

func measureAll(ctx context.Context, s scale, packed bool, dir string) (results []result, err error) {
	for _, c := range candidates {
		r, err := measure(ctx, c, s.job(c, packed, dir))
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	idle, err := ask[written](ctx, "write", s.job(none, packed, dir))
	for i := range results {
		results[i].idle = idle.CPU
	}
	return results, err
}

// measure has one store written and read back.
func measure(ctx context.Context, c candidate, j job) (r result, err error) {
	r.candidate = c
	fmt.Fprintf(os.Stderr, "stores: %s, packed: %v\n", c.name, j.Packed)
	if err := os.Mkdir(j.Dir, 0o700); err != nil {
		return r, err
	}
	if r.written, err = ask[written](ctx, "write", j); err != nil {
		return r, err
	}
	if r.onDisk, err = onDisk(j.Dir); err != nil {
		return r, err
	}
	if r.readBack, err = ask[readBack](ctx, "read", j); err != nil {
		return r, err
	}
	return r, os.RemoveAll(j.Dir)
}
