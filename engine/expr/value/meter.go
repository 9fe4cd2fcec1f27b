package value

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of one evaluation.
const (
	MaxSteps  = 100_000 // operators, calls and turns of a loop
	MaxMemory = 8 << 20 // bytes that are allocated, whether or not they are still in use
)

// Error is why an evaluation failed. Its text never holds contents of objects, and is the same for
// every failure of one kind.
type Error string

func (e Error) Error() string { return string(e) }

// Errorf makes an Error. Its arguments are names of operators, functions, kinds and keys that stand
// in the expression's text, never values.
func Errorf(format string, args ...any) error { return Error(fmt.Sprintf(format, args...)) }

// IsUnreadable reports whether an evaluation failed because it could not parse a text as a number,
// time, quantity or whatever else the expression reads from it. If the text comes from an object,
// the object is at fault. Most other errors are about kinds of values, which the expression has to
// expect.
func IsUnreadable(err error) bool {
	e, ok := errors.AsType[Error](err)
	return ok && (strings.HasSuffix(string(e), " cannot parse its argument") ||
		strings.HasSuffix(string(e), ": the string cannot be parsed") ||
		strings.HasPrefix(string(e), string(errPattern)) ||
		e == errNoCertificate || e == errDER || e == errOtherPEM || e == ErrYear)
}

// ErrYear is the error about a time that no calendar has.
const ErrYear Error = "the expression gives a time outside of the years 1 to 9999"

// The errors of evaluations that exceed a bound.
var (
	ErrSteps  = Errorf("step budget of %d exceeded", MaxSteps)
	ErrMemory = Errorf("memory budget of %d MiB exceeded", MaxMemory>>20)
	ErrDepth  = Errorf("value nests deeper than %d", maxDepth)
)

// maxDepth bounds how deep a value that leaves an expression may nest, and text that it reads.
const maxDepth = 1000

// Meter is what is left of an evaluation's budgets. Operators and functions take what they need
// from it beforehand. It is not safe for concurrent use.
type Meter struct {
	Steps int
	Bytes int
}

// Step takes one step.
func (m *Meter) Step() error {
	m.Steps--
	if m.Steps < 0 {
		return ErrSteps
	}
	return nil
}

// Scan takes the steps that looking at n bytes costs.
func (m *Meter) Scan(n int) error {
	m.Steps -= 1 + n/256
	if m.Steps < 0 {
		return ErrSteps
	}
	return nil
}

// Alloc takes n bytes.
func (m *Meter) Alloc(n int) error {
	if n < 0 || n > m.Bytes {
		return ErrMemory
	}
	m.Bytes -= n
	return nil
}

// What things cost, in bytes, on the safe side.
const (
	SizeValue = 16 // an interface in a list
	SizeEntry = 48 // an entry of a map
	sizeBoxed = 8  // a number behind an interface
)

// AllocList takes the memory of a list of n values.
func (m *Meter) AllocList(n int) error {
	if n > MaxMemory {
		return ErrMemory
	}
	return m.Alloc(2*SizeValue + n*SizeValue)
}

// AllocMap takes the memory of a map of n entries. The smallest map already has room for eight.
func (m *Meter) AllocMap(n int) error {
	if n > MaxMemory {
		return ErrMemory
	}
	return m.Alloc(SizeEntry + max(n, 8)*SizeEntry)
}

// HasRoomForMaps reports whether the memory of n maps is left, if they are empty. It takes nothing.
func (m *Meter) HasRoomForMaps(n int) bool { return n <= m.Bytes/(9*SizeEntry) }

// AllocTree takes the memory of a decoded tree, and a step for each of its values.
func (m *Meter) AllocTree(v any) error {
	if err := m.Step(); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		return m.Alloc(16 + len(v))
	case []any:
		if err := m.AllocList(len(v)); err != nil {
			return err
		}
		for _, item := range v {
			if err := m.AllocTree(item); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := m.AllocMap(len(v)); err != nil {
			return err
		}
		for key, item := range v {
			if err := m.Alloc(len(key)); err != nil {
				return err
			}
			if err := m.AllocTree(item); err != nil {
				return err
			}
		}
	}
	return nil
}
