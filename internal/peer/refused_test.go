package peer

import (
	"testing"
	"time"
)

func TestRefused(t *testing.T) {
	var r Refused
	now := time.Now()
	if r.Has(1, now) {
		t.Error("nobody was refused")
	}
	r.Add(1, now)
	if !r.Has(1, now.Add(refusedFor-1)) || r.Has(1, now.Add(refusedFor)) || r.Has(2, now) {
		t.Error("a refusal holds for a second, for one process")
	}
	for pid := range 10 * maxRefused {
		r.Add(pid, now)
		if len(r.since) > maxRefused {
			t.Fatalf("%d are remembered", len(r.since))
		}
	}
	if !r.Has(10*maxRefused-1, now) {
		t.Error("the newest is forgotten")
	}
}
