package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// startedOnly has the fields that say how informd starts a handler. It does not start a remote one.
var startedOnly = []string{
	"sha256", "env", "logLevel", "user", "limits", "sandbox", "files", "network",
}

// remoteFields checks the fields that belong to spec.address, and those that exclude it.
func (r *reader) remoteFields(spec mapping) {
	switch {
	case !spec.has("address") && spec.has("tls"):
		r.mistake(spec.key["tls"], "spec.tls goes with spec.address only")
	case spec.has("address") && !spec.has("tls"):
		r.mistake(spec.key["address"],
			"spec.address needs spec.tls: a remote handler is spoken to with mutual TLS only")
	}
	if !spec.has("address") || spec.has("command") || spec.has("builtin") {
		return
	}
	for _, field := range startedOnly {
		if spec.has(field) {
			r.mistake(spec.key[field],
				"spec.%s does not go with spec.address: informd does not start this handler", field)
		}
	}
}

// remote reads the address and tls. It returns nil if there is none.
func (r *reader) remote(spec mapping) *Remote {
	out := r.address(spec.get("address"))
	files := r.mapping(spec.get("tls"), spec.key["tls"], "spec.tls", tlsFields)
	out.CA = r.tlsFile(files.get("ca"), "spec.tls.ca")
	out.Cert = r.tlsFile(files.get("cert"), "spec.tls.cert")
	out.Key = r.tlsFile(files.get("key"), "spec.tls.key")
	out.ServerName = out.Host
	if n := files.get("serverName"); n != nil {
		name := r.str(n, "spec.tls.serverName")
		out.ServerName = name
		if name != "" && !isHost(name) {
			r.mistake(n, "spec.tls.serverName must be a DNS name or an IP address, not %s",
				quote(name))
		}
	}
	if !spec.has("address") {
		return nil
	}
	return &out
}

// tlsFile reads one path.
func (r *reader) tlsFile(n *yaml.Node, what string) string {
	path := r.str(n, what)
	switch {
	case path == "":
		return ""
	case unexpanded(path):
		r.mistake(n, "%s is not expanded: write the whole path", quote(path))
		return ""
	}
	return r.path(path)
}

// address reads the address of a remote handler.
func (r *reader) address(n *yaml.Node) Remote {
	text := r.str(n, "spec.address")
	if text == "" {
		return Remote{}
	}
	out, err := ParseAddress(text)
	if err != nil {
		r.mistake(n, "spec.address %s", err)
	}
	return out
}

// ParseAddress reads a gRPC target with the scheme dns into Host, Port and DNS. The error continues
// a sentence that begins with the target's name, and quotes little of its text.
func ParseAddress(text string) (Remote, error) {
	rest, ok := strings.CutPrefix(text, "dns://")
	server, target, found := strings.Cut(rest, "/")
	host, port, good := hostPort(target)
	if !ok || !found || !good {
		return Remote{}, fmt.Errorf("must be dns:///HOST:PORT, such as dns:///oncall.shop.svc:8443, "+
			"or dns://SERVER:PORT/HOST:PORT to ask another DNS server, not %s", quote(text))
	}
	if server != "" {
		address, err := netip.ParseAddrPort(server)
		if err != nil || address.Port() == 0 {
			return Remote{}, fmt.Errorf("must name the DNS server by an IP address and a port, "+
				"as 10.0.0.10:53, not %s", quote(server))
		}
		server = address.String()
	}
	return Remote{Host: host, Port: port, DNS: server}, nil
}

func hostPort(s string) (host string, port uint16, ok bool) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return "", 0, false
	}
	host = s[:colon]
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		address, err := netip.ParseAddr(host[1 : len(host)-1])
		if err != nil || !address.Is6() || address.Zone() != "" {
			return "", 0, false
		}
		host = address.String()
	} else if strings.Contains(host, ":") {
		return "", 0, false
	}
	n, err := strconv.ParseUint(s[colon+1:], 10, 16)
	return host, uint16(n), err == nil && n > 0 && isHost(host)
}

const dnsLabel = `[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?`

var dnsName = regexp.MustCompile(`^(` + dnsLabel + `\.)*` + dnsLabel + `\.?$`)

// isHost reports whether s is an IP address or a DNS name.
func isHost(s string) bool {
	if address, err := netip.ParseAddr(s); err == nil {
		return address.Zone() == ""
	}
	return len(s) <= 253 && dnsName.MatchString(s)
}
