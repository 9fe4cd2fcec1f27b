package process

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/go-plugin"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handlerpb"
)

// maxHandshake bounds the bytes of the handshake line. A certificate in it takes about 1 KiB.
const maxHandshake = 16 << 10

// handshake is what a handler says in the line that it writes to standard output when it serves:
//
//	CORE|VERSION|unix|SOCKET|grpc|CERTIFICATE
type handshake struct {
	socket      string            // path, directly in the process's own directory
	certificate *x509.Certificate // of the handler; nil: it did not take the offer of TLS
}

// readHandshake reads the first line of standard output. rest is what was read after it. The caller
// closes the pipe, or sets its deadline, to end the wait.
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

// errNoSocket says that the path in the handshake is something else, such as a link.
var errNoSocket = errors.New("the address in its handshake is not a socket")

// errNoHandshake says that the process closed its standard output before it wrote a line. Often it
// ended.
var errNoHandshake = errors.New(
	"it closed its standard output without a handshake: is it a handler?")

// notHandshakeError says that the first line on standard output is something else, and quotes it.
type notHandshakeError struct{ seen string }

func notHandshake(seen []byte) error {
	return &notHandshakeError{printable.Line(string(seen), 200)}
}

func (e *notHandshakeError) Error() string {
	return fmt.Sprintf("%s but %q%s", noHandshakeIn, e.seen, isItHandler)
}

// Unquoted returns the error without the line.
func (e *notHandshakeError) Unquoted() error { return errors.New(noHandshakeIn + isItHandler) }

const (
	noHandshakeIn = "its first line on standard output is not a handshake"
	isItHandler   = ": is it a handler, and does it print nothing before it serves?"
)

// parseHandshake checks everything that the connection depends on. Its errors are for operators.
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
		return handshake{}, fmt.Errorf("it speaks version %s of go-plugin's core protocol, "+
			"this informd speaks %d", printable.Line(parts[0], 20), plugin.CoreProtocolVersion)
	}
	if parts[1] != strconv.Itoa(handlerpb.ProtocolVersion) {
		return handshake{}, fmt.Errorf("it speaks version %q of the handler protocol, "+
			"this informd speaks %d", printable.Line(parts[1], 20), handlerpb.ProtocolVersion)
	}
	if parts[4] != string(plugin.ProtocolGRPC) {
		return handshake{}, fmt.Errorf("it speaks %q, not grpc", printable.Line(parts[4], 20))
	}
	// Others could reach a socket elsewhere, or it could belong to another process.
	socket := filepath.Join(socketDir, filepath.Base(parts[3]))
	if parts[2] != "unix" || filepath.Clean(parts[3]) != socket {
		return handshake{}, fmt.Errorf("it listens on %s %q, not on a unix socket "+
			"in the directory that %s names",
			printable.Line(parts[2], 20), printable.Line(parts[3], 200), plugin.EnvUnixSocketDir)
	}
	h := handshake{socket: socket}
	// As go-plugin's client does, ignore a shorter part: some old servers write other things there.
	if len(parts) > 5 && len(parts[5]) > 50 {
		der, err := base64.RawStdEncoding.DecodeString(parts[5])
		if err == nil {
			h.certificate, err = x509.ParseCertificate(der)
		}
		if err != nil {
			return handshake{}, fmt.Errorf("the certificate in its handshake cannot be read: %s",
				printable.Line(err.Error(), 200))
		}
	}
	return h, nil
}
