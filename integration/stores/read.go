package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// readBack is what reading all of a store came to.
type readBack struct {
	Took time.Duration // to open it and read it
	CPU  time.Duration
}

// read is a process that reads everything, as informd does when it starts.
func read(j job) (r readBack, err error) {
	start := time.Now()
	s, err := j.open()
	if err != nil {
		return r, err
	}
	n, copied := 0, []byte(nil)
	err = s.each(func(_, value []byte) error {
		n, copied = n+1, append(copied[:0], value...)
		return nil
	})
	if err != nil {
		return r, err
	}
	r.Took = time.Since(start)
	if n != j.Objects {
		return r, fmt.Errorf("%d objects are there, of %d", n, j.Objects)
	}
	u, err := used()
	r.CPU = u.cpu
	return r, err
}

// finding is what became of a store that was damaged, as far as its process lived to tell.
type finding struct {
	Noticed string // the error, if there was one
	Older   int    // all is as it was so many transactions before the last one
	Wrong   int    // objects with another value, or missing, and never was it so; or there although they should not be
}

// check is a process that opens a store, compares everything in it with what was written, and writes a little.
func check(j job) (f finding, err error) {
	s, err := j.open()
	if err != nil {
		return finding{Noticed: "open: " + err.Error()}, nil
	}
	found := slices.Repeat([]int{-1}, j.Objects)
	if f.Wrong, err = j.find(s, found); err != nil {
		return finding{Noticed: "read: " + err.Error()}, nil
	}
	wrong := 0
	for _, counts := range history(j) {
		wrong = 0
		for i, n := range counts {
			if n != found[i] {
				wrong++
			}
		}
		if f.Older++; wrong == 0 {
			f.Older = 0
		}
	}
	if f.Older > (j.Objects+j.Batch-1)/j.Batch+j.Batches-1 { // never
		f.Older, f.Wrong = 0, max(f.Wrong, wrong)
	}
	o := newObjects(j.Packed)
	for i := range 100 {
		if err := s.write([]change{{key(i), bytes.Clone(o.value(i, 0))}}); err != nil {
			f.Noticed = "write: " + err.Error()
			return f, nil
		}
	}
	if err := s.close(); err != nil {
		f.Noticed = "close: " + err.Error()
	}
	return f, nil
}

// find tells how many changes each object has had by the value that is there, and how much is there that nobody wrote.
func (j job) find(s store, found []int) (strange int, err error) {
	numbers := make(map[string]int, j.Objects)
	for i := range j.Objects {
		numbers[string(key(i))] = i
	}
	o := newObjects(j.Packed)
	err = s.each(func(key, value []byte) error {
		i, known := numbers[string(key)]
		if !known {
			strange++
			return nil
		}
		for n := range j.Batches + 1 {
			if bytes.Equal(value, o.value(i, n)) {
				found[i] = n
				return nil
			}
		}
		strange++
		return nil
	})
	return strange, err
}
