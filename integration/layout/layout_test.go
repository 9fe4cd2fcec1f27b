// Package layout tests how the packages of this module depend on each other.
package layout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/informd/informd/"

// root is the path from here to the root of the repository.
const root = "../.."

// goPackage is a package as `go list` describes it.
type goPackage struct {
	Name, Dir  string
	ImportPath string
	Doc        string // the first sentence of its comment
	Imports    []string
	GoFiles    []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	list, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var listed = sync.OnceValues(func() ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-json=Name,Dir,ImportPath,Doc,Imports,GoFiles", "work") // all modules of go.work
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var list []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p goPackage
		if err := decoder.Decode(&p); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
})

// Imports go one way. What each package may import of this module, beside the packages below
// itself:
var mayImport = map[string][]string{
	"config":               {},
	"internal/bounded":     {},
	"internal/heap":        {},
	"internal/list":        {},
	"internal/othersyntax": {},
	"internal/ownfile":     {},
	"internal/peer":        {},
	"internal/procfs":      {},
	"internal/rawcall":     {},
	"internal/seldom":      {},
	"internal/slack":       {},
	"internal/socket":      {},
	"engine/count":         {},
	"engine/object":        {},
	"engine/delta":         {"engine/object"},
	"engine/schema":        {},
	"engine/expr":          {"engine/delta", "engine/object", "engine/schema"},
	"engine/measure":       {"engine/expr", "engine/object"},
	"engine/rule":          {"engine/count", "engine/measure", "engine/expr", "engine/delta", "engine/object", "plugins/handler"},
	"engine/plan":          {"config", "engine/rule", "engine/measure", "engine/timing", "engine/expr", "engine/schema", "engine/delta", "engine/object", "plugins/handler"},
	"engine/rights":        {"config", "engine/delta", "engine/plan", "engine/rule", "plugins/handler"},
	"engine/evaluate":      {"engine/rule", "engine/measure", "engine/timing", "engine/expr", "engine/delta", "engine/object"},
	"engine/explain": {
		"engine/evaluate", "engine/plan", "engine/rule", "engine/expr", "engine/trail", "engine/delta", "engine/object",
	},
	"engine/resume": {"engine/expr", "engine/object"},
	"engine/orphans": {
		"engine/action", "engine/targets", "engine/source", "engine/prepare", "engine/plan", "engine/queue", "engine/delivery", "engine/delta", "engine/object",
	},
	"engine/preview":  {"engine/plan", "engine/object", "plugins/handler"},
	"engine/due":      {"engine/delta", "engine/evaluate", "engine/object", "engine/resume", "engine/rule", "engine/timing"},
	"engine/rounds":   {"engine/delta", "engine/plan", "engine/state/records", "engine/timing"},
	"engine/gauges":   {"engine/evaluate", "engine/measure", "engine/object", "engine/timing"},
	"engine/tally":    {"engine/count", "engine/delta", "engine/rule", "engine/state/records"},
	"engine/targets":  {"engine/delta", "engine/state/records"},
	"engine/follow":   {"engine/delta", "engine/evaluate", "engine/object"},
	"engine/timing":   {},
	"engine/delivery": {"engine/count", "engine/delta", "engine/object", "plugins/handler"},
	"engine/prepare": {
		"engine/count", "engine/measure", "engine/delivery", "engine/evaluate", "engine/plan", "engine/rule", "engine/expr", "engine/delta", "engine/object", "plugins/handler",
	},
	"engine/queue":   {},
	"engine/replica": {},
	"engine/state": {
		"engine/state/disk", "engine/state/fields", "engine/state/log", "engine/state/records", "engine/state/risk",
		"engine/delivery", "engine/queue", "engine/delta", "engine/object",
	},
	"engine/state/disk":    {},
	"engine/state/fields":  {},
	"engine/state/risk":    {},
	"engine/state/steps":   {},
	"engine/state/log":     {"engine/state/fields"},
	"engine/state/records": {"engine/state/fields", "engine/delivery", "engine/queue", "engine/delta", "engine/object", "plugins/handler"},
	"engine/trail":         {"engine/delta", "engine/object"},
	"engine/source":        {"engine/timing", "engine/delta", "engine/object", "engine/object/scan"},
	"engine/action":        {"engine/state/records", "engine/delta", "engine/object", "plugins/handler"},
	"engine/gather":        {"engine/delivery", "engine/rule", "engine/timing", "engine/delta"},
	"engine/dispatch":      {"engine/count", "engine/trail", "engine/delivery", "engine/gather", "engine/rule", "engine/queue", "engine/delta", "engine/object", "plugins/handler"},
	"engine/live": {
		"engine/action", "engine/count", "engine/delivery", "engine/delta", "engine/dispatch", "engine/due", "engine/expr", "engine/gather", "engine/gauges", "engine/measure", "engine/object", "engine/orphans", "engine/plan", "engine/prepare", "engine/queue",
		"engine/resume", "engine/rule", "engine/source", "engine/state", "engine/tally", "engine/timing", "engine/trail", "plugins/handler",
	},
	"engine/acting": {
		"config", "engine/action", "engine/delivery", "engine/delta", "engine/dispatch", "engine/live", "engine/object", "engine/prepare", "engine/targets", "engine/trail", "plugins/handler",
	},
	"engine/intake": {
		"engine/action", "engine/delivery", "engine/delta", "engine/dispatch", "engine/due", "engine/evaluate", "engine/follow", "engine/gauges", "engine/live", "engine/object", "engine/plan", "engine/resume", "engine/rounds", "engine/rule",
		"engine/source", "engine/state", "engine/state/steps", "engine/timing", "engine/trail", "plugins/handler",
	},
	"engine/running": {
		"config", "engine/acting", "engine/delivery", "engine/delta", "engine/dispatch", "engine/gauges", "engine/intake", "engine/live", "engine/measure", "engine/object", "engine/orphans", "engine/plan", "engine/prepare", "engine/preview",
		"engine/resume", "engine/rule", "engine/source", "engine/state", "engine/tally", "engine/targets", "engine/trail", "plugins/handler",
	},
	"engine/admin": {
		"engine/acting", "engine/action", "engine/delivery", "engine/delta", "engine/dispatch", "engine/explain", "engine/intake", "engine/live", "engine/measure", "engine/object", "engine/plan", "engine/preview", "engine/queue", "engine/running", "engine/source",
		"engine/state", "engine/targets", "engine/trail",
	},
	"engine": {
		"config", "engine/acting", "engine/action", "engine/admin", "engine/delivery", "engine/delta", "engine/dispatch", "engine/intake", "engine/live", "engine/object", "engine/plan", "engine/prepare", "engine/preview", "engine/queue",
		"engine/resume", "engine/rounds", "engine/running", "engine/source", "engine/state", "engine/state/steps", "engine/tally", "engine/targets", "engine/timing", "engine/trail", "plugins/handler",
	},
	"engine/simulate": {
		"engine", "engine/admin", "engine/action", "engine/delivery", "engine/delta", "engine/explain", "engine/object", "engine/object/scan", "engine/plan",
		"engine/queue", "engine/state",
		"plugins/handler",
	},
	"plugins/handler":                    {},
	"plugins/handler/nearest":            {},
	"plugins/handler/wire":               {"plugins/handler", "plugins/handlerpb"},
	"engine/expr/value":                  {},
	"internal/printable":                 {},
	"plugins/handlerpb":                  {},
	"plugins/serve":                      {"plugins/handler", "plugins/handler/wire", "plugins/handlerpb"},
	"plugins/host":                       {"plugins/handler", "plugins/handler/wire", "plugins/handlerpb"},
	"plugins/handler/handlertest":        {"plugins/handler", "plugins/handler/wire", "plugins/handlerpb"},
	"plugins/handler/handlertest/testca": {},
	"plugins/builtin":                    {"engine/expr", "engine/rule", "plugins/handler"},
	"cmd/informd/cli":                    {},
	"cmd/informd/control":                {"engine/explain", "engine/object", "engine/replica", "plugins/handler"},
	"cmd/informd/locate":                 {},
	"cmd/informd/manifests":              {"config", "engine/plan"},
	"cmd/informd/launch":                 {"cmd/informd/cli", "config", "plugins/builtin", "plugins/serve", "plugins/host", "plugins/host/confine", "plugins/host/shim"},
	"cmd/informd/applied":                {"engine/action", "engine/object", "engine/prepare"},
	"cmd/informd/client": {
		"cmd/informd/applied", "config", "engine/delta", "engine/explain", "engine/expr", "engine/object", "engine/object/scan", "engine/plan",
		"cmd/informd/cli", "cmd/informd/control", "cmd/informd/locate", "cmd/informd/manifests", "plugins/handler", "plugins/serve",
	},
	"cmd/informd/schemas":          {"config", "engine/plan", "engine/schema"},
	"cmd/informd/schemas/served":   {"cmd/informd/cli", "cmd/informd/locate", "config", "engine/schema"},
	"cmd/informd/schemas/generate": {"engine/schema"},
	"cmd/informd/offline": {
		"cmd/informd/cli", "cmd/informd/launch", "cmd/informd/manifests", "cmd/informd/schemas", "config", "engine/object", "engine/plan",
		"plugins/handlerpb", "plugins/host", "plugins/host/confine",
	},
	"cmd/informd/rbac": {
		"cmd/informd/cli", "cmd/informd/locate", "cmd/informd/manifests", "config", "engine/plan", "engine/rights",
	},
	"cmd/informd/trial": {
		"cmd/informd/cli", "cmd/informd/launch", "cmd/informd/manifests", "config",
		"engine/action", "engine/delivery", "engine/delta", "engine/evaluate", "engine/expr", "engine/object", "engine/plan",
		"plugins/handler", "plugins/handler/handlertest", "plugins/handler/wire", "plugins/handlerpb",
		"plugins/host", "plugins/host/cache",
	},
	"cmd/informd/ruletest": {
		"cmd/informd/cli", "cmd/informd/manifests", "cmd/informd/schemas", "config",
		"engine", "engine/expr", "engine/object", "engine/plan", "engine/simulate",
		"internal/printable", "plugins/handler",
	},
	"cmd/informd/recording": {
		"cmd/informd/cli", "cmd/informd/control", "cmd/informd/locate", "cmd/informd/manifests", "cmd/informd/ruletest", "config",
		"engine", "engine/object", "engine/object/scan", "engine/plan", "engine/simulate",
	},
	"cmd/informd/daemon": {
		"cmd/informd/schemas/served",
		"cmd/informd/cli", "cmd/informd/control", "cmd/informd/launch", "cmd/informd/locate", "cmd/informd/manifests", "cmd/informd/rbac", "config",
		"engine", "engine/admin", "engine/action", "engine/delivery", "engine/delta", "engine/dispatch", "engine/explain", "engine/object", "engine/plan", "engine/preview", "engine/replica",
		"engine/rights", "engine/source", "engine/state", "engine/state/steps", "internal/slack", "plugins/handler", "plugins/host", "plugins/host/cache",
	},
	"cmd/informd":       {"cmd/informd/cli", "cmd/informd/client", "cmd/informd/daemon", "cmd/informd/launch", "cmd/informd/offline", "cmd/informd/rbac", "cmd/informd/recording", "cmd/informd/ruletest", "cmd/informd/schemas/served", "cmd/informd/trial", "plugins/host/shim/install"},
	"examples/handlers": {"plugins/handler", "plugins/serve"},
}

