package offline

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/internal/ownfile"
)

// How long certificates are valid. early is for machines whose clocks are behind.
const (
	authorityYears = 10
	issuedYears    = 1
	early          = time.Hour
)

// NewCertsCommand returns informd certs.
func NewCertsCommand() *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:   "certs DIR --names NAME[,NAME…]",
		Short: "Write certificates for a remote handler, or for replicas of informd",
		Long: `Write certificates for mutual TLS between informd and a remote handler, or between several
replicas of informd, for those who have no other issuer. All are of ECDSA P-256; keys are readable
for your user only.

  DIR/ca.crt, DIR/ca.key                   an authority, valid for ten years
  DIR/tls.crt, DIR/tls.key                 for replicas: --peer-tls DIR, valid for a year
  DIR/server/ca.crt, tls.crt, tls.key      for the handler, valid for a year
  DIR/client/ca.crt, tls.crt, tls.key      for informd, valid for a year

For a handler, --names are those by which informd reaches it: the host in spec.address, or
spec.tls.serverName. A name is a DNS name or an IP address. For replicas, they are the names in
--peers of informd run, or the hosts there.

The command replaces no file. If DIR has an authority, it issues the others: to renew them, move
DIR/server and DIR/client away, and DIR/tls.crt and DIR/tls.key. Whoever has ca.key can send events to
the handler, and change the state of replicas: store it where none of them can read it.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name the folder to write to, as in informd certs DIR --names NAME")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNames(names); err != nil {
				return err
			}
			lines, err := writeCerts(args[0], names, time.Now())
			if err != nil {
				return cli.Failed(err)
			}
			return cli.Show(cmd, "%s\n", strings.Join(lines, "\n"))
		},
	}
	cmd.Flags().StringSliceVar(&names, "names", nil,
		"`NAMES` of the handler's server: DNS names and IP addresses, separated by commas")
	return cmd
}

// dnsName matches a name of a host, such as oncall.shop.svc, or of all hosts of a domain.
var dnsName = regexp.MustCompile(`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func checkNames(names []string) error {
	if len(names) == 0 {
		return errors.New("--names: name the host in the handler's spec.address, " +
			"as in --names oncall.shop.svc")
	}
	for _, name := range names {
		_, err := netip.ParseAddr(name)
		if err != nil && (len(name) > 253 || !dnsName.MatchString(name)) {
			return fmt.Errorf("--names: %q is neither a DNS name, such as oncall.shop.svc, "+
				"nor an IP address; of dns:///HOST:PORT it is the HOST", name)
		}
	}
	return nil
}

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// writeCerts writes the files of informd certs, and returns the lines that say so. It writes nothing
// if one of them is there, except for the authority, which it uses then.
func writeCerts(dir string, names []string, now time.Time) (lines []string, err error) {
	server, client := filepath.Join(dir, "server"), filepath.Join(dir, "client")
	replica := filepath.Join(dir, "tls.crt")
	mustBeNew := []string{server, client}
	if _, err := os.Lstat(replica); err != nil { // it is to be made, with its key
		mustBeNew = append(mustBeNew, filepath.Join(dir, "tls.key"))
	}
	for _, path := range mustBeNew {
		switch _, err := os.Lstat(path); {
		case err == nil:
			return nil, fmt.Errorf("%s is there already: move it away, or name another folder", path)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	ca, isNew, err := authority(dir, now)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, path := range []string{server, client} {
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil { // half of it would be in the way of the next run
				_ = os.RemoveAll(path)
			}
		}()
	}
	if isNew {
		if err := ca.write(dir, "ca"); err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%s   the authority, valid until %s",
			filepath.Join(dir, "ca.crt"), day(ca.cert)))
	}
	forServer := &x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName(names[0])},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if address, err := netip.ParseAddr(name); err == nil {
			forServer.IPAddresses = append(forServer.IPAddresses, address.AsSlice())
		} else {
			forServer.DNSNames = append(forServer.DNSNames, name)
		}
	}
	forClient := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "informd"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, to := range []struct {
		dir      string
		template *x509.Certificate
		what     string
	}{
		{server, forServer, "for the handler, as " + strings.Join(names, ", ")},
		{client, forClient, "for informd"},
	} {
		issued, err := ca.issue(to.template, now)
		if err != nil {
			return nil, err
		}
		if err := issued.write(to.dir, "tls"); err != nil {
			return nil, err
		}
		if err := writePEM(filepath.Join(to.dir, "ca.crt"), 0o644, "CERTIFICATE", ca.cert.Raw); err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%s   %s, valid until %s", to.dir, to.what, day(issued.cert)))
	}
	if _, err := os.Lstat(replica); err == nil {
		return lines, nil
	}
	forServer.ExtKeyUsage = append(forServer.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	issued, err := ca.issue(forServer, now)
	if err != nil {
		return nil, err
	}
	if err := issued.write(dir, "tls"); err != nil {
		_ = os.Remove(replica) // it would be taken for whole
		return nil, err
	}
	lines = append(lines, fmt.Sprintf("%s   for replicas of informd with these names, valid until %s",
		replica, day(issued.cert)))
	return lines, nil
}

