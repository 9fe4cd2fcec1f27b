package host

import (
	"context"
	"net/netip"
	"strings"
	"testing"
)

// Of more addresses, maxEndpoints are used.
func TestRemoteEndpointsAreBounded(t *testing.T) {
	t.Parallel()
	r := NewRemote(RemoteSpec{Name: "many"}, Options{})
	r.SetLookUp(func(context.Context) (all []netip.AddrPort, err error) {
		for i := range 4 * maxEndpoints {
			all = append(all, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1))
		}
		return all, nil
	})
	if got, err := r.look(t.Context()); err == nil || !strings.Contains(err.Error(), "has 512 addresses") || len(got) != maxEndpoints {
		t.Errorf("%d endpoints, %v; want %d, and to be told", len(got), err, maxEndpoints)
	}
	r.SetLookUp(func(context.Context) ([]netip.AddrPort, error) { return nil, nil })
	if got, err := r.look(t.Context()); err == nil || len(got) > 0 {
		t.Errorf("of an empty answer: %v, %v", got, err)
	}
}

// An address that comes back while its endpoint is leaving is used again as soon as that is gone.
func TestRemoteAddressComesBack(t *testing.T) {
	t.Parallel()
	r := NewRemote(RemoteSpec{Name: "flapping"}, Options{})
	address := netip.MustParseAddrPort("127.0.0.1:1")
	e := r.endpoint(address)
	r.endpoints[address] = e
	r.remove(address, e)
	select {
	case <-r.again:
	default:
		t.Error("nobody looks again")
	}
}
