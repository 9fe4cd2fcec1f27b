package webhook

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// settings is a manifest's config. It has many fields because the manifest has them.
type settings struct {
	URL       filled            `json:"url"`
	Headers   map[string]string `json:"headers"`
	Timeout   *time.Duration    `json:"timeout"`
	Format    filled            `json:"format"`
	Body      json.RawMessage   `json:"body"`
	Secrets   map[string]string `json:"secrets"`
	TokenFile filled            `json:"tokenFile"`
	CAFile    filled            `json:"caFile"`
	Insecure  bool              `json:"insecure"`
	HMAC      *struct {
		SecretFile filled `json:"secretFile"`
		Header     filled `json:"header"`
	} `json:"hmac"`

	_ struct{} `instead:"template: the template stands in body, with format: template"`
	_ struct{} `instead:"payload: the rule has the payload, and format: payload posts it"`
	_ struct{} `instead:"token: tokenFile names a file with the token"`
	_ struct{} `instead:"method: the method is always POST"`
}

// filled is a string that is not empty, if it is there.
type filled string

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *filled) UnmarshalText(text []byte) error {
	if *f = filled(text); *f == "" {
		return errors.New("must not be empty")
	}
	return nil
}

// config is a manifest's config, checked.
type config struct {
	url        text
	base       string          // the secret that the URL begins with; "" if its host is constant
	headers    map[string]text // sent with every request, by canonical names
	format     string
	body       *rule.Template    // of formatTemplate
	secrets    map[string]string // files, by the names that templates have for them
	tokenFile  string            // "" for none
	roots      *x509.CertPool    // nil for the system's
	secretFile string            // "" for no signature
	signature  string            // header that carries it
	timeout    time.Duration     // 0 for the event's own
	insecure   bool              // secrets may go over http:// to other machines
}

// The formats of a request's body.
const (
	formatCloudEvents = "cloudevents" // the event as a CloudEvent
	formatPayload     = "payload"     // the event's payload as it is
	formatTemplate    = "template"    // what the config's body gives
)

const schema = `{"type":"object","additionalProperties":false,"required":["url"],"properties":{` +
	`"url":{"type":"string"},` +
	`"format":{"enum":["cloudevents","payload","template"],"default":"cloudevents"},` +
	`"body":{},` +
	`"secrets":{"type":"object","maxProperties":64,"additionalProperties":{"type":"string"}},` +
	`"headers":{"type":"object","maxProperties":64,"additionalProperties":{"type":"string"}},` +
	`"tokenFile":{"type":"string","minLength":1},` +
	`"caFile":{"type":"string","minLength":1},` +
	`"hmac":{"type":"object","additionalProperties":false,"required":["secretFile"],` +
	`"properties":{"secretFile":{"type":"string","minLength":1},` +
	`"header":{"type":"string","default":"X-Informd-Signature"}}},` +
	`"insecure":{"type":"boolean","default":false},` +
	`"timeout":{"type":"string"}}}`

const (
	defaultSignature = "X-Informd-Signature"
	epochHeader      = "Informd-Epoch" // CLUSTER/GENERATION/TERM
	traceHeader      = "Traceparent"   // of W3C Trace Context
	maxURL           = 8 << 10
	maxHeaders       = 64
	maxHeader        = 8 << 10 // bytes of a header's value
	maxSecrets       = 64
	maxBody          = 8 << 20 // bytes of a body that a template gives; a payload has no more
	minTimeout       = time.Millisecond
	maxTimeout       = time.Hour
)

// parse checks a config and the files that it names. The error lists everything that is wrong,
// without any value.
func parse(raw json.RawMessage) (*config, error) {
	s, err := handler.DecodeConfig(raw, settings{})
	if err != nil {
		return nil, err
	}
	return s.compile()
}

// Validate checks the values. handler.DecodeConfig calls it.
func (s settings) Validate() error {
	_, err := s.compile()
	return err
}

