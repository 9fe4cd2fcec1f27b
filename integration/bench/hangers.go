package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/informd/informd/integration/address"
	"github.com/informd/informd/plugins/serve"
)

// startHanging starts a daemon whose handler has a spec.
func startHanging(ctx context.Context, at site, l *load, spec string) (*daemon, error) {
	return startDaemon(ctx, at, l, setup{more: "---\n" +
		"{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: hanging},\n" +
		" spec: {" + spec + "}}\n---\n" +
		"{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: hanging},\n" +
		" spec: {source: pods, events: [updated], delivery: every, handler: hanging}}\n"})
}

// startWebhook starts a daemon with the webhook builtin, which posts to this process.
func startWebhook(ctx context.Context, at site, l *load) (*hangingDaemon, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := newHangs()
	server := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(listener) }() // until it is closed
	spec := fmt.Sprintf("builtin: webhook, config: {url: \"http://%s\"}", listener.Addr())
	d, err := startHanging(ctx, at, l, spec)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &hangingDaemon{d, h.reply, server.Close}, nil
}

// startHangs starts a daemon with a handler process in the role "hangs".
func startHangs(ctx context.Context, at site, l *load) (*hangingDaemon, error) {
	return startReporting(ctx, at, l, fmt.Sprintf("command: [%q, hangs]", at.self))
}

// startReporting starts a daemon with a handler that is a hangs, in another process. Its config
// names a socket, on which it answers questions.
func startReporting(
	ctx context.Context, at site, l *load, spec string) (_ *hangingDaemon, err error) {
	listener, err := listen(at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	d, err := startHanging(ctx, at, l, spec+fmt.Sprintf(", config: {socket: %q}", listener.Addr()))
	if err != nil {
		return nil, err
	}
	conn, err := accept(listener, d.ended)
	if err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return &hangingDaemon{d, newAsked("the handler that hangs", conn).ask, conn.Close}, nil
}

// listen listens on a unix socket of its own.
func listen(at site) (*net.UnixListener, error) {
	dir, err := os.MkdirTemp(at.dir, "h")
	if err != nil {
		return nil, err
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "h"), Net: "unix"})
}

// startRemote starts a daemon with a remote handler, which is a process in the role "remote".
func startRemote(ctx context.Context, at site, l *load) (_ *hangingDaemon, err error) {
	dir, err := os.MkdirTemp(at.dir, "c")
	if err != nil {
		return nil, err
	}
	if err := writeCertificate(dir); err != nil {
		return nil, err
	}
	where, err := address.Next()
	if err != nil {
		return nil, err
	}
	remote := exec.CommandContext(ctx, at.self, "remote", where, dir)
	remote.Stderr = os.Stderr
	if err := remote.Start(); err != nil {
		return nil, err
	}
	end := func() error {
		_ = remote.Process.Signal(syscall.SIGTERM) // it has ended if this fails, and Wait says how
		return remote.Wait()
	}
	spec := fmt.Sprintf("address: \"dns:///%s\", tls: {ca: %q, cert: %[2]q, key: %q, "+
		"serverName: localhost}", where, certFile(dir), keyFile(dir))
	d, err := startReporting(ctx, at, l, spec)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	free := d.free
	d.free = func() error { return errors.Join(end(), free()) }
	return d, nil
}

// serveRemote is a remote handler. Its arguments are an address and the folder of its certificate.
func serveRemote(_ context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("arguments %q", args)
	}
	dir := args[1]
	return serve.Remote(newHangs(), serve.RemoteOptions{
		Address: args[0], CertFile: certFile(dir), KeyFile: keyFile(dir), ClientCAFile: certFile(dir),
	})
}

func certFile(dir string) string { return filepath.Join(dir, "tls.crt") }
func keyFile(dir string) string  { return filepath.Join(dir, "tls.key") }

// writeCertificate writes a certificate for localhost, which both sides show, and which is its own
// authority.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "bench"},
		DNSNames: []string{"localhost"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	if err := os.WriteFile(certFile(dir), text, 0o600); err != nil {
		return err
	}
	text = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return os.WriteFile(keyFile(dir), text, 0o600)
}

// hangsInPython is the handler in Python. It derives from the example's.
//
//go:embed hangs.py
var hangsInPython []byte

// startPython starts a daemon with a handler in Python, which asks this process about each event.
// What the machine lacks is an error of the type unavailable.
func startPython(ctx context.Context, at site, l *load) (*hangingDaemon, error) {
	command, err := installPython(ctx, at)
	if err != nil {
		return nil, err
	}
	listener, err := listen(at)
	if err != nil {
		return nil, err
	}
	h := newHangs()
	go h.answerLines(listener)
	spec := fmt.Sprintf("command: [%q, %q], config: {socket: %q}",
		command[0], command[1], listener.Addr())
	d, err := startHanging(ctx, at, l, spec)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &hangingDaemon{d, h.reply, listener.Close}, nil
}

// answerLines answers each line, a name and what holds the time of sending, with an empty line, until
// the listener is closed. It closes the connection instead if the handler is to fail.
func (h *hangs) answerLines(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				name, sent, _ := bytes.Cut(lines.Bytes(), []byte(" "))
				if h.handle(context.Background(), string(name), sent) != nil {
					return
				}
				if _, err := conn.Write([]byte("\n")); err != nil {
					return
				}
			}
		}()
	}
}

// unavailable says what this machine lacks for a measurement.
type unavailable string

func (u unavailable) Error() string { return string(u) }

// installPython puts the handler in Python and what it needs into a folder. It returns the command.
func installPython(ctx context.Context, at site) (command []string, err error) {
	python := ""
	for _, candidate := range []string{"python3", "/usr/bin/python3"} {
		// Another Python may come first in the PATH, without the system's packages.
		const libraries = "import grpc, google.protobuf"
		if exec.CommandContext(ctx, candidate, "-c", libraries).Run() == nil {
			python = candidate
			break
		}
	}
	if python == "" {
		return nil, unavailable("no python3-grpcio and python3-protobuf here")
	}
	if python, err = exec.LookPath(python); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("protoc"); err != nil {
		return nil, unavailable("no protoc here")
	}
	_, source, _, _ := runtime.Caller(0)
	example := filepath.Join(filepath.Dir(source), "../../examples/handlers/python/diary.py")
	diary, err := os.ReadFile(example)
	if err != nil {
		return nil, unavailable("the example's handler is not here")
	}
	dir, err := os.MkdirTemp(at.dir, "y")
	if err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "hangs.py")
	err = errors.Join(os.WriteFile(filepath.Join(dir, "diary.py"), diary, 0o600),
		os.WriteFile(script, hangsInPython, 0o700))
	for _, line := range []string{
		at.informd + " handler proto", "protoc -I. --python_out=. handler.proto cache.proto",
	} {
		words := strings.Fields(line)
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.Dir = dir
		if out, failed := cmd.CombinedOutput(); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w\n%s", line, failed, out))
		}
	}
	return []string{python, script}, err
}
