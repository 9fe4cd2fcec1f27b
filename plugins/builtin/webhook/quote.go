package webhook

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/informd/informd/internal/printable"
)

// maxQuote bounds what a reject quotes of a response, in bytes. informd keeps 1 KiB of a reason.
const maxQuote = 400

// leastHidden is the length of the shortest part of a secret that is looked for in a response.
// Shorter ones stand in any text.
const leastHidden = 4

// leastPart is the length of the shortest word of a header and segment of a URL that is hidden by
// itself. Shorter ones are words of the language, such as Bearer.
const leastPart = 8

// quote adds to err the beginning of a response's body, as a line of printable text. In it, ***
// stands for each secret of the request. A body that holds the longest word of a secret, or
// a secret in base64, is not quoted. Neither are pages and bytes that are no text. No other encoding
// is looked for: whoever wants to show a secret that it was sent finds one.
func (c *config) quote(err error, header http.Header, body []byte, request *http.Request) error {
	whole := string(body)
	if len(body) == maxRead { // may end within a character
		whole = strings.ToValidUTF8(whole, "")
	}
	text := strings.Join(strings.Fields(printable.Visible(whole)), " ")
	if text == "" || !utf8.ValidString(whole) || strings.HasPrefix(text, "<") ||
		strings.HasPrefix(header.Get("Content-Type"), "text/html") {
		return err
	}
	secrets := c.keys()
	for _, hidden := range slices.Concat(secrets, sent(request)) {
		text = strings.ReplaceAll(text, hidden, "***")
	}
	for _, secret := range secrets {
		part := longestWord(secret)
		if part != "" && containsFold(text, part) || holdsBase64(text, secret) {
			return fmt.Errorf("%w, with a text which is not shown, because it quotes a secret", err)
		}
	}
	if len(text) > maxQuote {
		text = strings.ToValidUTF8(text[:maxQuote], "") + "…"
	}
	return fmt.Errorf("%w: %s", err, text)
}

// keys returns what the files of the config hold, the longest first. One that cannot be read any
// more has no part.
func (c *config) keys() (keys []string) {
	for name, path := range c.secrets {
		if line, err := readLine("secrets."+name, path); err == nil {
			keys = append(keys, line)
		}
	}
	if c.tokenFile != "" {
		if token, err := readToken(c.tokenFile); err == nil {
			keys = append(keys, token)
		}
	}
	if c.secretFile != "" {
		if key, err := readSecret(c.secretFile); err == nil {
			keys = append(keys, string(key))
		}
	}
	return longestFirst(keys)
}

// shown are headers of a request whose values may be quoted.
var shown = []string{"Content-Type", "User-Agent", epochHeader, traceHeader}

// sent returns what a request carries that reports do not show: the values of its headers, and the
// parts of its URL after the host.
func sent(request *http.Request) (parts []string) {
	for name, values := range request.Header {
		if !slices.Contains(shown, name) {
			parts = append(parts, values...)
			for _, value := range values { // a service may quote a token without its scheme
				for word := range strings.FieldsSeq(value) {
					if len(word) >= leastPart {
						parts = append(parts, word)
					}
				}
			}
		}
	}
	u := request.URL
	parts = append(parts, u.RequestURI(), u.RawQuery)
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		if plain, err := url.PathUnescape(segment); err == nil && len(segment) >= leastPart {
			parts = append(parts, segment, plain)
		}
	}
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	return longestFirst(parts)
}

// longestFirst sorts texts so that none is replaced within a longer one, and drops those that
// stand in any text.
func longestFirst(texts []string) []string {
	texts = slices.DeleteFunc(texts, func(s string) bool { return len(s) < leastHidden })
	slices.SortFunc(texts, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return texts
}

// longestWord returns the longest run of ASCII letters and digits in a secret: no encoding of URLs,
// JSON or HTML changes it. It returns "" if there is none that is long enough.
func longestWord(secret string) (longest string) {
	for word := range strings.FieldsFuncSeq(secret, func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		if len(word) > len(longest) {
			longest = word
		}
	}
	if len(longest) < leastHidden {
		return ""
	}
	return longest
}

// holdsBase64 reports whether a text holds the secret in base64, alone or within something longer,
// as Basic authentication has a password.
func holdsBase64(text, secret string) bool {
	if len(secret) < leastHidden {
		return false
	}
	for before := range 3 { // bytes of another text that share its first group of three
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
			// Digits that share their bits with what stands before or after vary.
			first, last := (8*before+5)/6, 8*(before+len(secret))/6
			if strings.Contains(text, encoded[first:last]) {
				return true
			}
		}
	}
	return false
}

func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
