package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	durable "github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/targets"
)

// claims measures the table of targets alone: what one that is done takes in memory and on disk,
// and how fast a restart restores it. Each belongs to one of many source objects.
type claims struct {
	at   site
	n    int
	runs []claimed
}

type claimed struct {
	heap, disk float64 // bytes
	restored   float64 // per second of CPU
}

// claimsOfOne is how many targets a source object has.
const claimsOfOne = 100

func (c *claims) measure(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.at.dir, "t")
	if err != nil {
		return err
	}
	var took claimed
	empty := filepath.Join(dir, "empty")
	if err := c.in(ctx, empty, 0, func(*child) error { return nil }); err != nil {
		return err
	}
	full := filepath.Join(dir, "full")
	err = c.in(ctx, full, c.n, func(p *child) error {
		before, err := p.ask(question{Ask: askHeap})
		if err != nil {
			return err
		}
		if _, err := p.ask(question{Ask: askUpdate}); err != nil {
			return err
		}
		after, err := p.ask(question{Ask: askHeap})
		took.heap = (float64(after.Heap) - float64(before.Heap)) / float64(c.n)
		return err
	})
	if err != nil {
		return err
	}
	took.disk = float64(sizeOf(full)-sizeOf(empty)) / float64(c.n)
	err = c.in(ctx, full, c.n, func(p *child) error {
		before, err := used(p.pid())
		if err != nil {
			return err
		}
		a, err := p.ask(question{Ask: askSeen})
		if err == nil && a.Seen.Objects.N != c.n {
			err = fmt.Errorf("restored %d of %d targets", a.Seen.Objects.N, c.n)
		}
		if err != nil {
			return err
		}
		after, err := used(p.pid())
		took.restored = float64(c.n) / max(after.cpu-before.cpu, tick).Seconds()
		return err
	})
	if err == nil {
		c.runs = append(c.runs, took)
	}
	return err
}

// tick is how exactly the kernel counts CPU.
const tick = 10 * time.Millisecond

// in runs a process with a table of n targets whose state is in dir.
func (c *claims) in(
	ctx context.Context, dir string, n int, do func(*child) error,
) (err error) {
	p, err := c.at.start(ctx, "claims", dir, strconv.Itoa(n))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	return do(p)
}

// sizeOf returns the bytes of all files in a directory.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, f fs.DirEntry, err error) error {
		if err != nil {
			return nil // nothing removes files here
		}
		if info, err := f.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}

// serveClaims keeps targets in tables. Its arguments are the directory of a state and how many
// targets there are. Asked for updates, it has them in memory, and writes them into the state when
// it ends. Asked what it has seen, it restores what the state has.
func serveClaims(_ context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("arguments %q", args)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	store, err := durable.Open(args[0], durable.Options{})
	if err == nil {
		err = store.Bind(durable.Cluster{UID: "bench"})
	}
	if err != nil {
		return err
	}
	var inMemory, restored *targets.Table
	err = answerQuestions(os.Stdin, os.Stdout, func(q question) (a answer, err error) {
		switch q.Ask {
		case askReady:
		case askHeap:
			a.Heap = heap()
		case askUpdate:
			inMemory = targets.New(nil)
			fillTable(inMemory, n)
		case askSeen:
			restored = targets.New(nil)
			a.Seen.Objects.N, err = restore(store, restored)
		default:
			err = errors.New("not of a table of targets")
		}
		return a, err
	})
	if inMemory != nil {
		store.Begin()
		fillTable(targets.New(store), n)
		store.End()
	}
	runtime.KeepAlive(restored)
	ended, end := context.WithCancel(context.Background())
	end() // so that Run only writes what there is
	return errors.Join(err, store.Run(ended))
}

// fillTable has many source objects ask for targets, which are done.
func fillTable(table *targets.Table, n int) {
	now := time.Now()
	for left := n; left > 0; left -= claimsOfOne {
		key := delta.Key{Namespace: "team", Name: fmt.Sprint("secret-", left)}
		wave := table.Begin(targets.Asker{Rule: "copy-secrets", Key: key}, 1)
		var all []targets.Target
		for i := range min(left, claimsOfOne) {
			all = append(all, targets.Target{
				Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
				Key:      delta.Key{Namespace: fmt.Sprint("namespace-", i), Name: key.Name},
			})
		}
		for _, at := range all {
			wave.Ask(at, true)
		}
		wave.Asked(true)
		for _, at := range all {
			attempt, _ := wave.Try(at, now)
			attempt.Settle(targets.Outcome{State: targets.Done}, now)
		}
	}
}

// restore restores a table from the notes of a state, and returns how many there are.
func restore(store *durable.Store, table *targets.Table) (n int, err error) {
	notes, err := store.Notes()
	if err == nil {
		table.Restore(slices.Values(notes))
	}
	return len(notes), err
}
