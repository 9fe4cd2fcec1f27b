package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/informd/informd/plugins/host/connect"
)

// Location says where the endpoints of a remote handler are, and how to reach them. Package host
// documents the fields, which RemoteSpec has under the same names.
type Location struct {
	Host          string
	Port          uint16
	DNS           string
	CA, Cert, Key string
	ServerName    string
}

// LookUp finds the endpoints, in order. There is at least one, or an error.
func (l Location) LookUp(ctx context.Context) ([]netip.AddrPort, error) {
	resolver := net.DefaultResolver
	if l.DNS != "" {
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, l.DNS)
		}
		resolver = &net.Resolver{PreferGo: true, Dial: dial}
	}
	addresses, err := resolver.LookupNetIP(ctx, "ip", l.Host)
	switch e, ok := errors.AsType[*net.DNSError](err); {
	case ok && e.IsNotFound, err == nil && len(addresses) == 0:
		return nil, fmt.Errorf("%s has no address: is an endpoint ready?", l.Host)
	case ok && e.IsTimeout:
		return nil, fmt.Errorf("look up %s: no DNS server answers", l.Host)
	case err != nil:
		return nil, fmt.Errorf("look up %s: %s", l.Host, connect.WithoutPort(err.Error()))
	}
	var found []netip.AddrPort
	for _, a := range addresses {
		found = append(found, netip.AddrPortFrom(a.Unmap(), l.Port))
	}
	slices.SortFunc(found, netip.AddrPort.Compare)
	return slices.Compact(found), nil
}

// TLS reads the files and returns the configuration for connections to all endpoints.
func (l Location) TLS() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(l.Cert, l.Key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key: %w", err)
	}
	pem, err := os.ReadFile(l.CA)
	if err != nil {
		return nil, fmt.Errorf("tls.ca: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls.ca: there is no certificate in %s", l.CA)
	}
	name := l.ServerName
	if name == "" {
		name = l.Host
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		RootCAs:      authorities,
		ServerName:   name,
	}, nil
}
