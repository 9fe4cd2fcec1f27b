package handlertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// offer is informd's offer to speak TLS over the handler's socket, as go-plugin's AutoMTLS makes
// it: a handler that takes it up puts a certificate of its own into its handshake line.
type offer struct {
	tls      *tls.Config // without RootCAs, which are the handler's certificate
	variable string      // the content of PLUGIN_CLIENT_CERT
}

func newOffer() (*offer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{ // the handler takes it for its own authority, and for a client's
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "localhost"},
		DNSNames:     []string{"localhost"},
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth,
		},
		BasicConstraintsValid: true,
		IsCA:                  true,
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &offer{
		tls: &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			MinVersion:   tls.VersionTLS12,
			ServerName:   "localhost", // as go-plugin's handlers call themselves
		},
		variable: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	}, nil
}

// printed returns the data of a message of go-plugin's GRPCStdio: its field 2.
func printed(wire []byte) (data []byte) {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return data
		}
		length := protowire.ConsumeFieldValue(number, kind, wire[n:])
		if length < 0 {
			return data
		}
		if number == 2 && kind == protowire.BytesType {
			data, _ = protowire.ConsumeBytes(wire[n:])
		}
		wire = wire[n+length:]
	}
	return data
}
