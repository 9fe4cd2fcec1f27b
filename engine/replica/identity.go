// This file owns who a member is to the others: its certificate, and whose it accepts.

package replica

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Identity is a certificate, its key, and the authority that signed those of all members. It reads
// its files again when they change.
type Identity struct {
	dir string

	mu      sync.Mutex // guards the fields below
	log     *slog.Logger
	looked  time.Time     // when the last look at the files began
	looking chan struct{} // closed when it ends; nil if it has ended
	files   [3][]byte     // what loaded was made of
	loaded  *credentials
	trouble string // why the newest files could not be used, at the last look
	isKnown bool   // trouble was logged
}

// credentials are what the files of an Identity hold. They do not change.
type credentials struct {
	certificate tls.Certificate
	roots       *x509.CertPool
}

// identityFiles are the files of an Identity, as cert-manager names them.
var identityFiles = [3]string{"tls.crt", "tls.key", "ca.crt"}

const (
	// reloadEvery is how often an Identity looks at its files, at most.
	reloadEvery = time.Second
	// lookLimit is how long a handshake waits for that. The disk may hang.
	lookLimit = 100 * time.Millisecond
)

// LoadIdentity reads tls.crt, tls.key and ca.crt from dir. Members accept no authority but those in
// ca.crt. A handshake reads the files again if they have changed. If they cannot be used then, the
// Identity keeps what it has.
func LoadIdentity(dir string) (*Identity, error) {
	i := &Identity{dir: dir, log: slog.New(slog.DiscardHandler)}
	files, err := i.read()
	if err == nil {
		i.loaded, err = parseCredentials(files)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot load the certificate in %s: %w", dir, err)
	}
	i.files, i.looked = files, time.Now()
	return i, nil
}

// setLog makes i log to log.
func (i *Identity) setLog(log *slog.Logger) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.log = log
}

// current returns what the files hold, or held when they could last be used. While the disk hangs it
// returns what was used before.
func (i *Identity) current() *credentials {
	i.mu.Lock()
	if i.looking == nil && time.Since(i.looked) >= reloadEvery {
		i.looking, i.looked = make(chan struct{}), time.Now()
		go i.look()
	}
	looking, left := i.looking, lookLimit-time.Since(i.looked)
	i.mu.Unlock()
	if looking != nil && left > 0 {
		select {
		case <-looking:
		case <-time.After(left):
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.loaded
}

// look reads the files, and uses them if they have changed.
func (i *Identity) look() {
	files, err := i.read()
	i.mu.Lock()
	defer i.mu.Unlock()
	close(i.looking)
	i.looking = nil
	if err == nil && equal(files, i.files) {
		i.trouble, i.isKnown = "", false
		return
	}
	var loaded *credentials
	if err == nil {
		loaded, err = parseCredentials(files)
	}
	switch {
	case err == nil:
		i.files, i.loaded, i.trouble, i.isKnown = files, loaded, "", false
		i.log.Info("the certificate was replaced", "dir", i.dir,
			"expires", loaded.certificate.Leaf.NotAfter)
	case err.Error() != i.trouble: // the files may just be in exchange
		i.trouble, i.isKnown = err.Error(), false
	case !i.isKnown:
		i.isKnown = true
		i.log.Error("the new certificate cannot be used; the old one stays in use", "dir", i.dir,
			"error", err)
	}
}

func equal(a, b [3][]byte) bool {
	for n := range a {
		if !bytes.Equal(a[n], b[n]) {
			return false
		}
	}
	return true
}

func (i *Identity) read() (files [3][]byte, err error) {
	for n, name := range identityFiles {
		files[n], err = os.ReadFile(filepath.Join(i.dir, name))
		if err != nil {
			return files, err
		}
	}
	return files, nil
}

func parseCredentials(files [3][]byte) (*credentials, error) {
	certificate, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return nil, fmt.Errorf("tls.crt and tls.key: %w", err)
	}
	if certificate.Leaf == nil {
		if certificate.Leaf, err = x509.ParseCertificate(certificate.Certificate[0]); err != nil {
			return nil, fmt.Errorf("tls.crt: %w", err)
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(files[2]) {
		return nil, errors.New("ca.crt holds no certificate: put the authority's there, as PEM")
	}
	return &credentials{certificate: certificate, roots: roots}, nil
}

// serverConfig returns what a listener needs. It accepts clients whose certificate names one of
// peers.
func (i *Identity) serverConfig(peers map[string]string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		ClientAuth:             tls.RequireAnyClientCert, // VerifyConnection checks it
		SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &i.current().certificate, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			cert, err := i.verify(state, x509.ExtKeyUsageClientAuth)
			if err != nil {
				return err
			}
			for name, address := range peers {
				if namesMember(cert, name, address) == nil {
					return nil
				}
			}
			return fmt.Errorf("the certificate of the other side, for %q, names no replica: "+
				"add the replica's name to its dnsNames", certificateNames(cert))
		},
	}
}

// clientConfig returns what is needed to connect to the member name at address.
func (i *Identity) clientConfig(name, address string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		ServerName:         hostOf(address),
		InsecureSkipVerify: true, // VerifyConnection checks the certificate: it may have the name
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &i.current().certificate, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			cert, err := i.verify(state, x509.ExtKeyUsageServerAuth)
			if err != nil {
				return err
			}
			return namesMember(cert, name, address)
		},
	}
}

// verify returns the other side's certificate if an authority of ca.crt signed it for usage.
func (i *Identity) verify(
	state tls.ConnectionState, usage x509.ExtKeyUsage,
) (*x509.Certificate, error) {
	if len(state.PeerCertificates) == 0 {
		return nil, errors.New("the other side shows no certificate")
	}
	cert, between := state.PeerCertificates[0], x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := cert.Verify(x509.VerifyOptions{
		Roots: i.current().roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return nil, fmt.Errorf("the certificate of the other side, for %q, is not accepted: %w",
			certificateNames(cert), err)
	}
	return cert, nil
}

// namesMember returns nil if cert is the member's.
func namesMember(cert *x509.Certificate, name, address string) error {
	host := hostOf(address)
	if cert.VerifyHostname(name) == nil || cert.VerifyHostname(host) == nil {
		return nil
	}
	return fmt.Errorf("the certificate of %s names neither %s nor %s: add one of them to its "+
		"dnsNames or ipAddresses", name, name, host)
}

// certificateNames returns whom cert is for, bounded, for errors.
func certificateNames(cert *x509.Certificate) []string {
	names := cert.DNSNames
	for _, ip := range cert.IPAddresses {
		names = append(names[:len(names):len(names)], ip.String())
	}
	if len(names) > 5 {
		names = append(names[:5:5], "…")
	}
	return names
}

// hostOf returns the host of address, which is HOST:PORT.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
