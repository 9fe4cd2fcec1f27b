// Package address finds addresses for servers that tests and benchmarks start as processes.
package address

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// ports counts the ports that Next has tried.
var ports atomic.Uint32

// Next returns an address on the loopback interface that stays free until somebody listens on it.
// It may be called from several goroutines.
//
// The host belongs to this process alone, because its last three bytes are the process id. So
// nobody else takes the port between this call and the server's start, nor while the server
// restarts. Next never returns an address twice.
func Next() (string, error) {
	host := host(0x80)
	const first, last = 20_000, 30_000 // below the ports that the kernel gives to clients
	for port := first + ports.Add(1); port < last; port = first + ports.Add(1) {
		address := net.JoinHostPort(host, fmt.Sprint(port))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // somebody listens on this port of all hosts
		}
		return address, l.Close()
	}
	return "", fmt.Errorf("no address is left on %s: this process has used ports %d to %d",
		host, first, last)
}

// Beside returns an address with the same port on a second host that belongs to this process alone.
func Beside(address string) (string, error) {
	_, port, err := net.SplitHostPort(address)
	return net.JoinHostPort(host(0xC0), port), err
}

// host returns one of this process's own hosts. Process ids are below 2^22 on Linux, so two bits
// can tell hosts apart.
func host(which byte) string {
	pid := uint32(os.Getpid())
	return net.IPv4(127, byte(pid>>16)|which, byte(pid>>8), byte(pid)).String()
}

// wide counts the ports that Wide has tried.
var wide atomic.Uint32

// Wide is as Next, for a server that listens on its port of all hosts, as replicas of informd do.
// Its ports are none of Next's. Processes begin at different ones, so they seldom meet.
func Wide() (string, error) {
	const first, count = 30_000, 2_700 // below the ports that the kernel gives to clients
	start := os.Getpid() * 37
	for try := int(wide.Add(1)); try < count; try = int(wide.Add(1)) {
		port := fmt.Sprint(first + (start+try)%count)
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			continue
		}
		return net.JoinHostPort(host(0x80), port), l.Close()
	}
	return "", fmt.Errorf("no port is left on all hosts: this process has tried %d", count)
}
