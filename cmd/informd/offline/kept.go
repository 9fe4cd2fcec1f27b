package offline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// keptWidth is where lists of paths wrap, in bytes.
const keptWidth = 100

// describeKept returns a line for each source that says what informd keeps of its objects in
// memory.
func describeKept(cfg *config.Config, p *plan.Plan) string {
	var b strings.Builder
	for _, s := range p.Sources {
		var what []string
		namespaces := make(map[string][]string) // by what is kept of the objects in them
		for _, informer := range s.Informers {
			kept := "whole objects" + whyWhole(cfg, p, s, informer)
			if informer.Keep != nil {
				kept = "only " + pathList(informer.Keep)
			}
			if namespaces[kept] == nil {
				what = append(what, kept)
			}
			namespaces[kept] = append(namespaces[kept], informer.Namespace)
		}
		for _, kept := range what {
			source := "source " + s.Name
			if len(what) > 1 {
				source += " in " + strings.Join(namespaces[kept], ", ")
			}
			b.WriteString(wrap(source+" keeps "+kept) + "\n")
		}
	}
	return b.String()
}

// whyWhole returns why an informer keeps whole objects if the source does not ask for them itself.
func whyWhole(cfg *config.Config, p *plan.Plan, s *plan.Source, informer *plan.Informer) string {
	asksForWhole := func(s *plan.Source) bool {
		configured, _ := cfg.Source(s.Name)
		return configured.Keep == config.Whole
	}
	if asksForWhole(s) {
		return ""
	}
	for _, other := range p.Sources {
		if asksForWhole(other) && slices.Contains(other.Informers, informer) {
			return fmt.Sprintf(", because source %s does, and watches the same", other.Name)
		}
	}
	for _, r := range informer.Rules {
		if r.Paths().Covers() || r.AttachPaths().Covers() || r.Actions.Paths().Covers() {
			return fmt.Sprintf(", because rule %s reads all of them", r.Name)
		}
	}
	for _, gauge := range informer.Gauges {
		if gauge.Paths().Covers() {
			return fmt.Sprintf(", because metric %s reads all of them", gauge.Name)
		}
	}
	for _, r := range p.Rules {
		if looksAtWhole(p, r, informer) {
			return fmt.Sprintf(", because rule %s looks them up, and reads all of them", r.Name)
		}
	}
	return ", because an index reads all of them"
}

// looksAtWhole reports whether a rule looks up objects of an informer and reads all of them.
func looksAtWhole(p *plan.Plan, r *plan.Rule, informer *plan.Informer) bool {
	for _, s := range p.Sources {
		whole := r.Lookups()[s.Name].Covers() ||
			r.AttachLookups()[s.Name].Covers() || r.Actions.Lookups()[s.Name].Covers()
		if whole && slices.Contains(s.Informers, informer) {
			return true
		}
	}
	return false
}

// pathList returns the paths in the form of expressions, without "object.", separated by commas. It
// leaves out that a field's presence is read if something below the field is read as well.
func pathList(paths *object.Paths) string {
	var out []string
	list := paths.List()
	for i, path := range list {
		last := len(path) - 1
		below := func(other []string) bool {
			return len(other) > last && slices.Equal(other[:last], path[:last])
		}
		others := slices.Delete(slices.Clone(list), i, i+1)
		if last >= 0 && path[last] == "" && slices.ContainsFunc(others, below) {
			continue
		}
		out = append(out, object.PathText(path))
	}
	return strings.Join(out, ", ")
}

// wrap wraps a list after its commas.
func wrap(list string) string {
	var b strings.Builder
	width := 0
	for i, item := range strings.SplitAfter(list, ", ") {
		if i > 0 && width+len(strings.TrimSpace(item)) > keptWidth {
			b.WriteString("\n    ")
			width = 4
		}
		b.WriteString(item)
		width += len(item)
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}
