package connect

import (
	"errors"
	"net"
	"strings"
	"testing"
)

// A failure that repeats reads the same each time, so that it is logged once.
func TestReasonsStayTheSame(t *testing.T) {
	for said, want := range map[string]string{
		"read tcp 127.0.0.1:49546->127.0.0.4:39351: read: connection reset by peer":     "read tcp 127.0.0.4:39351: read: connection reset by peer",
		"read tcp [fd00::1%eth0]:49546->[fd00::2]:8443: read: connection reset by peer": "read tcp [fd00::2]:8443: read: connection reset by peer",
		"lookup a on 10.0.0.10:53: read udp 10.1.2.3:51234->10.0.0.10:53: i/o timeout":  "lookup a on 10.0.0.10:53: read udp 10.0.0.10:53: i/o timeout",
		"dial tcp 10.0.0.1:8443: connect: connection refused":                           "dial tcp 10.0.0.1:8443: connect: connection refused",
		"tls: a->b": "tls: a->b",
	} {
		if got := WithoutPort(said); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	one := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 40001}, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1}, Err: errors.New("reset")}
	if got := ExplainTLS(one).Error(); strings.Contains(got, "40001") {
		t.Error(got)
	}
}
