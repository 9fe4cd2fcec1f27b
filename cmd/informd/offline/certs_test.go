package offline

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func certs(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	cmd := NewCertsCommand()
	var printed bytes.Buffer
	cmd.SetOut(&printed)
	cmd.SetErr(&printed)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	return printed.String(), err
}

// shake has a server and a client with these files talk to each other, as informd and a remote
// handler do.
func shake(t *testing.T, server, client, name string) error {
	t.Helper()
	load := func(dir string) (tls.Certificate, *x509.CertPool) {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			t.Fatalf("%s/ca.crt has no certificate", dir)
		}
		return pair, pool
	}
	own, clients := load(server)
	shown, servers := load(client)
	one, other := net.Pipe()
	serving := tls.Server(one, &tls.Config{
		Certificates: []tls.Certificate{own}, ClientCAs: clients,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})
	asking := tls.Client(other, &tls.Config{
		Certificates: []tls.Certificate{shown}, RootCAs: servers, ServerName: name,
		MinVersion: tls.VersionTLS13,
	})
	served := make(chan error, 1)
	go func() {
		err := serving.Handshake()
		_ = one.Close()
		served <- err
	}()
	err := asking.Handshake()
	_ = other.Close()
	if err == nil {
		err = <-served
	}
	return err
}

func TestCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "certs")
	server, client := filepath.Join(dir, "server"), filepath.Join(dir, "client")
	out, err := certs(t, dir, "--names", "oncall.shop.svc,10.0.0.7", "--names", "::1")
	if err != nil {
		t.Fatal(err)
	}
	ends := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if years := c.NotAfter.Sub(c.NotBefore).Hours() / 24 / 365; years < 1 || years > 10.1 {
			t.Errorf("%s is valid for %.1f years", path, years)
		}
		return c.NotAfter.UTC().Format(time.DateOnly)
	}
	want := dir + "/ca.crt   the authority, valid until " + ends(dir+"/ca.crt") + "\n" +
		server + "   for the handler, as oncall.shop.svc, 10.0.0.7, ::1, valid until " + ends(server+"/tls.crt") + "\n" +
		client + "   for informd, valid until " + ends(client+"/tls.crt") + "\n" +
		dir + "/tls.crt   for replicas of informd with these names, valid until " + ends(dir+"/tls.crt") + "\n"
	if out != want {
		t.Errorf("it prints\n%s, want\n%s", out, want)
	}
	for _, name := range []string{"oncall.shop.svc", "10.0.0.7", "::1"} {
		if err := shake(t, server, client, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := shake(t, server, client, "other.shop.svc"); err == nil {
		t.Error("the server is other.shop.svc, too")
	}
	if err := shake(t, client, client, "oncall.shop.svc"); err == nil {
		t.Error("the client's certificate is good for a server")
	}
	if err := shake(t, server, server, "oncall.shop.svc"); err == nil {
		t.Error("the server's certificate is good for a client")
	}
	if err := shake(t, dir, dir, "oncall.shop.svc"); err != nil {
		t.Errorf("replicas: %v", err)
	}
	for path, mode := range map[string]os.FileMode{
		"ca.key": 0o600, "tls.key": 0o600, "server/tls.key": 0o600, "client/tls.key": 0o600, "ca.crt": 0o644, "client/ca.crt": 0o644,
	} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm()&^mode != 0 { // the umask may take more away
			t.Errorf("%s: %v, mode %v, want at most %v", path, err, info.Mode(), mode)
		}
	}

	// Nothing is replaced. The authority issues new certificates.
	if _, err := certs(t, dir, "--names", "oncall.shop.svc"); err == nil || err.Error() != server+" is there already: move it away, or name another folder" {
		t.Error(err)
	}
	for _, path := range []string{server, client} {
		if err := os.Rename(path, filepath.Join(t.TempDir(), filepath.Base(path))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "tls.crt")); err != nil {
		t.Fatal(err)
	}
	if _, err := certs(t, dir, "--names", "oncall.shop.svc"); err == nil || err.Error() != dir+"/tls.key is there already: move it away, or name another folder" {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "tls.key")); err != nil {
		t.Fatal(err)
	}
	out, err = certs(t, dir, "--names", "oncall.shop.svc")
	if err != nil || strings.Contains(out, "authority") {
		t.Errorf("%v, it prints\n%s", err, out)
	}
	if err := shake(t, server, client, "oncall.shop.svc"); err != nil {
		t.Error(err)
	}
	if err := shake(t, dir, dir, "oncall.shop.svc"); err != nil {
		t.Errorf("replicas: %v", err)
	}
}

func TestCertsRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why  string
		args []string
		want string
	}{
		{"no folder", []string{"--names", "a"}, "name the folder to write to"},
		{"no names", []string{dir}, "--names: name the host in the handler's spec.address"},
		{"an address", []string{dir, "--names", "dns:///oncall.shop.svc:8443"}, `"dns:///oncall.shop.svc:8443" is neither a DNS name`},
		{"a port", []string{dir, "--names", "a,oncall:8443"}, `"oncall:8443" is neither a DNS name`},
		{"no key", []string{dir, "--names", "oncall"}, dir + "/ca.crt is there and its key is not: put " + dir + "/ca.key back"},
	} {
		if _, err := certs(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s…", c.why, err, c.want)
		}
	}
	notFolder := filepath.Join(dir, "ca.crt")
	if _, err := certs(t, notFolder, "--names", "a"); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a file in place of the folder: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("it has left %v", entries)
	}

	ends := time.Now().AddDate(authorityYears, 0, 0)
	dir = filepath.Join(t.TempDir(), "certs")
	if _, err := writeCerts(dir, []string{"a"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := authority(dir, ends.AddDate(0, 0, 1)); err == nil || !strings.Contains(err.Error(), "was valid until") {
		t.Error(err)
	}
	ca, _, err := authority(dir, ends.AddDate(0, -1, 0))
	if err != nil {
		t.Fatal(err)
	}
	issued, err := ca.issue(&x509.Certificate{}, ends.AddDate(0, -1, 0))
	if err != nil || issued.cert.NotAfter.After(ca.cert.NotAfter) {
		t.Errorf("%v: a certificate outlives its authority", err)
	}
}
