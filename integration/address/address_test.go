package address

import (
	"fmt"
	"net"
	"testing"
)

func TestNextIsFreeAndNew(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 100 {
		a, err := Next()
		if err != nil {
			t.Fatal(err)
		}
		if seen[a] {
			t.Fatalf("%s came twice", a)
		}
		seen[a] = true
		l, err := net.Listen("tcp", a)
		if err != nil {
			t.Fatalf("the address is in use: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An address on which another server listens, on all hosts, is passed over.
func TestNextSkipsPortsInUse(t *testing.T) {
	a, err := Next()
	if err != nil {
		t.Fatal(err)
	}
	next := net.JoinHostPort("0.0.0.0", fmt.Sprint(20_000+ports.Load()+1))
	l, err := net.Listen("tcp4", next)
	if err != nil {
		t.Skipf("%s is in use already: %v", next, err)
	}
	defer l.Close()
	b, err := Next()
	if err != nil {
		t.Fatal(err)
	}
	_, taken, _ := net.SplitHostPort(next)
	if _, port, _ := net.SplitHostPort(b); port == taken || b == a {
		t.Errorf("Next returned %s, which is in use", b)
	}
}

func TestWideIsFreeAndNew(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 20 {
		a, err := Wide()
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(a)
		l, err := net.Listen("tcp", ":"+port)
		if err != nil || seen[a] {
			t.Fatalf("%s is in use, or not new: %v", a, err)
		}
		seen[a] = true
		_ = l.Close() // it has no connections
	}
}