// openFolders are those whose packages are listed one by one in mayImport: to be below one of them
// allows nothing.
var openFolders = []string{"engine", "engine/state", "plugins/handler", "cmd/informd"}

// The longest prefix in mayImport speaks for a package.
func rulesFor(pkg string) (allowed []string, prefix string, found bool) {
	for p, imports := range mayImport {
		if (pkg == p || strings.HasPrefix(pkg, p+"/")) && (!found || len(p) > len(prefix)) {
			allowed, prefix, found = imports, p, true
		}
	}
	return allowed, prefix, found
}

func TestImportsGoOneWay(t *testing.T) {
	for _, p := range packages(t) {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(pkg, "integration") {
			continue // where everything meets
		}
		allowed, prefix, found := rulesFor(pkg)
		if !found {
			t.Errorf("%s stands in no rule: add it to mayImport, with what it may import", pkg)
			continue
		}
		for _, path := range p.Imports {
			imported, ours := strings.CutPrefix(path, module)
			switch imported {
			case "internal/bounded", "internal/heap", "internal/list", "plugins/handler/nearest", "internal/othersyntax", "internal/ownfile", "internal/peer", "internal/printable", "internal/procfs", "internal/rawcall", "internal/seldom", "internal/socket": // of use to all
				continue
			}
			if !ours || strings.HasPrefix(imported, prefix+"/") && !slices.Contains(openFolders, prefix) {
				continue
			}
			if !slices.Contains(allowed, imported) {
				t.Errorf("%s imports %s: it may import %v; take an interface where it is used, or move the code", pkg, imported, allowed)
			}
		}
	}
}

