package locate

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestDefaultStateDir(t *testing.T) {
	tests := []struct {
		name, xdg, home string
		want            string // "" is an error
	}{
		{"XDG_STATE_HOME goes first", "/state", "/home/me", "/state/informd/10.0.0.1_6443"},
		{"else below HOME", "", "/home/me", "/home/me/.local/state/informd/10.0.0.1_6443"},
		{"a relative XDG_STATE_HOME is to be ignored", "state", "/home/me", "/home/me/.local/state/informd/10.0.0.1_6443"},
		{"a container may have neither", "", "", ""},
		{"a relative HOME is none", "", "home", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", test.xdg)
			t.Setenv("HOME", test.home)
			got, err := DefaultStateDir("https://10.0.0.1:6443")
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), "--state-dir") {
				t.Errorf("%v: says not what to do", err)
			}
		})
	}
}

func TestClusterName(t *testing.T) {
	for host, want := range map[string]string{ // … stands for a hash
		"https://10.0.0.1:6443":      "10.0.0.1_6443",
		"10.0.0.1:6443":              "10.0.0.1_6443", // rest.Config takes it without a scheme
		"https://API.example.com/":   "api.example.com",
		"http://localhost:8080":      "localhost_8080",
		"https://[fd00::1]:6443":     "fd00__1__6443-…",
		"https://r.example/k8s/c-1":  "r.example_k8s_c-1-…",
		"https://r.example:443/k8s":  "r.example_443_k8s-…",
		"https://../../etc":          "etc-…",
		"https://..":                 "…",
		"":                           "…",
		"https://a\x00b\n:6443":      "a_b__6443-…",
		"https://ä.example":          "example-…",
		"https://" + longHost:        "abcdef0123456789abc-…",
		"https://" + longHost + "/a": "abcdef0123456789abc-…",
	} {
		got := clusterName(host)
		if len(got) > maxClusterName || got != filepath.Base(got) || got == "." || got == ".." || got == "" {
			t.Errorf("%q: %q is no name for a folder", host, got)
		}
		if hashed, ok := strings.CutSuffix(want, "…"); ok {
			want = hashed + got[max(0, len(got)-12):]
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
	}
	for _, two := range [][2]string{{longHost, longHost + "/a"}, {"r.example/k8s_a", "r.example/k8s/a"}, {"..", "."}} {
		if clusterName(two[0]) == clusterName(two[1]) {
			t.Errorf("%q and %q share a name", two[0], two[1])
		}
	}
}

// longHost is as a cloud makes them.
const longHost = "ABCDEF0123456789ABCDEF0123456789.gr7.eu-central-1.eks.amazonaws.com"

func TestSocketPath(t *testing.T) {
	tests := []struct{ control, stateDir, want string }{
		{"", "/state", "/state/control.sock"},
		{"/run/c", "/state", "/run/c"},
		{"/run/c", "none", "/run/c"},
		{"", "none", ""},
		{"", "", ""},
	}
	for _, test := range tests {
		if got := SocketPath(test.control, test.stateDir); got != test.want {
			t.Errorf("socketPath(%q, %q) = %q, want %q", test.control, test.stateDir, got, test.want)
		}
	}
}
