package state

import (
	"context"
	"testing"
)

// A Store in memory need not run to be written: Run with a context that has ended writes all.
func TestMemoryOutlastsTheStore(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	memory := NewInMemory()
	for range 2 {
		s := open(t, "/state", Options{Memory: memory})
		rules, err := s.Rules()
		if err != nil {
			t.Fatal(err)
		}
		if s.IsNew() != (len(rules) == 0) {
			t.Errorf("new: %v, rules: %+v", s.IsNew(), rules)
		}
		s.Begin()
		s.PutRule(RuleMemory{Name: "r", Resource: "v1/pods"})
		s.End()
		if err := s.Run(ended); err != nil {
			t.Fatal(err)
		}
	}
	if s := open(t, "/state", Options{Memory: NewInMemory()}); !s.IsNew() {
		t.Error("another memory has the files of the first")
	} else if err := s.Run(ended); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkMemory opens and closes a store in memory: what a simulated restart costs.
func BenchmarkMemory(b *testing.B) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	memory := NewInMemory()
	for b.Loop() {
		s := open(b, "/state", Options{Memory: memory})
		if err := s.Run(ended); err != nil {
			b.Fatal(err)
		}
	}
}