// No arrow goes up: however rooms import each other, by whatever packages within them, none comes
// back to itself. A room is what has an entry in mayImport.
func TestRoomsHaveNoCircles(t *testing.T) {
	t.Parallel()
	below := make(map[string]map[string]string) // from room to room: an import that shows it
	for _, p := range packages(t) {
		_, room, found := rulesFor(strings.TrimPrefix(p.ImportPath, module))
		if !found {
			continue
		}
		for _, path := range p.Imports {
			imported, ours := strings.CutPrefix(path, module)
			if _, other, found := rulesFor(imported); ours && found && other != room {
				if below[room] == nil {
					below[room] = make(map[string]string)
				}
				below[room][other] = p.ImportPath + " imports " + path
			}
		}
	}
	done := make(map[string]bool)
	var way []string
	var walk func(room string)
	walk = func(room string) {
		if i := slices.Index(way, room); i >= 0 {
			var arrows []string
			circle := append(slices.Clone(way[i:]), room)
			for k, from := range circle[:len(circle)-1] {
				arrows = append(arrows, below[from][circle[k+1]])
			}
			t.Errorf("a circle of rooms: %s\n\t%s", strings.Join(circle, " → "), strings.Join(arrows, "\n\t"))
			return
		}
		if done[room] {
			return
		}
		way = append(way, room)
		for _, other := range slices.Sorted(maps.Keys(below[room])) {
			walk(other)
		}
		way = way[:len(way)-1]
		done[room] = true
	}
	for _, room := range slices.Sorted(maps.Keys(below)) {
		walk(room)
	}
}

