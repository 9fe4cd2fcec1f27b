package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity of every certificate. There is no renewal: for new ones, remove DIR/pki or all of DIR.
const validity = 10 * 365 * 24 * time.Hour

// credentials says where the files of DIR/pki are and carries what goes into kubeconfigs.
type credentials struct {
	caCert, serverCert, serverKey, serviceAccountKey, tokens string // paths

	ca, adminCert, adminKey []byte // PEM
	limitedToken            string
}

// loadCredentials reads DIR/pki, or makes it first. It is made under another name and renamed when
// complete: a folder that is there is whole.
func loadCredentials(d *dir) (*credentials, error) {
	if _, err := os.Stat(d.path("pki")); errors.Is(err, fs.ErrNotExist) {
		next := d.path("pki.new")
		if err := os.RemoveAll(next); err != nil {
			return nil, err
		}
		if err := makePKI(next, time.Now()); err != nil {
			return nil, fmt.Errorf("make certificates: %w", err)
		}
		if err := os.Rename(next, d.path("pki")); err != nil {
			return nil, err
		}
	}
	c := &credentials{
		caCert:            d.path("pki", "ca.crt"),
		serverCert:        d.path("pki", "server.crt"),
		serverKey:         d.path("pki", "server.key"),
		serviceAccountKey: d.path("pki", "service-account.key"),
		tokens:            d.path("pki", "tokens.csv"),
	}
	var err error
	read := func(name string) []byte {
		content, readErr := os.ReadFile(d.path("pki", name))
		err = errors.Join(err, readErr)
		return content
	}
	c.ca = read("ca.crt")
	c.adminCert = read("admin.crt")
	c.adminKey = read("admin.key")
	token, _, _ := bytes.Cut(read("tokens.csv"), []byte(","))
	c.limitedToken = string(token)
	return c, err
}

// makePKI fills a new folder: a CA, what it signs, the key that service account tokens are signed
// with, and a token.
func makePKI(folder string, now time.Time) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	ca, err := newPair(nil, now, &x509.Certificate{
		Subject:               pkix.Name{CommonName: "controlplane-ca"},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	})
	if err != nil {
		return err
	}
	server, err := newPair(ca, now, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		},
	})
	if err != nil {
		return err
	}
	admin, err := newPair(ca, now, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	serviceAccounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serviceAccountsPEM, err := keyPEM(serviceAccounts)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt":              ca.certPEM, // the CA's key is not kept: nothing is signed later
		"server.crt":          server.certPEM,
		"server.key":          server.keyPEM,
		"admin.crt":           admin.certPEM,
		"admin.key":           admin.keyPEM,
		"service-account.key": serviceAccountsPEM,
		"tokens.csv":          []byte(rand.Text() + ",limited,limited\n"), // token, user name, uid
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// pair is a certificate and its key.
type pair struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// newPair completes the template and signs it with the issuer, or with itself.
func newPair(issuer *pair, now time.Time, template *x509.Certificate) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.NotBefore = now.Add(-time.Hour) // for clocks that are set back
	template.NotAfter = now.Add(validity)

	signer, parent := key, template
	if issuer != nil {
		signer, parent = issuer.key, issuer.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	p := &pair{key: key, certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if p.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	p.keyPEM, err = keyPEM(key)
	return p, err
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}
