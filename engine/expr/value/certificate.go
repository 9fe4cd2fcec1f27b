package value

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
)

// maxCertificates bounds a text with certificates, in bytes. A Secret has at most 1 MiB.
const maxCertificates = 1 << 20

// stepsOfCertificate is what reading one costs beside looking at its text.
const stepsOfCertificate = 100

// notAfter gives the end of the first certificate in PEM, which may be in base64, as the data of a
// Secret is.
func notAfter(m *Meter, args []any) (any, error) {
	s, ok := args[0].(string)
	switch {
	case !ok:
		return nil, WrongArgument("notAfter", args[0])
	case len(s) > maxCertificates:
		return nil, Errorf(`"notAfter" takes at most 1 MiB`)
	}
	if err := m.Scan(len(s) + 256*stepsOfCertificate); err != nil {
		return nil, err
	}
	// the text, decoded, and what its first block has, decoded and parsed
	if err := m.Alloc(6 * len(s)); err != nil {
		return nil, err
	}
	text := []byte(s)
	if !bytes.Contains(text, []byte("-----BEGIN")) {
		decoded, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, errNoCertificate
		}
		text = decoded
	}
	missing := errNoCertificate
	if _, err := x509.ParseCertificate(text); err == nil {
		missing = errDER
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, missing
		}
		switch block.Type {
		case "CERTIFICATE":
		case "TRUSTED CERTIFICATE", "X509 CERTIFICATE":
			missing = errOtherPEM
			continue
		default: // the key may come first
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errNoCertificate
		}
		return certificate.NotAfter.UTC(), nil
	}
}

const (
	errNoCertificate Error = `"notAfter" finds no certificate in its argument`
	errDER           Error = `"notAfter" reads certificates in PEM, and its argument is one in DER: ` +
		`convert it with openssl x509 -inform der`
	errOtherPEM Error = `"notAfter" reads what begins with BEGIN CERTIFICATE, and its argument has ` +
		`only OpenSSL's own form, as BEGIN TRUSTED CERTIFICATE: convert it with openssl x509`
)