func (s settings) compile() (*config, error) {
	c := config{
		format: string(s.Format), secrets: s.Secrets, tokenFile: string(s.TokenFile),
		insecure: s.Insecure,
	}
	address, caFile := string(s.URL), string(s.CAFile)
	t := newTemplates(c.secrets)
	problems := []error{c.setURL(t, address)}
	if s.Timeout != nil {
		if c.timeout = *s.Timeout; c.timeout < minTimeout || c.timeout > maxTimeout {
			problems = append(problems,
				fmt.Errorf("timeout: must be between %v and %v", minTimeout, maxTimeout))
		}
	}
	if c.tokenFile != "" {
		_, err := readToken(c.tokenFile)
		problems = append(problems, err)
	}
	if caFile != "" {
		problems = append(problems, c.setRoots(caFile, address)...)
	}
	if s.HMAC != nil {
		problems = append(problems,
			c.setHMAC(string(s.HMAC.SecretFile), string(s.HMAC.Header))...)
	}
	problems = append(problems, c.setHeaders(t, s.Headers)...)
	problems = append(problems, c.setFormat(t, s.Body)...)
	problems = append(problems, c.checkSecrets()...)
	problems = append(problems, c.checkEncryption(address))
	if err := errors.Join(append(problems, t.problems...)...); err != nil {
		return nil, err
	}
	return &c, nil
}

// setFormat sets what the body of a request is.
func (c *config) setFormat(t *templates, body json.RawMessage) []error {
	switch c.format {
	case "", formatCloudEvents, formatPayload:
		if body != nil {
			return []error{errors.New("body: goes with format: template")}
		}
		c.format = cmp.Or(c.format, formatCloudEvents)
		return nil
	case formatTemplate:
		if body == nil {
			return []error{errors.New("body: required with format: template, " +
				`such as {text: "${name}: ${event}"}`)}
		}
		c.body = t.body(body)
		return nil
	}
	return []error{errors.New("format: must be cloudevents, payload or template")}
}

var secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkSecrets reads each secret once, so that a missing file is found before the first event.
func (c *config) checkSecrets() (problems []error) {
	if len(c.secrets) > maxSecrets {
		return []error{fmt.Errorf("secrets: has %d entries, at most %d are allowed",
			len(c.secrets), maxSecrets)}
	}
	for _, name := range slices.Sorted(maps.Keys(c.secrets)) {
		if !secretName.MatchString(name) {
			problems = append(problems, fmt.Errorf("secrets.%s: is no name for ${secrets.NAME}: "+
				"use letters, digits and _, and begin with a letter or _", name))
			continue
		}
		_, err := readLine("secrets."+name, c.secrets[name])
		problems = append(problems, err)
	}
	return problems
}

// fixedHost matches the URLs whose host no event can choose: it is constant, or the URL begins with
// a secret.
var fixedHost = regexp.MustCompile(`^(https?://[^/?#$]+([/?]|$)|\$\{\s*secrets\.\w+\s*\})`)

// setURL sets the URL. It does not pass on net/url's errors: they quote the URL, which may contain
// a secret.
func (c *config) setURL(t *templates, address string) error {
	switch {
	case address == "":
		return errors.New("url: required, such as https://hooks.example.com/informd")
	case len(address) > maxURL:
		return fmt.Errorf("url: is %d bytes long, at most %d are allowed", len(address), maxURL)
	}
	before := len(t.problems)
	c.url = t.text("url", address, expr.Options{Inline: inURL})
	switch {
	case len(t.problems) > before:
		return nil
	case c.url.program == nil:
		_, err := parseURL(c.url.literal)
		return err
	}
	if m := leadingSecret.FindStringSubmatch(address); m != nil {
		c.base = m[1]
		return c.checkSecretURL(m[2])
	}
	if !fixedHost.MatchString(address) {
		return errors.New("url: must begin with https://HOST/ or http://HOST/ without ${ in it, " +
			"or with ${secrets.NAME}, so that no object chooses the host")
	}
	return nil
}

