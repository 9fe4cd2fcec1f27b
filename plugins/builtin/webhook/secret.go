package webhook

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Bounds of the files that a config names.
const (
	maxSecret = 64 << 10
	maxRoots  = 1 << 20
)

// readToken reads a bearer token: a line of printable ASCII, without the white space around it.
func readToken(path string) (string, error) {
	content, err := readFile("tokenFile", path, maxSecret)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("tokenFile: %s is empty", path)
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return "", fmt.Errorf("tokenFile: %s does not hold a single token", path)
		}
	}
	return token, nil
}

// readLine reads a secret for templates: one line of text, without the white space around it.
func readLine(field, path string) (string, error) {
	content, err := readFile(field, path, maxSecret)
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(content))
	switch {
	case line == "":
		return "", fmt.Errorf("%s: %s is empty", field, path)
	case !utf8.ValidString(line) || !isHeaderValue(line):
		return "", fmt.Errorf("%s: %s does not hold a single line of text", field, path)
	}
	return line, nil
}

// readSecret reads an HMAC key: the file's bytes, without a final newline.
func readSecret(path string) ([]byte, error) {
	content, err := readFile("hmac.secretFile", path, maxSecret)
	if err != nil {
		return nil, err
	}
	secret := bytes.TrimRight(content, "\r\n")
	if len(secret) == 0 {
		return nil, fmt.Errorf("hmac.secretFile: %s is empty", path)
	}
	return secret, nil
}

// readRoots reads the certificates of the authorities that may have signed a server's.
func readRoots(path string) (*x509.CertPool, error) {
	content, err := readFile("caFile", path, maxRoots)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("caFile: %s holds no certificate in PEM form", path)
	}
	return roots, nil
}

// readFile reads a small file for the named field. It does not hang if the file is a pipe.
func readFile(field, path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %s does not exist", field, path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %s is no regular file", field, path)
	}
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("%s: %s is larger than %d bytes", field, path, most)
	}
	return content, nil
}
