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

// NoState is the value of --state-dir that keeps no state.
const NoState = "none"

// ControlSocket is the name of the control socket in the state directory.
const ControlSocket = "control.sock"

// maxClusterName bounds the name of a cluster's folder, in bytes. The folder holds the control
// socket, whose path may have 107 bytes, and the names of API servers in clouds have 70.
const maxClusterName = 32

// DefaultStateDir returns this user's state directory for an API server: informd/CLUSTER below
// $XDG_STATE_HOME, else below ~/.local/state. The host is rest.Config's.
func DefaultStateDir(host string) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // the XDG Base Directory Specification says to ignore a relative one
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return "", errors.New("no place for the state: " +
				"neither XDG_STATE_HOME nor HOME is an absolute path; " +
				"give --state-dir DIR, or --state-dir none")
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "informd", clusterName(host)), nil
}

var unfitForFile = regexp.MustCompile(`[^a-z0-9.-]`)

// clusterName turns an API server's address into a file name: 10.0.0.1:6443 becomes 10.0.0.1_6443.
// A name that loses part of the address, such as a path, ends in a hash of the whole address, so
// that no two clusters share a name.
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

// SocketPath returns the path of the control socket: control if it is not empty, else a file in the
// state directory. It returns "" if there is no state directory either.
func SocketPath(control, stateDir string) string {
	switch {
	case control != "":
		return control
	case stateDir == NoState || stateDir == "":
		return ""
	}
	return filepath.Join(stateDir, ControlSocket)
}
