package webhook

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestConfigRefused(t *testing.T) {
	const secret = "hunter2" // in every value that must not be shown
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	const good = "https://hooks.example.com/in"
	headers := func(pairs ...string) values {
		h := make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = pairs[i+1]
		}
		return values{"url": good, "headers": h}
	}
	many := make([]string, 0, 2*(maxHeaders+1))
	for i := range maxHeaders + 1 {
		many = append(many, fmt.Sprintf("X-%d", i), "v")
	}
	for name, test := range map[string]struct {
		give values
		want string
	}{
		"nothing":         {nil, "url: required"},
		"unknown field":   {values{"url": good, "ur": 1}, `unknown field "ur", did you mean "url"? (known: body, caFile, format, headers, hmac, insecure, secrets, timeout, tokenFile, url)`},
		"no URL":          {values{"url": "://" + secret}, "url: is not a valid URL"},
		"port":            {values{"url": "http://user:" + secret}, "url: is not a valid URL"},
		"scheme":          {values{"url": "ftp://host/" + secret}, "url: must begin with https"},
		"no scheme":       {values{"url": "host/" + secret}, "url: must begin with https"},
		"no host":         {values{"url": "http:///" + secret}, "url: has no host"},
		"only a port":     {values{"url": "http://:80/"}, "url: has no host"},
		"user":            {values{"url": "https://me:" + secret + "@host/"}, "put a token into tokenFile"},
		"fragment":        {values{"url": good + "#" + secret}, "#fragment"},
		"long URL":        {values{"url": good + strings.Repeat("x", maxURL)}, "url: is 8220 bytes long"},
		"timeout of 0":    {values{"url": good, "timeout": "0s"}, "timeout: must be between 1ms and 1h0m0s"},
		"negative":        {values{"url": good, "timeout": "-1s"}, "timeout: must be between"},
		"a day":           {values{"url": good, "timeout": "24h"}, "timeout: must be between"},
		"header's name":   {headers("X Y", "v"), "headers.X Y: is not a valid name"},
		"name in Latin-1": {headers("X-Ü", "v"), "headers.X-Ü: is not a valid name"},
		"empty name":      {headers("", "v"), "is not a valid name"},
		"header injected": {headers("X", secret+"\r\nY: z"), "headers.X: may hold printable characters"},
		"own header":      {headers("content-type", "text/plain"), "headers.content-type: is set by informd or by HTTP itself"},
		"epoch":           {headers("informd-epoch", "a/1/1"), "headers.informd-epoch: is set by informd or by HTTP itself"},
		"trace":           {headers("traceparent", "00-a-b-01"), "headers.traceparent: is set by informd or by HTTP itself"},
		"framing":         {headers("Transfer-Encoding", "chunked"), "is set by informd"},
		"host":            {headers("Host", "other"), "is set by informd"},
		"twice":           {headers("x-a", "1", "X-A", "2"), "is there twice"},
		"long header":     {headers("X", strings.Repeat("x", maxHeader+1)), "headers.X: is 8193 bytes long"},
		"many headers":    {headers(many...), "headers: has 65 entries, at most 64"},
		"two tokens": {values{"url": good, "tokenFile": file(t, "t"), "headers": values{"authorization": secret}},
			"headers.authorization: carries the token of tokenFile"},
		"two signatures": {values{"url": good, "hmac": values{"secretFile": file(t, secret)}, "headers": values{"x-informd-signature": "v"}},
			"carries the signature of hmac"},
		"signature and token": {values{"url": good, "tokenFile": file(t, "t"), "hmac": values{"secretFile": file(t, secret), "header": "authorization"}},
			"hmac.header: Authorization carries the token"},
		"signature's header":    {values{"url": good, "hmac": values{"secretFile": file(t, secret), "header": "host"}}, "hmac.header: is set by informd"},
		"hmac without file":     {values{"url": good, "hmac": values{}}, "hmac.secretFile: required"},
		"hmac is not a mapping": {values{"url": good, "hmac": secret}, "hmac: must be a mapping, not a string"},
		"empty secret":          {values{"url": good, "hmac": values{"secretFile": file(t, "\n")}}, "is empty"},
		"missing token":         {values{"url": good, "tokenFile": "none"}, "tokenFile: none does not exist"},
		"large token":           {values{"url": good, "tokenFile": file(t, strings.Repeat("x", maxSecret+1))}, "is larger than 65536 bytes"},
		"endless token":         {values{"url": good, "tokenFile": "/dev/zero"}, "is no regular file"},
		"hanging token":         {values{"url": good, "tokenFile": fifo}, "is no regular file"},
		"folder":                {values{"url": good, "tokenFile": t.TempDir()}, "is no regular file"},
		"token of two lines":    {values{"url": good, "tokenFile": file(t, secret+"\n"+secret)}, "does not hold a single token"},
		"CA":                    {values{"url": good, "caFile": file(t, secret)}, "holds no certificate"},
		"unknown format":        {values{"url": good, "format": "json"}, "format: must be cloudevents, payload or template"},
		"body's other name":     {values{"url": good, "format": "template", "template": values{"a": 1}}, `unknown field "template"; the template stands in body, with format: template`},
		"body without format":   {values{"url": good, "body": values{"a": 1}}, "body: goes with format: template"},
		"format without body":   {values{"url": good, "format": "template"}, "body: required with format: template"},
		"body's expression":     {values{"url": good, "format": "template", "body": values{"a": []string{"${objekt.a}"}}}, `body.a[0]: unknown name "objekt"; did you mean object?`},
		"body's key":            {values{"url": good, "format": "template", "body": values{"${name}": "a"}}, "a key cannot have expressions"},
		"forgotten braces":      {values{"url": good, "format": "template", "body": values{"a": "payload.text"}}, `body.a: this is the text itself; for what the expression gives write "${payload.text}"`},
		"Go's templates":        {values{"url": good, "format": "template", "body": values{"a": "Pod {{ .object.metadata.name }}"}}, "body.a: {{ .object is the syntax of Go and Helm: write ${…}"},
		"lookup":                {values{"url": good, "format": "template", "body": `${lookup("pods.byNode", name)}`}, "which a handler's template cannot do; use it in the rule's payload"},
		"deep body":             {values{"url": good, "format": "template", "body": deep(17)}, "is nested more than 16 deep"},
		"unknown secret":        {values{"url": good, "secrets": values{"token": file(t, secret)}, "headers": values{"X": "${secrets.tokn}"}}, "headers.X: there is no secrets.tokn; did you mean token?"},
		"missing secret":        {values{"url": good, "secrets": values{"token": "none"}}, "secrets.token: none does not exist"},
		"empty secret line":     {values{"url": good, "secrets": values{"token": file(t, " \n")}}, "secrets.token: "},
		"secret of two lines":   {values{"url": good, "secrets": values{"token": file(t, secret+"\n"+secret)}}, "does not hold a single line of text"},
		"secret's name":         {values{"url": good, "secrets": values{"a-b": file(t, secret)}}, "secrets.a-b: is no name"},
		"no URL in a secret":    {values{"url": "${secrets.url}", "secrets": values{"url": file(t, secret)}}, "url: must begin with https:// or http:// (it is what "},
		"host of an event":      {values{"url": "https://${name}/x"}, "so that no object chooses the host"},
		"URL of an event":       {values{"url": "${payload.url}"}, "so that no object chooses the host"},
		"host half of one":      {values{"url": "https://hooks.${name}.com/x"}, "so that no object chooses the host"},
		"CA without TLS":        {values{"url": "http://host", "caFile": file(t, secret)}, "caFile: needs an https URL"},
		"token without TLS":     {values{"url": "http://host/in", "tokenFile": file(t, "t")}, "url: http:// sends tokenFile unencrypted: use https://, or say insecure: true"},
		"signature without TLS": {values{"url": "http://127.0.0.1.example.com", "hmac": values{"secretFile": file(t, secret)}}, "url: http:// sends hmac unencrypted"},
		"header without TLS":    {values{"url": "http://10.0.0.1", "headers": values{"authorization": "Basic " + secret}}, "url: http:// sends headers.Authorization unencrypted"},
		"all without TLS": {values{"url": "http://host/${name}", "tokenFile": file(t, "t"), "secrets": values{"a": file(t, secret)}, "hmac": values{"secretFile": file(t, secret)}},
			"url: http:// sends hmac, secrets and tokenFile unencrypted"},
		"secret URL without TLS": {values{"url": "${secrets.url}", "secrets": values{"url": file(t, "http://host/"+secret)}}, "url: http:// sends secrets unencrypted"},
		"insecure with TLS":      {values{"url": good, "insecure": true}, "insecure: is for a URL with http://; over https:// certificates are always checked"},
		"unknown field and others": {values{"urls": good, "format": "foo", "timeout": "0s", "tokenfile": "x", "caFile": "none"},
			`unknown field "tokenfile", did you mean "tokenFile"?` + knownFields + `
unknown field "urls", did you mean "url"?` + knownFields + `
timeout: must be between 1ms and 1h0m0s
caFile: none does not exist
format: must be cloudevents, payload or template`},
		"several at once": {values{"url": "ftp://x", "timeout": "0s", "tokenFile": "none"},
			"url: must begin with https:// or http://\ntimeout: must be between 1ms and 1h0m0s\ntokenFile: none does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			err := configure(New(), test.give)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
}

const knownFields = " (known: body, caFile, format, headers, hmac, insecure, secrets, timeout, tokenFile, url)"

// deep returns mappings inside each other.
func deep(n int) any {
	if n == 0 {
		return "x"
	}
	return values{"a": deep(n - 1)}
}

// TestProblemsAreReportedSeparately: informd reports each error of a join by itself.
func TestProblemsAreReportedSeparately(t *testing.T) {
	err := configure(New(), values{"url": "http://host", "caFile": "none", "hmac": values{"header": "Host"}, "headers": values{"A B": "", "C D": ""}})
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 6 {
		t.Fatalf("got %v, want 6 problems", err)
	}
	for _, problem := range joined.Unwrap() {
		if strings.Contains(problem.Error(), "\n") {
			t.Errorf("two problems in one: %v", problem)
		}
	}
}

func TestConfigAccepted(t *testing.T) {
	for _, config := range []values{
		{"url": "https://[::1]:8443/in?key=value"},
		{"url": "http://host", "headers": nil, "hmac": nil, "timeout": nil},
		{"url": "http://host", "headers": values{"User-Agent": "shop/1", "X-Empty": ""}},
		{"url": "http://host", "insecure": true, "tokenFile": file(t, "t"), "headers": values{"X-A": "b"}},
		{"url": "http://host", "insecure": true}, // it may get a token later
		{"url": "https://host", "insecure": false},
		{"url": "https://host", "headers": values{"Authorization": "Basic eA=="}},
		{"url": "http://localhost:80/", "tokenFile": file(t, "t"), "hmac": values{"secretFile": file(t, "k")}},
		{"url": "http://127.9.9.9/${name}", "tokenFile": file(t, "t")},
		{"url": "http://[::1]:8080", "tokenFile": file(t, "t")},
		{"url": "${secrets.url}/x", "secrets": values{"url": file(t, "http://LOCALHOST:80")}},
		{"url": "http://host", "timeout": "1h"},
		{"url": "http://host", "format": "cloudevents"},
		{"url": "http://host/${name}?n=${attempt}", "format": "payload", "headers": values{"X": "${rule}"}},
		{"url": "http://host", "format": "template", "body": values{"a": nil, "b": 1.50, "c": true, "d": []any{}, "e": values{}}},
	} {
		if err := configure(New(), config); err != nil {
			t.Errorf("%v: %v", config, err)
		}
	}
}

func TestSchemaIsJSON(t *testing.T) {
	var s struct{ Properties map[string]any }
	if err := json.Unmarshal(New().Describe().ConfigSchema, &s); err != nil {
		t.Fatal(err)
	}
	for name := range s.Properties { // Configure knows what the schema does
		err := configure(New(), values{name: true})
		if err == nil || strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