// leadingSecret matches the URLs that begin with a secret: its name, and what follows.
var leadingSecret = regexp.MustCompile(`^\$\{\s*secrets\.(\w+)\s*\}(?s:(.*))$`)

// checkSecretURL checks the URL that is in the base's file now. rest is what follows it.
func (c *config) checkSecretURL(rest string) error {
	line, err := readLine("secrets."+c.base, c.secrets[c.base])
	if err != nil {
		return nil // checkSecrets reports it
	}
	if rest != "" {
		example := line + "x" // what an expression may give
		if rest[0] == '/' || rest[0] == '?' {
			example = line + rest[:1]
		}
		u, err := url.Parse(example)
		if err != nil {
			return errors.New("url: is not a valid URL (with what " + c.secrets[c.base] + " holds)")
		}
		return c.checkHost(u, line)
	}
	if _, err := parseURL(line); err != nil {
		return fmt.Errorf("%w (it is what %s holds)", err, c.secrets[c.base])
	}
	return nil
}

// checkHost checks that the host of u is the one of the secret that it begins with.
func (c *config) checkHost(u *url.URL, secret string) error {
	base, err := url.Parse(secret)
	if err == nil && base.Scheme == u.Scheme && base.Hostname() != "" && base.Host == u.Host {
		return nil
	}
	return fmt.Errorf("url: the URL in %s must have a whole host, and end it with / "+
		"if more follows ${secrets.%s}, so that no object chooses the host",
		c.secrets[c.base], c.base)
}

// parseURL parses a URL that requests go to. The error shows nothing of it.
func parseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case len(address) > maxURL:
		return nil, fmt.Errorf("url: is %d bytes long, at most %d are allowed",
			len(address), maxURL)
	case err != nil:
		return nil, errors.New("url: is not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("url: must begin with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("url: has no host")
	case u.User != nil:
		return nil, errors.New("url: must not hold a user or password: put a token into tokenFile")
	case u.Fragment != "":
		return nil, errors.New("url: must not have a #fragment, which is never sent")
	}
	return u, nil
}

func (c *config) setRoots(caFile, address string) (problems []error) {
	if strings.HasPrefix(address, "http://") {
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
	epochHeader, "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", traceHeader,
	"Trailer", "Transfer-Encoding", "Upgrade",
}

func (c *config) setHeaders(t *templates, headers map[string]string) (problems []error) {
	if len(headers) > maxHeaders {
		return []error{fmt.Errorf("headers: has %d entries, at most %d are allowed",
			len(headers), maxHeaders)}
	}
	c.headers = make(map[string]text, len(headers))
	seen := make(map[string]bool, len(headers)) // canonical names
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at, canonical, value := "headers."+name, http.CanonicalHeaderKey(name), headers[name]
		switch err := checkHeaderName(at, name); {
		case err != nil:
			problems = append(problems, err)
		case canonical == "Authorization" && c.tokenFile != "":
			problems = append(problems, fmt.Errorf("%s: carries the token of tokenFile", at))
		case canonical == c.signature:
			problems = append(problems, fmt.Errorf("%s: carries the signature of hmac", at))
		case seen[canonical]:
			problems = append(problems,
				fmt.Errorf("%s: is there twice; upper and lower case do not differ", at))
		default:
			c.headers[canonical] = t.text(at, value, expr.Options{})
			problems = append(problems, checkHeader(at, value))
		}
		seen[canonical] = true
	}
	return problems
}

// checkHeader returns what is wrong with the value of a header, without the value.
func checkHeader(at, value string) error {
	switch {
	case len(value) > maxHeader:
		return fmt.Errorf("%s: is %d bytes long, at most %d are allowed", at, len(value), maxHeader)
	case !isHeaderValue(value):
		return fmt.Errorf("%s: may hold printable characters, spaces and tabs only", at)
	}
	return nil
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
