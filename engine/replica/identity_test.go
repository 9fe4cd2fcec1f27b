package replica

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/informd/informd/plugins/handler/handlertest/testca"
)

// shake makes a handshake between two identities, as a connects to b.
func shake(
	t *testing.T, client, server *Identity, peers map[string]string,
) (atClient, atServer error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	result := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			result <- err
			return
		}
		secure := tls.Server(conn, server.serverConfig(peers))
		result <- secure.HandshakeContext(context.Background())
		_ = conn.Close()
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	secure := tls.Client(conn, client.clientConfig("b", peers["b"]))
	atClient = secure.HandshakeContext(context.Background())
	if atClient != nil {
		_ = conn.Close()
	}
	return atClient, <-result
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	ca, foreign := testca.New(t, t.TempDir(), "ca"), testca.New(t, t.TempDir(), "foreign")
	peers := map[string]string{"a": "a.example:1", "b": "b.example:1", "c": "127.0.0.9:1"}
	dir := t.TempDir()
	writeIdentity(t, dir, foreign, "a")
	content, err := os.ReadFile(ca.File)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ca.crt"), content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	mixed, err := LoadIdentity(dir) // it trusts ca, which has not signed it
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name               string
		client, server     *Identity
		atClient, atServer string
	}{
		{"names", identityOf(t, ca, "a"), identityOf(t, ca, "b"), "", ""},
		{"hosts", identityOf(t, ca, "a.example"), identityOf(t, ca, "b.example"), "", ""},
		{"an address", identityOf(t, ca, "127.0.0.9"), identityOf(t, ca, "b"), "", ""},
		{
			"another replica's", identityOf(t, ca, "a"), identityOf(t, ca, "c"),
			"the certificate of b names neither b nor b.example: add one of them to its dnsNames",
			"bad cert",
		},
		{
			"nobody's", identityOf(t, ca, "x.example"), identityOf(t, ca, "b"), "",
			`for ["x.example"], names no replica`,
		},
		{"foreign client", mixed, identityOf(t, ca, "b"), "", "unknown authority"},
		{
			"foreign server", identityOf(t, ca, "a"), identityOf(t, foreign, "b"), "unknown authority",
			"bad cert",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			atClient, atServer := shake(t, test.client, test.server, peers)
			for where, pair := range map[string][2]any{
				"client": {atClient, test.atClient}, "server": {atServer, test.atServer},
			} {
				err, _ := pair[0].(error)
				want := pair[1].(string)
				if !says(err, want) {
					t.Errorf("%s: %v, want %q", where, err, want)
				}
			}
		})
	}
}

// says reports whether err says what is wanted: "" wants none.
func says(err error, want string) bool {
	if err == nil || want == "" {
		return err == nil && want == ""
	}
	return strings.Contains(err.Error(), want)
}

func TestACertificateHasToBeForItsUse(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, t.TempDir(), "ca")
	dir := t.TempDir()
	writeIdentity(t, dir, ca, "a")
	cert, key := ca.IssueAs(t, "serveronly", func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}, "a")
	move(t, cert, filepath.Join(dir, "tls.crt"))
	move(t, key, filepath.Join(dir, "tls.key"))
	identity, err := LoadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	peers := map[string]string{"a": "a:1", "b": "b:1"}
	_, atServer := shake(t, identity, identityOf(t, ca, "b"), peers)
	if atServer == nil || !strings.Contains(atServer.Error(), "incompatible key usage") {
		t.Errorf("a client with a certificate for servers: %v", atServer)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestACertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, t.TempDir(), "ca")
	dir := t.TempDir()
	writeIdentity(t, dir, ca, "a")
	identity, err := LoadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string { return identity.current().certificate.Leaf.SerialNumber.String() }
	first := serial()
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait(t, "the broken file is noticed", func() bool {
		is := serial()
		identity.mu.Lock()
		defer identity.mu.Unlock()
		if is != first {
			t.Fatal("a broken file has replaced the certificate")
		}
		return identity.trouble != ""
	})
	writeIdentity(t, dir, ca, "a")
	wait(t, "the new certificate is in use", func() bool { return serial() != first })
	identity.mu.Lock()
	defer identity.mu.Unlock()
	if identity.trouble != "" {
		t.Errorf("trouble %q", identity.trouble)
	}
}

// While the disk of the certificate hangs, handshakes use what was read before.
func TestADiskThatHangsHoldsUpNoHandshake(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, t.TempDir(), "ca")
	dir := t.TempDir()
	writeIdentity(t, dir, ca, "a")
	identity, err := LoadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, path := identity.current(), filepath.Join(dir, "tls.crt")
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	isLooking := func() bool {
		identity.mu.Lock()
		defer identity.mu.Unlock()
		return identity.looking != nil
	}
	wait(t, "it reads the files", func() bool { return identity.current() == first && isLooking() })
	for range 20 {
		if identity.current() != first {
			t.Fatal("it has another certificate")
		}
	}
	pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = pipe.Close()
	wait(t, "the disk goes on", func() bool { return !isLooking() })
}

func TestLoadIdentitySaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, t.TempDir(), "ca")
	for file, content := range map[string]string{"tls.key": "", "ca.crt": "nothing", "tls.crt": "x"} {
		dir := t.TempDir()
		writeIdentity(t, dir, ca, "a")
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadIdentity(dir); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadIdentity(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// Whoever opens connections and says nothing keeps no member from answering.
func TestSilentStrangersDoNotBlock(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, n := range c.nodes {
		n.options.timing.handshake = limit
	}
	c.startAll()
	c.leader()
	target := c.net.listeners[c.nodes[0].name].Addr().String()
	for range 2 * maxHandshakes {
		conn, err := net.Dial("tcp", target)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	c.propose(5, 10)
	c.settle()
	wait(t, "the replica can be asked", func() bool {
		return c.nodes[1].member.Status(context.Background()).Members[0].Unreachable == ""
	})
}
