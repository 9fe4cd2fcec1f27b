package config

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRemote(t *testing.T) {
	files := Remote{CA: "rules/ca.pem", Cert: "/tls/tls.crt", Key: "tls.key"}
	for address, want := range map[string]Remote{
		"dns:///oncall.shop.svc:8443":             {Host: "oncall.shop.svc", Port: 8443},
		"dns:///oncall.shop.svc.cluster.local.:1": {Host: "oncall.shop.svc.cluster.local.", Port: 1},
		"dns:///127.0.0.1:65535":                  {Host: "127.0.0.1", Port: 65535},
		"dns:///[::1]:8443":                       {Host: "::1", Port: 8443},
		"dns://10.0.0.10:53/oncall:8443":          {Host: "oncall", Port: 8443, DNS: "10.0.0.10:53"},
		"dns://[fd00::a]:53/oncall:8443":          {Host: "oncall", Port: 8443, DNS: "[fd00::a]:53"},
	} {
		for _, name := range []string{"", "oncall.example.com"} {
			want.CA, want.Cert, want.Key = files.CA, files.Cert, files.Key
			want.ServerName = want.Host
			field := ""
			if name != "" {
				want.ServerName, field = name, ", serverName: "+name
			}
			text := fmt.Sprintf("{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: a}, "+
				"spec: {address: %q, tls: {ca: ca.pem, cert: /tls/tls.crt, key: ../tls.key%s}}}", address, field)
			got, mistakes := Parse([]File{{Path: "rules/a.yaml", Data: []byte(text)}})
			if err := mistakes.Err(); err != nil {
				t.Errorf("%s: %v", address, err)
				continue
			}
			if diff := cmp.Diff(&want, got.Handlers[0].Remote); diff != "" {
				t.Errorf("%s (-want +got)\n%s", address, diff)
			}
		}
	}
}
