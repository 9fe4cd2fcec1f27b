package main

import (
	"bytes"
	"iter"
	"math/rand/v2"
	"slices"
	"time"
)

// written is what writing came to.
type written struct {
	Fill            time.Duration // until every object was written once
	Changes         int           // after that
	CPU             time.Duration // of them, closing the store included
	Bytes           int           // sent to the disk meanwhile
	Commits         []time.Duration
	RSS, Anonymous  int // KiB, after the changes: all that is resident, and what of it is no file's
	PlainSize, Size int // of a value, bytes
}

// history is which changes are made, batch by batch: the numbers of the objects in order of their keys, and how many changes
// each object has had with it, -1 where it is yet to be written. First comes every object once, and then so many batches of
// objects by chance, the same ones for every store.
func history(j job) iter.Seq2[[]int, []int] {
	return func(yield func(batch, counts []int) bool) {
		counts := slices.Repeat([]int{-1}, j.Objects)
		next := func(batch []int) bool {
			for _, i := range batch {
				counts[i]++
			}
			slices.SortFunc(batch, func(a, b int) int { return bytes.Compare(key(a), key(b)) })
			return yield(batch, counts)
		}
		for i := 0; i < j.Objects; i += j.Batch {
			var batch []int
			for n := i; n < min(i+j.Batch, j.Objects); n++ {
				batch = append(batch, n)
			}
			if !next(batch) {
				return
			}
		}
		by := rand.New(rand.NewPCG(1, 2))
		for range j.Batches {
			if !next(by.Perm(j.Objects)[:j.Batch]) {
				return
			}
		}
	}
}

// write is a process that writes.
func write(j job) (w written, err error) {
	s, err := j.open()
	if err != nil {
		return w, err
	}
	o := newObjects(j.Packed)
	w.PlainSize, w.Size = len(o.plain(1, 1)), len(o.value(1, 1))
	var before usage
	var due time.Time
	start, fill := time.Now(), (j.Objects+j.Batch-1)/j.Batch // batches
	for numbers, counts := range history(j) {
		batch := make([]change, len(numbers))
		for n, i := range numbers {
			batch[n] = change{key(i), bytes.Clone(o.value(i, counts[i]))}
		}
		if fill--; fill >= 0 {
			if err := s.write(batch); err != nil {
				return w, err
			}
			continue
		}
		if fill == -1 {
			w.Fill = time.Since(start)
			if before, err = rested(j.Every); err != nil {
				return w, err
			}
			due = time.Now().Add(j.Every)
		}
		time.Sleep(time.Until(due))
		due = due.Add(j.Every)
		began := time.Now()
		if err := s.write(batch); err != nil {
			return w, err
		}
		w.Commits = append(w.Commits, time.Since(began))
		w.Changes += len(batch)
	}
	atEnd, err := used()
	if err != nil {
		return w, err
	}
	w.RSS, w.Anonymous = atEnd.rss, atEnd.anonymous
	if err := s.close(); err != nil {
		return w, err
	}
	after, err := used()
	w.CPU, w.Bytes = after.cpu-before.cpu, after.written-before.written
	return w, err
}

// rested waits until the process has done next to nothing for a moment, as it does after the compactions of what was
// written, but forty moments at most, and returns what it has used.
func rested(moment time.Duration) (u usage, err error) {
	before := time.Duration(-1)
	for range 40 {
		if u, err = used(); err != nil || before >= 0 && u.cpu-before < 10*time.Millisecond {
			break
		}
		before = u.cpu
		time.Sleep(moment)
	}
	return u, err
}
