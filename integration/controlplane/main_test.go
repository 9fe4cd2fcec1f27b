package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// These are the parts that need no server; integration/cluster tests the running binary.

func TestParseFlags(t *testing.T) {
	for _, test := range []struct {
		args    string
		want    flags
		wantErr string
	}{
		{args: "--dir d", want: flags{dir: "d"}},
		{args: "--dir d --port 8443", want: flags{dir: "d", port: 8443}},
		{args: "", wantErr: "--dir is required"},
		{args: "--dir d --port 65536", wantErr: "not a port"},
		{args: "--dir d --port -1", wantErr: "not a port"},
		{args: "--dir d extra", wantErr: "unexpected argument"},
		{args: "--dir d --verbose", wantErr: "not defined"},
		{args: "-h", wantErr: flag.ErrHelp.Error()},
	} {
		got, err := parseFlags(strings.Fields(test.args), io.Discard)
		if test.wantErr == "" && (err != nil || got != test.want) {
			t.Errorf("%q: got %+v, %v; want %+v", test.args, got, err, test.want)
		}
		if test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
			t.Errorf("%q: got error %v; want one with %q", test.args, err, test.wantErr)
		}
	}
}

func TestReleaseMatchesGoMod(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "\tk8s.io/kubernetes "+release+"\n") {
		t.Errorf("go.mod does not require k8s.io/kubernetes %s: change the constant with it", release)
	}
}

func TestOneInstancePerDir(t *testing.T) {
	root := newDir(t).root
	if _, err := openDir(root); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second instance got %v; want to be told that the folder is in use", err)
	}
}

func TestForeignDirIsLeftAlone(t *testing.T) {
	home := t.TempDir()
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "thesis.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openDir(home); err == nil {
		t.Error("took over a folder with other files in it")
	}
	wantMode(t, home, 0o755)
}

func TestPortIsRemembered(t *testing.T) {
	d := newDir(t)
	silent := func(format string, args ...any) { t.Errorf("unexpected note: "+format, args...) }

	first, err := listen(d, 0, silent)
	if err != nil {
		t.Fatal(err)
	}
	port := portOf(first)
	first.Close()
	if port < firstPort || port > lastPort {
		t.Errorf("picked port %d, outside of %d to %d", port, firstPort, lastPort)
	}

	second, err := listen(d, 0, silent)
	if err != nil {
		t.Fatal(err)
	}
	if portOf(second) != port {
		t.Errorf("the second run has port %d; the first had %d", portOf(second), port)
	}

	// The port is now in use. If the flag demands it, the start fails. If it was only remembered,
	// the start takes another port and says so.
	if _, err := listen(d, port, silent); err == nil {
		t.Error("--port with a port that is taken succeeded")
	}
	noted := false
	third, err := listen(d, 0, func(string, ...any) { noted = true })
	if err != nil {
		t.Fatal(err)
	}
	if portOf(third) == port || !noted {
		t.Errorf("got port %d, noted %v; want another port than %d and a note", portOf(third), noted, port)
	}
	second.Close()
	third.Close()

	if err := d.write("port", []byte("99999999\n")); err != nil {
		t.Fatal(err)
	}
	if port, ok := rememberedPort(d); ok {
		t.Errorf("remembered port %d from a damaged file", port)
	}
}

func TestCredentialsAreMadeOnce(t *testing.T) {
	d := newDir(t)
	if err := os.MkdirAll(d.path("pki.new", "left-by-kill"), 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := loadCredentials(d)
	if err != nil {
		t.Fatal(err)
	}
	second, err := loadCredentials(d)
	if err != nil {
		t.Fatal(err)
	}
	if string(first.ca) != string(second.ca) || string(first.adminKey) != string(second.adminKey) ||
		first.limitedToken != second.limitedToken {
		t.Error("the second run has other credentials than the first")
	}
	if len(first.limitedToken) < 20 {
		t.Errorf("the limited user's token has only %d characters", len(first.limitedToken))
	}
	if err := writeKubeconfigs(d, first, 8443); err != nil {
		t.Fatal(err)
	}

	err = filepath.WalkDir(d.root, func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() {
			wantMode(t, path, 0o700)
		} else {
			wantMode(t, path, 0o600)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCertificates(t *testing.T) {
	d := newDir(t)
	c, err := loadCredentials(d)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.ca)

	server, err := tls.LoadX509KeyPair(c.serverCert, c.serverKey)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := tls.X509KeyPair(c.adminCert, c.adminKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		cert  *x509.Certificate
		host  string
		usage x509.ExtKeyUsage
	}{
		{"server", server.Leaf, "127.0.0.1", x509.ExtKeyUsageServerAuth},
		{"server", server.Leaf, "localhost", x509.ExtKeyUsageServerAuth},
		{"admin", admin.Leaf, "", x509.ExtKeyUsageClientAuth},
	} {
		_, err := test.cert.Verify(x509.VerifyOptions{
			Roots: roots, DNSName: test.host, KeyUsages: []x509.ExtKeyUsage{test.usage},
			CurrentTime: time.Now().AddDate(5, 0, 0), // a folder may be kept for long
		})
		if err != nil {
			t.Errorf("%s certificate for %q: %v", test.name, test.host, err)
		}
	}
}

func TestKubeconfigsStandAlone(t *testing.T) {
	d := newDir(t)
	c, err := loadCredentials(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeKubeconfigs(d, c, 8443); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubeconfig", "kubeconfig-limited"} {
		config, err := clientcmd.BuildConfigFromFlags("", d.path(name))
		if err != nil {
			t.Fatal(err)
		}
		isAdmin := len(config.CertData) > 0 && len(config.KeyData) > 0
		isLimited := config.BearerToken == c.limitedToken
		if config.Host != "https://127.0.0.1:8443" || len(config.CAData) == 0 || isAdmin == isLimited {
			t.Errorf("%s: host %s, admin %v, limited %v", name, config.Host, isAdmin, isLimited)
		}
	}
}

// newDir returns a locked folder with a short name, as a socket's path must be short.
func newDir(t *testing.T) *dir {
	t.Helper()
	root, err := os.MkdirTemp("", "controlplane")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	d, err := openDir(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o; want %o", path, got, want)
	}
}
