package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Ports are picked below the range that Linux takes source ports from (32768 to 60999). Inside it,
// any connection might take the port while the server is down; worst of all a client that keeps
// dialling it, which TCP may then connect to itself.
const (
	firstPort = 20000
	lastPort  = 29999
)

// listen opens the API server's socket and remembers its port in d. The socket is handed to the API
// server as it is, so there is no moment in which somebody else could take the port. The remembered
// port is a preference, want an order.
func listen(d *dir, want int, note func(format string, args ...any)) (net.Listener, error) {
	ln, err := firstListener(d, want, note)
	if err != nil {
		return nil, err
	}
	if err := d.write("port", []byte(strconv.Itoa(portOf(ln))+"\n")); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

func firstListener(d *dir, want int, note func(format string, args ...any)) (net.Listener, error) {
	if want != 0 {
		return listenOn(want)
	}
	if port, ok := rememberedPort(d); ok {
		ln, err := listenOn(port)
		if err == nil {
			return ln, nil
		}
		note("%v; taking another port", err)
	}
	var last error
	for range 100 {
		ln, err := listenOn(firstPort + rand.IntN(lastPort-firstPort+1))
		if err == nil {
			return ln, nil
		}
		last = err
	}
	return nil, fmt.Errorf("found no free port from %d to %d: %w", firstPort, lastPort, last)
}

// rememberedPort is the port of the last run. A file that cannot be read or makes no sense is no
// memory.
func rememberedPort(d *dir) (int, bool) {
	content, err := os.ReadFile(d.path("port"))
	if err != nil {
		return 0, false
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(content)))
	return port, err == nil && port > 0 && port <= 65535
}

func listenOn(port int) (net.Listener, error) {
	ln, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is taken by another process", port)
	}
	return ln, err
}

func portOf(ln net.Listener) int { return ln.Addr().(*net.TCPAddr).Port }
