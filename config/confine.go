package config

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Bounds of a handler's confinement.
const (
	maxID = 1<<32 - 2 // the highest number means "as it is" to the system

	minFiles     = 16
	maxFiles     = 1 << 20
	minProcesses = 8
	maxProcesses = 1 << 22 // there are no more process numbers

	maxPort = 1<<16 - 1
)

// Bounds of quantities.
var (
	memoryBounds = quantityBounds{low: 16 << 20, high: 1 << 50, lowText: "16Mi", highText: "1Pi"}
	cpuBounds    = quantityBounds{low: 10, high: 1024_000, lowText: "10m", highText: "1024"}
)

var (
	userID   = regexp.MustCompile(`^(?:0|[1-9][0-9]{0,9})$`)
	userName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,30}\$?$`)
)

// user reads a name, UID or UID:GID. A UID may be a number. Only the machine knows whether the user
// exists.
func (r *reader) user(n *yaml.Node) string {
	if n == nil || r.reported[n] {
		return ""
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
		if r.str(n, "spec.user") == "" {
			return ""
		}
	}
	uid, gid, group := strings.Cut(n.Value, ":")
	switch {
	case uid == "root" || uid == "0":
		r.mistake(n, "spec.user must not be root: "+
			"an informd that can use spec.user is root itself, and runs handlers as root "+
			"if they have no user; leave it out, or name a user with less power")
	case isID(uid) && (!group || isID(gid)), !group && userName.MatchString(uid):
		return n.Value
	case userName.MatchString(uid) && group:
		r.mistake(n, "spec.user with a group is UID:GID, both as numbers, not %s", quote(n.Value))
	default:
		r.mistake(n, "spec.user must be a user's name, UID or UID:GID, "+
			"such as nobody or \"65534:65534\", not %s", quote(n.Value))
	}
	return ""
}

func isID(s string) bool {
	id, err := strconv.ParseUint(s, 10, 64)
	return err == nil && id <= maxID && userID.MatchString(s)
}

func (r *reader) limits(n, at *yaml.Node) Limits {
	f := r.mapping(n, at, "spec.limits", limitFields)
	return Limits{
		Memory:    r.memory(f.get("memory"), "spec.limits.memory"),
		CPU:       r.cpu(f.get("cpu"), "spec.limits.cpu"),
		Files:     f.whole("files"),
		Processes: f.whole("processes"),
	}
}

// sandbox reads the sandbox and its exceptions. It returns nil if there is none.
func (r *reader) sandbox(spec mapping) *Sandbox {
	n := spec.get("sandbox")
	wanted := r.boolean(n, "spec.sandbox")
	if !wanted && (n == nil && !spec.has("sandbox") || n != nil && !r.reported[n]) {
		for _, field := range []string{"files", "network"} {
			if spec.has(field) {
				r.mistake(spec.key[field], "spec.%s goes with spec.sandbox: true only; "+
					"without a sandbox, nothing is out of the handler's reach", field)
			}
		}
	}
	files := r.mapping(spec.get("files"), spec.key["files"], "spec.files", fileFields)
	out := &Sandbox{
		Read:    r.paths(files.get("read"), "spec.files.read"),
		Write:   r.paths(files.get("write"), "spec.files.write"),
		Network: r.network(spec.get("network")),
	}
	if !wanted {
		return nil
	}
	return out
}

// paths reads a list of paths. It joins relative ones with the manifest's folder.
func (r *reader) paths(n *yaml.Node, name string) []string {
	first := map[string]string{} // by the resulting path
	paths := r.set(n, name, "paths", func(s string) string {
		path := r.path(s)
		if other, ok := first[path]; ok {
			return quote(s) + " is in " + name + " twice: " + quote(other) + " is the same"
		}
		first[path] = s
		if unexpanded(s) {
			return quote(s) + " is not expanded: write the whole path"
		}
		return ""
	})
	for i, path := range paths {
		paths[i] = r.path(path)
	}
	return paths
}

// path joins a relative path with the manifest's folder.
func (r *reader) path(s string) string {
	if !filepath.IsAbs(s) {
		s = filepath.Join(r.dir, s)
	}
	return filepath.Clean(s)
}

// unexpanded reports whether a shell would expand a path.
func unexpanded(s string) bool {
	return s == "~" || strings.HasPrefix(s, "~/") || strings.HasPrefix(s, "$")
}

var networks = []string{"none", "all"}

// network reads none, all or a list of ports.
func (r *reader) network(n *yaml.Node) Network {
	const form = "spec.network must be none, all or a list of ports, such as [443, 53], not "
	switch {
	case n == nil || r.reported[n]:
	case n.Kind == yaml.SequenceNode:
		return Network{Ports: r.ports(n)}
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int":
		r.mistake(n, "spec.network is a list of ports: write [%s]", clip(n.Value, maxQuoted))
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str":
		r.mistake(n, form+"%s", describe(n))
	case !slices.Contains(networks, n.Value):
		r.mistake(n, form+"%s", quote(n.Value))
	default:
		return Network{All: n.Value == "all"}
	}
	return Network{}
}

func (r *reader) ports(n *yaml.Node) []uint16 {
	var out []uint16
	for _, item := range r.list(n, "spec.network", "ports") {
		port := uint16(r.integer(item, "a port in spec.network", 1, maxPort, 0))
		switch {
		case port == 0: // has been reported
		case slices.Contains(out, port):
			r.mistake(item, "port %d is in spec.network twice", port)
		default:
			out = append(out, port)
		}
	}
	return out
}
