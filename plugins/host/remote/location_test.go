package remote

import (
	"net"
	"testing"
)

// A DNS server that does not answer is reported in the same words each time.
func TestLookUpFails(t *testing.T) {
	// A socket connected elsewhere keeps its port, and refuses data from others.
	busy, err := net.Dial("udp", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	server := busy.LocalAddr().String()
	spec := Location{Host: "oncall.test", Port: 1, DNS: server}
	said := make(map[string]bool)
	for range 3 {
		got, err := spec.LookUp(t.Context())
		if err == nil || len(got) > 0 {
			t.Fatalf("%v, %v", got, err)
		}
		said[err.Error()] = true
	}
	if len(said) != 1 {
		t.Errorf("%v", said)
	}
}
