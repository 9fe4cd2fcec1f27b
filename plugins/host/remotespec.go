package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/informd/informd/plugins/handlerpb"
)

// RemoteSpec says where a remote handler is and how to treat it. It is not modified after NewRemote.
type RemoteSpec struct {
	// Name is the Handler manifest's name, for the log and for errors.
	Name string
	// Host is a name, all of whose addresses are endpoints, or an address. Port is that of all of them.
	Host string
	Port uint16
	// DNS is the address and port of the server that is asked for Host; empty: as the system does.
	DNS string
	// CA is a PEM file with the certificates of the authorities that may have signed an endpoint's; Cert and Key are PEM
	// files with the certificate that informd shows it. All are read for each connection, so that they can be replaced
	// at any time.
	CA, Cert, Key string
	// ServerName is what the certificate of each endpoint must be for. Default: Host.
	ServerName string
	// Config is the manifest's config as JSON; empty where it has none.
	Config json.RawMessage
	// Concurrency is how many events may be with one endpoint at once, if it does not ask for fewer. Default 8.
	Concurrency int
	// Timeout is how long an endpoint has for one event, from its sending on. Default 30 s.
	Timeout time.Duration
}

// maxEndpoints bounds the endpoints of one handler: of more addresses, the lowest are taken.
const maxEndpoints = 128

// spec is what goes for each endpoint.
func (s RemoteSpec) spec() Spec {
	return Spec{Name: s.Name, Config: s.Config, Concurrency: s.Concurrency, Timeout: s.Timeout}.withDefaults()
}

// lookUp finds the endpoints, in order. There is at least one.
func (s RemoteSpec) lookUp(ctx context.Context) ([]netip.AddrPort, error) {
	resolver := net.DefaultResolver
	if s.DNS != "" {
		resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.DNS)
		}}
	}
	addresses, err := resolver.LookupNetIP(ctx, "ip", s.Host)
	switch e, ok := errors.AsType[*net.DNSError](err); {
	case ok && e.IsNotFound, err == nil && len(addresses) == 0:
		return nil, fmt.Errorf("%s has no address: is anything there that is ready?", s.Host)
	case ok && e.IsTimeout:
		return nil, fmt.Errorf("look up %s: no DNS server answers", s.Host)
	case err != nil:
		return nil, fmt.Errorf("look up %s: %s", s.Host, withoutPort(err.Error()))
	}
	var found []netip.AddrPort
	for _, a := range addresses {
		found = append(found, netip.AddrPortFrom(a.Unmap(), s.Port))
	}
	slices.SortFunc(found, netip.AddrPort.Compare)
	return slices.Compact(found), nil
}

// TLS reads the files: it is how informd speaks to each endpoint.
func (s RemoteSpec) TLS() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(s.Cert, s.Key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key: %w", err)
	}
	pem, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, fmt.Errorf("tls.ca: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls.ca: there is no certificate in %s", s.CA)
	}
	name := s.ServerName
	if name == "" {
		name = s.Host
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		RootCAs:      authorities,
		ServerName:   name,
	}, nil
}

// withoutPort takes from what package net says of a connection its own end, whose port is another one each time: what fails
// for the same reason is told of in the same words.
func withoutPort(said string) string { return ownEnd.ReplaceAllString(said, "") }

var ownEnd = regexp.MustCompile(`([0-9.]+|\[[^\]]*\]):[0-9]+->`)

// explainTLS says what is wrong with the certificates, and what to do. What an error says of a certificate is the other
// side's words.
func explainTLS(err error) error {
	said := withoutPort(printable(err.Error(), handlerpb.MaxReasonBytes))
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errors.New("it does not speak TLS")
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("its certificate is another's, and tls.serverName says whose it has to be: %s", said)
	}
	if err := explainExpired(err); err != nil {
		return err
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("its certificate is not signed by an authority in tls.ca: %s", said)
	}
	return fmt.Errorf("TLS handshake: %s", said)
}

// explainExpired is nil if err is about something else.
func explainExpired(err error) error {
	e, ok := errors.AsType[x509.CertificateInvalidError](err)
	if !ok || e.Reason != x509.Expired || e.Cert == nil {
		return nil
	}
	const day = time.DateTime + " MST" // the error itself has the present time, so that it never is the same twice
	return fmt.Errorf("its certificate is valid from %s to %s only", e.Cert.NotBefore.UTC().Format(day), e.Cert.NotAfter.UTC().Format(day))
}
