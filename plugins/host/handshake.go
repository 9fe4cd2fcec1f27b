package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/go-plugin"

	"github.com/informd/informd/plugins/handlerpb"
)

// maxHandshake is how long the handshake line may be; a certificate in it takes about 1 KiB.
const maxHandshake = 16 << 10

// handshake is the line that a handler writes to standard output when it serves:
//
//	CORE|VERSION|unix|SOCKET|grpc|CERTIFICATE
type handshake struct {
	line   string
	socket string // its path, directly in the process's own directory
	tls    bool   // the handler answered with a certificate of its own
}

// readHandshake reads the first line of standard output, and nothing after it that is not in the pipe already: rest is
// what came along. The caller closes the pipe, or sets its deadline, to end the wait.
func readHandshake(stdout *os.File, socketDir string) (h handshake, rest []byte, err error) {
	buf := make([]byte, 0, maxHandshake)
	for {
		n, err := stdout.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if line, rest, found := bytes.Cut(buf, []byte{'\n'}); found {
			h, err := parseHandshake(string(line), socketDir)
			return h, rest, err
		}
		switch {
		case len(buf) == cap(buf):
			return handshake{}, nil, notHandshake(buf)
		case err != nil && len(buf) > 0:
			return handshake{}, nil, notHandshake(buf)
		case err != nil:
			return handshake{}, nil, errNoHandshake
		}
	}
}

// errNoSocket: what the handshake names is something else.
var errNoSocket = fmt.Errorf("what it says it listens on is no socket")

// errNoHandshake: the process closed its standard output, by ending for instance, and had said nothing.
var errNoHandshake = fmt.Errorf("it closed its standard output without a handshake: is it a handler?")

func notHandshake(seen []byte) error {
	return fmt.Errorf("its first line on standard output is no handshake but %q: is it a handler, and does it print nothing before it serves?",
		printable(string(seen), 200))
}

// parseHandshake checks everything that go-plugin would go by, so that go-plugin meets no surprise and the operator
// gets a reason.
func parseHandshake(line, socketDir string) (handshake, error) {
	line = strings.TrimSpace(line)
	parts := strings.Split(line, "|")
	if len(parts) < 5 {
		return handshake{}, notHandshake([]byte(line))
	}
	if _, err := strconv.Atoi(parts[0]); err != nil {
		return handshake{}, notHandshake([]byte(line))
	}
	if parts[0] != strconv.Itoa(plugin.CoreProtocolVersion) {
		return handshake{}, fmt.Errorf("it speaks version %s of go-plugin's core protocol, this informd speaks %d",
			printable(parts[0], 20), plugin.CoreProtocolVersion)
	}
	if parts[1] != strconv.Itoa(handlerpb.ProtocolVersion) {
		return handshake{}, fmt.Errorf("it speaks version %q of the handler protocol, this informd speaks %d",
			printable(parts[1], 20), handlerpb.ProtocolVersion)
	}
	if parts[4] != string(plugin.ProtocolGRPC) {
		return handshake{}, fmt.Errorf("it speaks %q, not grpc", printable(parts[4], 20))
	}
	// A socket elsewhere could be entered by others, or be somebody else's.
	socket := filepath.Join(socketDir, filepath.Base(parts[3]))
	if parts[2] != "unix" || filepath.Clean(parts[3]) != socket {
		return handshake{}, fmt.Errorf("it listens on %s %q, not on a unix socket in the directory that %s names",
			printable(parts[2], 20), printable(parts[3], 200), plugin.EnvUnixSocketDir)
	}
	// go-plugin takes a sixth part of more than 50 bytes for a certificate.
	return handshake{line: line, socket: socket, tls: len(parts) > 5 && len(parts[5]) > 50}, nil
}
