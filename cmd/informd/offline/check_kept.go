package offline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// keptWidth is where lists of paths are broken.
const keptWidth = 100

// describeKept says of each source, line by line, what of its objects is kept in memory.
func describeKept(cfg *config.Config, p *plan.Plan) string {
	var b strings.Builder
	for _, s := range p.Sources {
		var what []string
		namespaces := make(map[string][]string) // by what is kept of their objects
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

// whyWhole gives the reason for which an informer keeps whole objects, where the source itself does not ask for them.
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
	for _, r := range p.Rules {
		if looksAtWhole(p, r, informer) {
			return fmt.Sprintf(", because rule %s looks them up, and reads all of them", r.Name)
		}
	}
	return ", because an index reads all of them"
}

// looksAtWhole tells whether a rule reads all of the objects of an informer, of any of whose sources it looks things up.
func looksAtWhole(p *plan.Plan, r *plan.Rule, informer *plan.Informer) bool {
	for _, s := range p.Sources {
		whole := r.Lookups()[s.Name].Covers() || r.AttachLookups()[s.Name].Covers() || r.Actions.Lookups()[s.Name].Covers()
		if whole && slices.Contains(s.Informers, informer) {
			return true
		}
	}
	return false
}

// pathList are paths as expressions have them, without "object.", separated by commas. That a place is there goes without saying
// where more of it is read.
func pathList(paths *object.Paths) string {
	var out []string
	list := paths.List()
	for i, path := range list {
		last := len(path) - 1
		below := func(other []string) bool { return len(other) > last && slices.Equal(other[:last], path[:last]) }
		if last >= 0 && path[last] == "" && slices.ContainsFunc(slices.Delete(slices.Clone(list), i, i+1), below) {
			continue
		}
		out = append(out, object.PathText(path))
	}
	return strings.Join(out, ", ")
}

// wrap breaks a list behind its commas.
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
