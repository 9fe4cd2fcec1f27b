package value_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/informd/informd/engine/expr/value"
)

// spring ends on 2026-04-01, and next a year later.
const (
	spring = `-----BEGIN CERTIFICATE-----
MIHaMIGNoAMCAQICAQEwBQYDK2VwMBcxFTATBgNVBAMTDHNob3AuZXhhbXBsZTAe
Fw0yNjAxMDEwMDAwMDBaFw0yNjA0MDEwMDAwMDBaMBcxFTATBgNVBAMTDHNob3Au
ZXhhbXBsZTAqMAUGAytlcAMhADtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGL
WdopMAUGAytlcANBAOzs10to5cgfUDbwywFVthZTw+zh00OurnYOkyQ6X7EbsTJJ
ghbXrqzKFWFUADmvnl8bbnKFl49wPGCuYlBu7QA=
-----END CERTIFICATE-----
`
	next = `-----BEGIN CERTIFICATE-----
MIHaMIGNoAMCAQICAQIwBQYDK2VwMBcxFTATBgNVBAMTDHNob3AuZXhhbXBsZTAe
Fw0yNzAxMDEwMDAwMDBaFw0yNzA0MDEwMDAwMDBaMBcxFTATBgNVBAMTDHNob3Au
ZXhhbXBsZTAqMAUGAytlcAMhADtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGL
WdopMAUGAytlcANBADJphVGM1MgohOaG315z+xoxwE+ZNNw057S52Fl2lN3Ow+xS
MbWwqQPQ+fMPTnfvLfbGOFGsSpt6yL30FSYSbgY=
-----END CERTIFICATE-----
`
	privateKey = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
)

func TestNotAfter(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString
	none := value.Error(`"notAfter" finds no certificate in its argument`)
	end := at("2026-04-01T00:00:00Z")
	broken := strings.Replace(spring, "MIHaMIGN", "MIHbMIGN", 1)
	check(t, []test{
		{"a certificate", each(call("notAfter", spring), call("notAfter", next)), list{end, at("2027-04-01T00:00:00Z")}},
		{"in base64, as in a Secret", call("notAfter", encoded([]byte(spring))), end},
		{"of several the first", each(call("notAfter", spring+next), call("notAfter", encoded([]byte(spring+next)))), list{end, end}},
		{"behind a key and other text", call("notAfter", "shop.example\n"+privateKey+spring), end},
		{"in DER, in base64", call("notAfter", strings.Join(strings.Split(spring, "\n")[1:6], "")), value.Error(`"notAfter" reads certificates in PEM, and its argument is one in DER: convert it with openssl x509 -inform der`)},
		{"in OpenSSL's own form", call("notAfter", strings.ReplaceAll(spring, " CERTIFICATE", " TRUSTED CERTIFICATE")), value.Error(`"notAfter" reads what begins with BEGIN CERTIFICATE, and its argument has only OpenSSL's own form, as BEGIN TRUSTED CERTIFICATE: convert it with openssl x509`)},
		{"in OpenSSL's own form, before one that is not", call("notAfter", strings.ReplaceAll(next, " CERTIFICATE", " TRUSTED CERTIFICATE")+spring), end},
		{"nil", call("notAfter", nil), nil},
		{"what is none", each(call("notAfter", ""), call("notAfter", "***"), call("notAfter", "aGk="), call("notAfter", privateKey), call("notAfter", spring[:200]), call("notAfter", encoded([]byte(privateKey)))), list{none, none, none, none, none, none}},
		{"one that is broken, before one that is not", call("notAfter", broken+spring), none},
		{"twice in base64", call("notAfter", encoded([]byte(encoded([]byte(spring))))), none},
		{"of the wrong kind", each(call("notAfter", 1), call("notAfter", list{spring})), list{wrong("notAfter", "an int"), wrong("notAfter", "a list")}},
		{"what is too long", each(call("notAfter", strings.Repeat("\n", 1<<20-len(spring))+spring), call("notAfter", strings.Repeat("\n", 1<<20)+spring)), list{end, value.Error(`"notAfter" takes at most 1 MiB`)}},
	})
}
