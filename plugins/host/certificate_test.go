package host_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host"
)

func init() {
	modes["certificate"] = func() { // takes up TLS without go-plugin, with a certificate for the name in CERTIFICATE, an old one, or by another clock
		key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		if err != nil {
			panic(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
		clock := time.Now
		switch name := os.Getenv("CERTIFICATE"); name {
		case "":
		case "old":
			template.DNSNames, template.NotAfter = []string{"localhost"}, time.Unix(1e9, 0)
		case "ahead", "behind":
			set := map[string]time.Duration{"ahead": 2 * time.Hour, "behind": -2 * time.Hour}[name]
			clock = func() time.Time { return time.Now().Add(set) }
			template.DNSNames = []string{"localhost"}
			template.NotBefore, template.NotAfter = clock(), clock().Add(3*time.Hour)
		default:
			template.DNSNames = []string{name}
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			panic(err)
		}
		informd := x509.NewCertPool()
		if !informd.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT"))) {
			panic("no offer")
		}
		l, err := net.Listen("unix", socket())
		if err != nil {
			panic(err)
		}
		s := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    informd,
			Time:         clock,
		})))
		handlerpb.RegisterHandlerServer(s, &raw{})
		fmt.Println("1|1|unix|" + socket() + "|grpc|" + base64.RawStdEncoding.EncodeToString(der))
		_ = s.Serve(l)
	}
}

// Any certificate for localhost will do, even if the clock is set while the handler starts. Otherwise
// the error says what is wrong with it.
func TestCertificates(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"localhost":       "",
		"ahead":           "",
		"behind":          "",
		"handler.example": "x509: certificate is valid for handler.example, not localhost",
		"":                "x509: certificate is not valid for any names",
		"old":             "its certificate is valid from 0001-01-01 00:00:00 UTC to 2001-09-09 01:46:40 UTC only",
	} {
		s := spec("certificate")
		s.Env = append(s.Env, "CERTIFICATE="+name)
		err := try(t, s, host.Options{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want …%s…", name, err, want)
		}
	}
}