// Each of these is imported below one folder only.
func TestLibrariesStayWhereTheyBelong(t *testing.T) {
	only := map[string][]string{
		"github.com/expr-lang/expr":      {"engine/expr"},
		"gopkg.in/yaml.v3":               {"config"},
		"github.com/hashicorp/go-plugin": {"plugins/serve", "plugins/host", "plugins/handlerpb"},
		"github.com/hashicorp/raft":      {"engine/replica"},
		"github.com/hashicorp/raft-wal":  {"engine/replica"},
		"google.golang.org/grpc":         {"plugins/serve", "plugins/host", "plugins/handlerpb", "plugins/handler", "integration/bench"},
		"k8s.io/client-go":               {"internal/bounded", "engine", "engine/source", "engine/action", "engine/acting", "cmd/informd/applied", "cmd/informd/daemon", "cmd/informd/locate", "cmd/informd/rbac", "cmd/informd/recording", "cmd/informd/schemas/served", "integration"},
		"github.com/klauspost/compress":  {"engine/object", "engine/state"},
		"github.com/cockroachdb/pebble":  {"engine/state"},
		"github.com/spf13/cobra":         {"cmd/informd"},
		"github.com/prometheus":          {"cmd/informd/daemon"},
	}
	for _, p := range packages(t) {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		for _, path := range p.Imports {
			for library, folders := range only {
				if path != library && !strings.HasPrefix(path, library+"/") {
					continue
				}
				if !slices.ContainsFunc(folders, func(f string) bool { return pkg == f || f != "engine" && strings.HasPrefix(pkg, f+"/") }) {
					t.Errorf("%s imports %s, which belongs in %v", pkg, path, folders)
				}
			}
		}
	}
}

