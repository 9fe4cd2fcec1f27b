package process

import (
	"strings"
	"testing"
)

// An accepted handshake is one of go-plugin's, with a socket in the process's own directory.
func FuzzHandshake(f *testing.F) {
	f.Add("1|1|unix|/run/x/plugin1|grpc|")
	f.Add("1|1|unix|/run/x/../y|grpc|" + strings.Repeat("A", 60))
	f.Add("1|1|unix|/run/x|grpc|")
	f.Add("|||||")
	f.Fuzz(func(t *testing.T, line string) {
		h, err := parseHandshake(line, "/run/x")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("unfit for a log: %q", err)
			}
			return
		}
		parts := strings.Split(line, "|")
		if strings.TrimSpace(parts[0]) != "1" || parts[1] != "1" || parts[2] != "unix" || strings.TrimSpace(parts[4]) != "grpc" ||
			!strings.HasPrefix(h.socket, "/run/x/") {
			t.Errorf("accepted %q", line)
		}
	})
}