// commonName returns a name that fits into a subject: at most 64 characters.
func commonName(name string) string { return name[:min(len(name), 64)] }

func day(c *x509.Certificate) string { return c.NotAfter.UTC().Format(time.DateOnly) }

// authority returns the authority of a folder, or a new one.
func authority(dir string, now time.Time) (ca pair, isNew bool, err error) {
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	loaded, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err == nil {
		key, isECDSA := loaded.PrivateKey.(*ecdsa.PrivateKey)
		switch {
		case !isECDSA || !loaded.Leaf.IsCA:
			return ca, false, fmt.Errorf("%s is no authority of informd certs: name another folder",
				certFile)
		case now.After(loaded.Leaf.NotAfter):
			return ca, false, fmt.Errorf("%s was valid until %s: name another folder",
				certFile, day(loaded.Leaf))
		}
		return pair{loaded.Leaf, key}, false, nil
	}
	if _, at := os.Lstat(certFile); at == nil && errors.Is(err, fs.ErrNotExist) {
		return ca, false, fmt.Errorf("%s is there and its key is not: put %s back, so that the same "+
			"authority issues the new certificates, or name another folder", certFile, keyFile)
	}
	for _, path := range []string{certFile, keyFile} {
		switch _, at := os.Lstat(path); {
		case errors.Is(at, fs.ErrNotExist):
		case at != nil:
			return ca, false, at
		default:
			return ca, false, fmt.Errorf("%s is there already, and the authority cannot be used: %w; "+
				"move it away, or name another folder", path, err)
		}
	}
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "informd certs"},
		NotAfter: now.AddDate(authorityYears, 0, 0),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	ca, err = pair{}.sign(template, now)
	return ca, true, err
}

// issue signs a certificate. It does not outlive its authority.
func (ca pair) issue(template *x509.Certificate, now time.Time) (pair, error) {
	template.KeyUsage, template.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
	template.NotAfter = now.AddDate(issuedYears, 0, 0)
	if template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	return ca.sign(template, now)
}

// sign makes a key and a certificate for it, which p signs. The zero pair has it sign itself.
func (p pair) sign(template *x509.Certificate, now time.Time) (signed pair, err error) {
	template.NotBefore = now.Add(-early)
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return signed, err
	}
	if signed.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return signed, err
	}
	if p.cert == nil {
		p = pair{template, signed.key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.cert, signed.key.Public(), p.key)
	if err != nil {
		return signed, err
	}
	signed.cert, err = x509.ParseCertificate(der)
	return signed, err
}

// write writes NAME.crt and NAME.key.
func (p pair) write(dir, name string) error {
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, name+".key"), 0o600, "PRIVATE KEY", der); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, name+".crt"), 0o644, "CERTIFICATE", p.cert.Raw)
}

// writePEM writes a file that must not be there yet.
func writePEM(path string, mode fs.FileMode, kind string, der []byte) error {
	file, err := ownfile.Open(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = pem.Encode(file, &pem.Block{Type: kind, Bytes: der})
	return errors.Join(err, file.Close())
}
