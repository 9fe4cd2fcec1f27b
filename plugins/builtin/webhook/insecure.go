package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// checkEncryption checks what the config's url says of itself. The address of a request is checked
// again: an expression or a file gives the rest.
func (c *config) checkEncryption(address string) error {
	if c.base != "" {
		line, err := readLine("secrets."+c.base, c.secrets[c.base])
		if err != nil {
			return nil // checkSecrets reports it
		}
		address = line
	}
	scheme, rest, _ := strings.Cut(address, "://")
	if c.base == "" && c.insecure && scheme == "https" {
		return errors.New("insecure: is for a URL with http://; " +
			"over https:// certificates are always checked")
	}
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	u, err := url.Parse(scheme + "://" + host)
	if err != nil {
		return nil // setURL reports it
	}
	return c.checkExposed(u)
}

// checkExposed returns an error if a request to u would show a secret to everybody on its way, and
// the config does not say that this is all right.
func (c *config) checkExposed(u *url.URL) error {
	secrets := c.credentials()
	if c.insecure || u.Scheme != "http" || isLoopback(u.Hostname()) || len(secrets) == 0 {
		return nil
	}
	last := len(secrets) - 1
	list := secrets[last]
	if last > 0 {
		list = strings.Join(secrets[:last], ", ") + " and " + list
	}
	return fmt.Errorf("url: http:// sends %s unencrypted: use https://, or say insecure: true", list)
}

// credentials returns the fields of the config that hold what only the receiver may know. A signed
// body can be sent again by whoever reads it.
func (c *config) credentials() (fields []string) {
	if _, ok := c.headers["Authorization"]; ok {
		fields = append(fields, "headers.Authorization")
	}
	if c.secretFile != "" {
		fields = append(fields, "hmac")
	}
	if len(c.secrets) > 0 {
		fields = append(fields, "secrets")
	}
	if c.tokenFile != "" {
		fields = append(fields, "tokenFile")
	}
	return fields
}

// isLoopback reports whether requests to a host stay on this machine.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}
