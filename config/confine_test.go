package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// confined parses a handler with extra fields in its spec.
func confined(t *testing.T, file, fields string) (Handler, Mistakes) {
	t.Helper()
	got, mistakes := Parse([]File{{Path: file, Data: []byte(
		"{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: a}, spec: {builtin: log, " + fields + "}}")}})
	if len(got.Handlers) != 1 {
		t.Fatalf("%s: %d handlers, %v", fields, len(got.Handlers), mistakes)
	}
	return got.Handlers[0], mistakes
}

func TestConfinement(t *testing.T) {
	for _, c := range []struct {
		fields string
		want   Handler
	}{
		{"user: nobody", Handler{User: "nobody"}},
		{"user: _apt", Handler{User: "_apt"}},
		{`user: "65534"`, Handler{User: "65534"}},
		{"user: 65534", Handler{User: "65534"}}, // YAML reads a number
		{"user: 65534:65534", Handler{User: "65534:65534"}},
		{"user: 1000:0", Handler{User: "1000:0"}}, // images that any user may run give their files to group 0
		{"limits: {}", Handler{}},
		{"limits: {memory: 256Mi, cpu: 500m, files: 256, processes: 64}", Handler{Limits: Limits{Memory: 256 << 20, CPU: 500, Files: 256, Processes: 64}}},
		{"limits: {memory: 16Mi, cpu: 10m, files: 16, processes: 8}", Handler{Limits: Limits{Memory: 16 << 20, CPU: 10, Files: 16, Processes: 8}}},
		{"limits: {memory: 1Pi, cpu: 1024, files: 1048576, processes: 4194304}", Handler{Limits: Limits{Memory: 1 << 50, CPU: 1024_000, Files: 1 << 20, Processes: 1 << 22}}},
		{"limits: {memory: 0.5Gi, cpu: 0.5}", Handler{Limits: Limits{Memory: 512 << 20, CPU: 500}}},
		{"limits: {memory: 300M, cpu: 2}", Handler{Limits: Limits{Memory: 300e6, CPU: 2000}}},
		{"limits: {memory: 1e9, cpu: '1.25'}", Handler{Limits: Limits{Memory: 1e9, CPU: 1250}}},
		{"limits: {memory: 268435456}", Handler{Limits: Limits{Memory: 256 << 20}}},
		{"sandbox: false", Handler{}},
		{"sandbox: true", Handler{Sandbox: &Sandbox{}}},
		{"sandbox: true, files: {}, network: none", Handler{Sandbox: &Sandbox{}}},
		{"sandbox: true, network: all", Handler{Sandbox: &Sandbox{Network: Network{All: true}}}},
		{"sandbox: true, network: [443, 53, 65535, 1]", Handler{Sandbox: &Sandbox{Network: Network{Ports: []uint16{443, 53, 65535, 1}}}}},
		{"sandbox: true, files: {read: [/etc/oncall/, ./templates, ../shared, ., /], write: [/var/lib//oncall, data/~]}",
			Handler{Sandbox: &Sandbox{
				Read:  []string{"/etc/oncall", "rules/templates", "shared", "rules", "/"},
				Write: []string{"/var/lib/oncall", "rules/data/~"},
			}}},
	} {
		got, mistakes := confined(t, "rules/a.yaml", c.fields)
		if err := mistakes.Err(); err != nil {
			t.Errorf("%s: %v", c.fields, err)
			continue
		}
		got = Handler{User: got.User, Limits: got.Limits, Sandbox: got.Sandbox}
		if diff := cmp.Diff(c.want, got, sameText); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.fields, diff)
		}
	}
}

// A mistaken field confines nothing: Parse keeps no value that somebody could take for the intended
// one.
func TestMistakenConfinement(t *testing.T) {
	for _, fields := range []string{
		"user: root", "user: 0:65534", "user: +1", "user: -1", "user: 0x10", "user: 1_000", "user: 010", "user: 4294967295",
		"user: 1:4294967295", "user: '1:'", "user: ':1'", "user: '1:1:1'", "user: '-rf'", "user: 'a b'", "user: é", "user: ''", "user: true",
		"user: 99999999999999999999", "user: 1.5", "user: 'nobody:65534'",
		"limits: {memory: 0}", "limits: {memory: 16777215}", "limits: {memory: 16777216.5}", "limits: {memory: 0x1000000}", "limits: {memory: 16_777_216}",
		"limits: {memory: 1e99}", "limits: {memory: 1Ei}", "limits: {memory: 16mi}", "limits: {memory: '256 Mi'}", "limits: {memory: .inf}", "limits: {memory: +256Mi}",
		"limits: {memory: true}", "limits: {memory: 9223372036854775808}", "limits: {memory: 2026-01-01}",
		"limits: {cpu: 0}", "limits: {cpu: 9m}", "limits: {cpu: 10500u}", "limits: {cpu: 1024001m}", "limits: {cpu: 1e9}", "limits: {cpu: .5}", "limits: {cpu: 50%}",
		"limits: {files: -1}", "limits: {files: 1e3}", "limits: {processes: 0}",
		"sandbox: 1", "sandbox: []", "files: {write: [/]}", "network: [1]", "sandbox: true, network: [-1]", "sandbox: true, network: [[1]]", "sandbox: true, network: true",
		"sandbox: true, network: NONE", "sandbox: true, files: {read: [~]}", "sandbox: true, files: {read: {a: b}}", "sandbox: true, files: {read: ['~']}",
	} {
		got, mistakes := confined(t, "a.yaml", fields)
		if len(mistakes) != 1 {
			t.Errorf("%s: got %d mistakes, want one: %v", fields, len(mistakes), mistakes)
		}
		if got.User != "" || got.Limits != (Limits{}) || got.Sandbox != nil && (len(got.Sandbox.Read)+len(got.Sandbox.Write)+len(got.Sandbox.Network.Ports) > 0 || got.Sandbox.Network.All) {
			t.Errorf("%s is a mistake, yet Parse keeps %+v", fields, got)
		}
	}
}
