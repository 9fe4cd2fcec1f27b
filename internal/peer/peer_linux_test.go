package peer

import (
	"os"
	"testing"
)

func TestParents(t *testing.T) {
	self := os.Getpid()
	if is, err := descendant(self, self); err != nil || is {
		t.Errorf("of itself: %v, %v", is, err)
	}
	if is, err := descendant(self, os.Getppid()); err != nil || !is {
		t.Errorf("of its parent: %v, %v", is, err)
	}
	if is, err := descendant(0, self); err != nil || is {
		t.Errorf("from outside the PID namespace: %v, %v", is, err)
	}
	if _, err := descendant(1<<22+1, self); err == nil {
		t.Error("a process that cannot be")
	}
}