// The log is the seam at which the state can be shared: it knows no database and no record. What a
// record is, the database does not decide either.
func TestRoomsOfTheStateKnowNoDatabase(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		if pkg != "engine/state/log" && pkg != "engine/state/records" && pkg != "engine/state/fields" {
			continue
		}
		for _, path := range p.Imports {
			if strings.HasPrefix(path, "github.com/cockroachdb/pebble") {
				t.Errorf("%s imports %s", pkg, path)
			}
		}
	}
}

// A pure package is a function of its arguments: it knows no clock, network, file or logger and
// starts no goroutine.
func TestPurePackages(t *testing.T) {
	pure := []string{"plugins/handler/nearest", "internal/heap", "internal/list", "internal/othersyntax", "internal/seldom", "internal/printable", "config", "engine/object/scan", "engine/object", "engine/delta", "engine/expr", "engine/rule", "engine/plan", "engine/schema",
		"engine/expr/value", "engine/evaluate", "engine/follow", "engine/due", "engine/gather", "engine/gauges", "engine/rounds", "engine/tally", "engine/targets", "engine/resume", "engine/timing", "engine/count", "engine/delivery", "engine/prepare", "engine/preview", "engine/rights",
		"engine/state/fields", "engine/state/records"}
	impure := []string{"context", "crypto/rand", "embed", "io/fs", "io/ioutil", "log", "log/slog", "math/rand",
		"net", "net/http", "os", "os/exec", "os/signal", "os/user", "runtime", "syscall",
		"golang.org/x/sys/unix", "k8s.io/klog/v2"}
	for _, p := range packages(t) {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		if !slices.Contains(pure, pkg) {
			continue
		}
		for _, path := range p.Imports {
			if slices.Contains(impure, path) {
				t.Errorf("%s imports %s: a pure package gets what it needs as an argument", pkg, path)
			}
		}
		for _, file := range p.GoFiles {
			checkPureFile(t, pkg, file)
		}
	}
}

// What handler authors link is the standard library, nearest, and nothing else. The queue has no more
// than the standard library, its heap and its list, and neither have these.
func TestHandlerContractIsStandardLibraryOnly(t *testing.T) {
	also := map[string][]string{
		"plugins/handler":         {module + "plugins/handler/nearest"},
		"plugins/handler/nearest": nil,
		"engine/queue":            {module + "internal/heap", module + "internal/list"},
		"internal/heap":           nil,
		"internal/list":           nil,
	}
	for _, p := range packages(t) {
		allowed, isPlain := also[strings.TrimPrefix(p.ImportPath, module)]
		if !isPlain {
			continue
		}
		for _, path := range p.Imports {
			if strings.Contains(strings.Split(path, "/")[0], ".") && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s; it may import the standard library and %v only", p.ImportPath, path, allowed)
			}
		}
	}
}

// There is one shim per handler process. It takes over before most of the executable is
// initialized, so what it imports costs every one of them. Only programs that start handlers may
// install it: never a package that others import.
func TestShimIsSmall(t *testing.T) {
	for _, p := range packages(t) {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		if p.Name != "main" && slices.Contains(p.Imports, module+"plugins/host/shim/install") {
			t.Errorf("%s installs the shim: only main packages and tests do", pkg)
		}
		if pkg != "plugins/host/shim" && pkg != "plugins/host/confine" && pkg != "internal/procfs" {
			continue
		}
		allowed := []string{"golang.org/x/sys/unix", module + "plugins/host/confine", module + "internal/procfs"}
		for _, path := range p.Imports {
			library := strings.Contains(strings.Split(path, "/")[0], ".")
			if library && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s: beside the standard library it may import %v only", pkg, path, allowed)
			}
			if slices.Contains([]string{"net", "net/http", "crypto/tls", "log/slog", "text/template", "regexp"}, path) {
				t.Errorf("%s imports %s, which takes memory in each shim: do that part in plugins/host", pkg, path)
			}
		}
	}
}
