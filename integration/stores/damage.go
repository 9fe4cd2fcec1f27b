package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// damages is what became of the damaged copies of a store.
type damages struct {
	candidate
	flips   int // bytes that were changed in each
	died    int // a panic, a fault, a process that hangs
	wrong   int // something else than was ever written, and no error
	older   int // all as it was some transactions before, and no error
	noticed int // an error
	unhurt  int // all as it was written
}

// few and many are how many bytes are changed in a copy.
const (
	few  = 1
	many = 200
)

// damageAll writes a fifth of the objects into each store, closes it in order, and damages copies of it.
func damageAll(ctx context.Context, s scale, dir string) (all []damages, err error) {
	for _, c := range candidates {
		j := s.job(c, true, dir)
		j.Objects, j.Batch, j.Batches, j.Every = j.Objects/5, j.Batch/5, 10, 0
		if err := os.Mkdir(j.Dir, 0o700); err != nil {
			return nil, err
		}
		if _, err := ask[written](ctx, "write", j); err != nil {
			return nil, err
		}
		for _, flips := range []int{few, many} {
			d := damages{candidate: c, flips: flips}
			for seed := range s.seeds {
				if err := d.damage(ctx, j, uint64(seed), filepath.Join(dir, "broken")); err != nil {
					return nil, err
				}
			}
			all = append(all, d)
		}
	}
	return all, nil
}

// damage makes a copy, changes bytes in it, and has it opened, read and written to.
func (d *damages) damage(ctx context.Context, j job, seed uint64, dir string) error {
	if err := os.CopyFS(dir, os.DirFS(j.Dir)); err != nil {
		return err
	}
	if err := flip(dir, d.flips, rand.New(rand.NewPCG(seed, 3))); err != nil {
		return err
	}
	j.Dir = dir
	f, err := ask[finding](ctx, "check", j)
	how := "unharmed"
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		d.died++
		how = "died: " + lastWords(err.Error())
	case f.Noticed != "":
		d.noticed++
		how = f.Noticed
	case f.Wrong > 0:
		d.wrong++
		how = fmt.Sprintf("%d objects wrong", f.Wrong)
	case f.Older > 0:
		d.older++
		how = fmt.Sprintf("%d transactions older", f.Older)
	default:
		d.unhurt++
	}
	fmt.Fprintf(os.Stderr, "stores: %s, %d bytes flipped, seed %d: %.300s\n", j.Store, d.flips, seed, how)
	return os.RemoveAll(dir)
}

// lastWords is how a Go process says what it died of.
func lastWords(text string) string {
	for line := range strings.Lines(text) {
		if i := strings.Index(line, "panic: "); i >= 0 {
			return strings.TrimSpace(line[i:])
		}
		if i := strings.Index(line, "fatal error: "); i >= 0 {
			return strings.TrimSpace(line[i:])
		}
	}
	return text
}

// flip changes bytes of the files in a folder, wherever in them, each byte of each file as likely as another.
func flip(dir string, flips int, by *rand.Rand) error {
	var paths []string
	var sizes []int64
	var all int64
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			paths, sizes, all = append(paths, path), append(sizes, info.Size()), all+info.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	for range flips {
		at := by.Int64N(all)
		n := 0
		for ; at >= sizes[n]; n++ {
			at -= sizes[n]
		}
		if err := flipAt(paths[n], at, byte(1+by.IntN(255))); err != nil {
			return err
		}
	}
	return nil
}

func flipAt(path string, at int64, mask byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= mask
	_, err = f.WriteAt(b, at)
	return err
}
