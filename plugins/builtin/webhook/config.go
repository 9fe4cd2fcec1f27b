package webhook

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/plugins/builtin/internal/strict"
)

// config is a manifest's config, checked.
type config struct {
	url        *url.URL
	headers    http.Header    // sent with every request, in canonical form
	tokenFile  string         // "" for none
	roots      *x509.CertPool // nil for the system's
	secretFile string         // "" for no signature
	signature  string         // header that carries it
	timeout    time.Duration  // 0 for the event's own
}

const schema = `{"type":"object","additionalProperties":false,"required":["url"],"properties":{` +
	`"url":{"type":"string","format":"uri"},` +
	`"headers":{"type":"object","maxProperties":64,"additionalProperties":{"type":"string"}},` +
	`"tokenFile":{"type":"string","minLength":1},` +
	`"caFile":{"type":"string","minLength":1},` +
	`"hmac":{"type":"object","additionalProperties":false,"required":["secretFile"],` +
	`"properties":{"secretFile":{"type":"string","minLength":1},` +
	`"header":{"type":"string","default":"X-Informd-Signature"}}},` +
	`"timeout":{"type":"string"}}}`

const (
	defaultSignature = "X-Informd-Signature"
	maxURL           = 8 << 10
	maxHeaders       = 64
	maxHeader        = 8 << 10 // bytes of a header's value
	minTimeout       = time.Millisecond
	maxTimeout       = time.Hour
)

// parse checks a config and the files that it names. The error lists everything that is wrong,
// without any value.
func parse(raw json.RawMessage) (*config, error) {
	var c config
	var address, caFile, secretFile, signature string
	var headers map[string]string
	if err := strict.Decode(raw, strict.Fields{
		"url": &address, "headers": &headers, "timeout": &c.timeout,
		"tokenFile": &c.tokenFile, "caFile": &caFile,
		"hmac": strict.Fields{"secretFile": &secretFile, "header": &signature},
	}); err != nil {
		return nil, err
	}
	problems := []error{c.setURL(address)}
	if has(raw, "timeout") && (c.timeout < minTimeout || c.timeout > maxTimeout) {
		problems = append(problems,
			fmt.Errorf("timeout: must be between %v and %v", minTimeout, maxTimeout))
	}
	if c.tokenFile != "" {
		_, err := readToken(c.tokenFile)
		problems = append(problems, err)
	}
	if caFile != "" {
		problems = append(problems, c.setRoots(caFile)...)
	}
	if has(raw, "hmac") {
		problems = append(problems, c.setHMAC(secretFile, signature)...)
	}
	problems = append(problems, c.setHeaders(headers)...)
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &c, nil
}

// has reports whether a config has a member that is not null.
func has(raw json.RawMessage, name string) bool {
	var members map[string]*json.RawMessage
	return json.Unmarshal(raw, &members) == nil && members[name] != nil
}

// setURL sets the URL. It does not pass on net/url's errors: they quote the URL, which may contain
// a secret.
func (c *config) setURL(address string) error {
	switch {
	case address == "":
		return errors.New("url: required, such as https://hooks.example.com/informd")
	case len(address) > maxURL:
		return fmt.Errorf("url: is %d bytes long, at most %d are allowed", len(address), maxURL)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("url: is not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("url: must begin with https:// or http://")
	case u.Hostname() == "":
		return errors.New("url: has no host")
	case u.User != nil:
		return errors.New("url: must not hold a user or password: put a token into tokenFile")
	case u.Fragment != "":
		return errors.New("url: must not have a #fragment, which is never sent")
	}
	c.url = u
	return nil
}

func (c *config) setRoots(caFile string) (problems []error) {
	if c.url != nil && c.url.Scheme != "https" {
		problems = append(problems, errors.New("caFile: needs an https URL"))
	}
	roots, err := readRoots(caFile)
	c.roots = roots
	return append(problems, err)
}

func (c *config) setHMAC(secretFile, header string) (problems []error) {
	if header == "" {
		header = defaultSignature
	}
	c.secretFile, c.signature = secretFile, http.CanonicalHeaderKey(header)
	problems = append(problems, checkHeaderName("hmac.header", header))
	if c.signature == "Authorization" && c.tokenFile != "" {
		problems = append(problems,
			errors.New("hmac.header: Authorization carries the token of tokenFile"))
	}
	if secretFile == "" {
		return append(problems, errors.New("hmac.secretFile: required"))
	}
	_, err := readSecret(secretFile)
	return append(problems, err)
}

// ours are headers that the webhook or HTTP itself sets.
var ours = []string{
	"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
	"Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

func (c *config) setHeaders(headers map[string]string) (problems []error) {
	if len(headers) > maxHeaders {
		return []error{fmt.Errorf("headers: has %d entries, at most %d are allowed",
			len(headers), maxHeaders)}
	}
	c.headers = make(http.Header, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at, canonical, value := "headers."+name, http.CanonicalHeaderKey(name), headers[name]
		switch err := checkHeaderName(at, name); {
		case err != nil:
			problems = append(problems, err)
		case canonical == "Authorization" && c.tokenFile != "":
			problems = append(problems, fmt.Errorf("%s: carries the token of tokenFile", at))
		case canonical == c.signature:
			problems = append(problems, fmt.Errorf("%s: carries the signature of hmac", at))
		case c.headers.Values(canonical) != nil:
			problems = append(problems,
				fmt.Errorf("%s: is there twice; upper and lower case do not differ", at))
		case len(value) > maxHeader:
			problems = append(problems, fmt.Errorf("%s: is %d bytes long, at most %d are allowed",
				at, len(value), maxHeader))
		case !isHeaderValue(value):
			problems = append(problems,
				fmt.Errorf("%s: may hold printable characters, spaces and tabs only", at))
		}
		c.headers.Set(canonical, value)
	}
	return problems
}

func checkHeaderName(at, name string) error {
	if !isToken(name) {
		return fmt.Errorf("%s: is not a valid name of a header", at)
	}
	if slices.Contains(ours, http.CanonicalHeaderKey(name)) {
		return fmt.Errorf("%s: is set by informd or by HTTP itself", at)
	}
	return nil
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	return s != "" && len(s) <= 256 && !strings.ContainsFunc(s, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// isHeaderValue reports whether s can be a header's value: it has no control characters, so it
// cannot smuggle in another header.
func isHeaderValue(s string) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}
