package host_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/informd/informd/plugins/host"
)

// Processes of the same user can reach a handler's socket, but they need the certificate of the
// host that launched it.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	h := start(t, spec("echo"), host.Options{RunDir: dir})
	ready(t, h)
	sockets, err := filepath.Glob(dir + "/plugin-dir*/plugin*")
	if err != nil || len(sockets) != 1 {
		t.Fatal(sockets, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	config := func(certificates ...tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{Certificates: certificates, InsecureSkipVerify: true})
	}
	for name, as := range map[string]credentials.TransportCredentials{
		"without TLS":              insecure.NewCredentials(),
		"without a certificate":    config(),
		"with another certificate": config(tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}),
	} {
		conn, err := grpc.NewClient("unix:"+sockets[0], grpc.WithTransportCredentials(as))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		r, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "plugin"})
		if err == nil || ctx.Err() != nil {
			t.Errorf("%s: got %v, %v", name, r, err)
		}
		cancel()
		_ = conn.Close()
	}
	if _, err := h.Handle(t.Context(), pod("x")); err != nil {
		t.Error("the host itself:", err)
	}
}
