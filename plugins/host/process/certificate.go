package process

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// offerTLS makes what go-plugin calls AutoMTLS: a certificate for one connection, the configuration
// that uses it, and the variable that offers it to the handler. It uses the curve P-256:
// go-plugin's client takes P-521, which costs each launch 14 ms of CPU more and which some gRPC
// libraries refuse. The handler's certificate, from the handshake, is still to be added to the
// configuration.
func offerTLS() (_ *tls.Config, variable string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	// The handler uses it as an authority, and as a client's certificate.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject: pkix.Name{
			CommonName: "localhost", Organization: []string{"informd"},
		},
		DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth,
		},
		BasicConstraintsValid: true,
		IsCA:                  true,
		NotBefore:             now.AddDate(-1, 0, 0), // the clock may be set back
		NotAfter:              now.AddDate(30, 0, 0), // longer than the process runs
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", fmt.Errorf("make a certificate: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS12,
		ServerName:   "localhost", // as go-plugin's handlers call themselves
	}, clientCertificate + "=" + string(text), nil
}

// clientCertificate is the variable that offers TLS to go-plugin's server.
const clientCertificate = "PLUGIN_CLIENT_CERT"
