package offline

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"regexp"
	"strings"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

// describeUnused returns a line about the sources and handlers that nothing uses, or "". Without
// any rule, the manifests are not all there are, and nobody knows.
func describeUnused(cfg *config.Config, p *plan.Plan) string {
	if len(cfg.Rules) == 0 {
		return ""
	}
	used := make(map[string]bool)
	for _, r := range p.Rules {
		used["source "+r.Source.Name] = true
		used["handler "+r.Handler] = true
		for _, s := range r.LooksInto {
			used["source "+s.Name] = true
		}
	}
	for _, h := range cfg.Handlers {
		for _, source := range h.Read {
			used["source "+source.String()] = true
		}
	}
	var unused []string
	for _, s := range cfg.Sources {
		if !used["source "+s.Name] && len(s.Metrics) == 0 {
			unused = append(unused, "source "+s.Name)
		}
	}
	for _, h := range cfg.Handlers {
		if !used["handler "+h.Name] {
			unused = append(unused, "handler "+h.Name)
		}
	}
	if len(unused) == 0 {
		return ""
	}
	return wrap("nothing uses "+strings.Join(unused, ", ")) + "\n"
}

// describeMissing returns a line for each program of a handler that is not on this machine, or "".
// The program may be where informd runs, in a container for example.
func describeMissing(cfg *config.Config) string {
	var b strings.Builder
	for _, h := range cfg.Handlers {
		if len(h.Command) == 0 {
			continue
		}
		program := h.Command[0]
		_, err := exec.LookPath(program)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			fmt.Fprintf(&b, "handler %s: its program %s does not exist here\n",
				h.Name, cli.Visible(program))
		}
	}
	return b.String()
}

// cut matches a comment that is probably the rest of the text before it, such as "rollout #3 of 5".
// Most authors write a space behind the # of a comment.
var cut = regexp.MustCompile(`^#[^\s#]`)

// describeCut returns a line for each text of a rule that seems to go on in a comment of YAML, and for
// each message that seems to wait for Go or Helm.
func describeCut(cfg *config.Config) string {
	var b strings.Builder
	var look func(v *config.Value)
	look = func(v *config.Value) {
		if v == nil {
			return
		}
		if comment := v.Text.Comment(); v.Kind == config.ValueTemplate && cut.MatchString(comment) {
			fmt.Fprintf(&b, "%s: the text ends before %s, which is a comment of YAML: "+
				"put the whole text in quotes if it goes on\n", v.Text.Position(0), cli.Visible(comment))
		}
		for _, m := range v.Members {
			look(m.Value)
		}
		for _, item := range v.Items {
			look(item)
		}
	}
	for _, r := range cfg.Rules {
		look(r.Payload)
		for _, a := range r.Actions {
			for _, v := range []*config.Value{
				a.Namespace, a.Name, a.UID, a.ResourceVersion,
				a.Object, a.Patch, a.Reason, a.Message,
			} {
				look(v)
			}
			if is, found := plan.OtherSyntax(a.Message, false); found {
				fmt.Fprintf(&b, "%s: %s\n", is.Position, is.Message)
			}
		}
	}
	return b.String()
}
