package host

import (
	"errors"
	"net"
	"strings"
	"testing"
)

// What fails for the same reason is said in the same words: the log has it once.
func TestReasonsStayTheSame(t *testing.T) {
	for said, want := range map[string]string{
		"read tcp 127.0.0.1:49546->127.0.0.4:39351: read: connection reset by peer":     "read tcp 127.0.0.4:39351: read: connection reset by peer",
		"read tcp [fd00::1%eth0]:49546->[fd00::2]:8443: read: connection reset by peer": "read tcp [fd00::2]:8443: read: connection reset by peer",
		"lookup a on 10.0.0.10:53: read udp 10.1.2.3:51234->10.0.0.10:53: i/o timeout":  "lookup a on 10.0.0.10:53: read udp 10.0.0.10:53: i/o timeout",
		"dial tcp 10.0.0.1:8443: connect: connection refused":                           "dial tcp 10.0.0.1:8443: connect: connection refused",
		"tls: a->b": "tls: a->b",
	} {
		if got := withoutPort(said); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	one := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 40001}, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1}, Err: errors.New("reset")}
	if got := explainTLS(one).Error(); strings.Contains(got, "40001") {
		t.Error(got)
	}
}

// A DNS server that gives no answer is named by what it fails at, each time alike.
func TestLookUpFails(t *testing.T) {
	quiet, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := quiet.LocalAddr().String()
	_ = quiet.Close() // nobody is there
	spec := RemoteSpec{Host: "oncall.test", Port: 1, DNS: server}
	said := make(map[string]bool)
	for range 3 {
		got, err := spec.lookUp(t.Context())
		if err == nil || len(got) > 0 {
			t.Fatalf("%v, %v", got, err)
		}
		said[err.Error()] = true
	}
	if len(said) != 1 {
		t.Errorf("%v", said)
	}
}
