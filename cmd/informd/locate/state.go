package locate

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// NoState is the --state-dir that keeps no state.
const NoState = "none"

// ControlSocket is the control socket's name in the state directory.
const ControlSocket = "control.sock"

// maxClusterName bounds a cluster's folder name, in bytes. The control socket is in there, and a socket's path may have
// 107 bytes: API servers of clouds have names of 70.
const maxClusterName = 32

// DefaultStateDir is the state directory of an API server, as rest.Config's Host has it, and of this user:
// informd/CLUSTER below $XDG_STATE_HOME, else below ~/.local/state.
func DefaultStateDir(host string) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // so says the XDG Base Directory Specification
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return "", errors.New("no place for the state: neither XDG_STATE_HOME nor HOME is an absolute path; give --state-dir DIR, or --state-dir none")
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "informd", clusterName(host)), nil
}

var unfitForFile = regexp.MustCompile(`[^a-z0-9.-]`)

// clusterName makes a file name of an API server's address: 10.0.0.1:6443 is 10.0.0.1_6443. Where that says not all of it,
// as of a path or of a long name, it ends in a hash of the whole, so that no two clusters share one.
func clusterName(host string) string {
	_, rest, found := strings.Cut(host, "://")
	if !found {
		rest = host
	}
	rest = strings.TrimRight(strings.ToLower(rest), "/")
	server, port, _ := strings.Cut(rest, ":")
	name := unfitForFile.ReplaceAllString(rest, "_")
	plain := server != "" && server[0] != '.' && !unfitForFile.MatchString(server+port)
	if plain && len(name) <= maxClusterName {
		return name
	}
	const hashed = 12
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(rest)))[:hashed]
	name = strings.TrimLeft(name[:min(len(name), maxClusterName-hashed-1)], ".-_")
	return strings.TrimLeft(name+"-"+hash, "-")
}

// SocketPath is where the control socket is: where control says, else in the state directory. It is "" if there is none:
// nothing says where, and no state is kept.
func SocketPath(control, stateDir string) string {
	switch {
	case control != "":
		return control
	case stateDir == NoState || stateDir == "":
		return ""
	}
	return filepath.Join(stateDir, ControlSocket)
}
