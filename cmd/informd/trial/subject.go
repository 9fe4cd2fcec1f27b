package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/nearest"
	"github.com/informd/informd/plugins/host"
)

// subjectFlags are the flags of handler try and handler check that say which handler to run, and
// with what. They have many fields because each is a flag.
type subjectFlags struct {
	manifests            []string
	name                 string
	config, cache, event string
	env                  []string
	debug                bool
}

func (f *subjectFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after COMMAND are its own
	flags.StringArrayVarP(&f.manifests, "filename", "f", nil, "`PATH` of manifests with the "+
		"handler and the sources that it reads: its config, env, sandbox and access; repeatable")
	flags.StringVar(&f.name, "handler", "", "`NAME` of the handler in the manifests; "+
		"default: the only one")
	flags.StringVar(&f.config, "config", "", "`FILE` with a config that the handler accepts, "+
		"in YAML or JSON; default: the manifest's, or none")
	flags.StringVar(&f.cache, "cache", "", "`FILE` with the cache that the handler reads; "+
		"default: it is empty")
	flags.StringArrayVar(&f.env, "env", nil, "environment variable to pass on, "+
		"as `NAME` or NAME=VALUE; repeatable; default: those of the manifest")
}

// subject is a handler to try or to check.
type subject struct {
	config.Handler                // of the manifest, or made up from the command line
	manifests      *config.Config // nil: there are none
	plan           *plan.Plan     // of the manifests
	cache          madeUpCache    // nil: there is none
	variables      []string       // as NAME=VALUE, beside those of Handler.Env
}

// subject returns the handler that the flags and the command mean.
func (f *subjectFlags) subject(cmd *cobra.Command, command []string) (s subject, err error) {
	if len(f.manifests) > 0 {
		s.manifests, s.plan, err = manifests.LoadForCluster(f.manifests)
		if err != nil {
			return s, fmt.Errorf("-f: %w", err)
		}
		if s.Handler, err = f.choose(s.manifests.Handlers); err != nil {
			return s, err
		}
	} else if f.name != "" {
		return s, errors.New("--handler goes with -f only")
	}
	if len(command) > 0 {
		s.Command, s.Builtin, s.Remote, s.SHA256 = slices.Clone(command), "", nil, ""
		if s.Name == "" {
			s.Name = filepath.Base(command[0])
		}
	}
	if f.config != "" {
		if s.Config, err = readConfig("--config", f.config); err != nil {
			return s, err
		}
	}
	if s.cache, err = readCache(f.cache, s.manifests, cmd.InOrStdin()); err != nil {
		return s, fmt.Errorf("--cache: %w", err)
	}
	s.variables, err = variables(f.env)
	return s, err
}

func (f *subjectFlags) choose(handlers []config.Handler) (config.Handler, error) {
	var names []string
	for _, h := range handlers {
		if h.Name == f.name || f.name == "" && len(handlers) == 1 {
			return h, nil
		}
		names = append(names, h.Name)
	}
	switch {
	case len(names) == 0:
		return config.Handler{}, errors.New("-f: the manifests have no handler")
	case f.name == "":
		return config.Handler{}, fmt.Errorf("-f: the manifests have several handlers: "+
			"name one with --handler: %s", strings.Join(names, ", "))
	}
	hint := ""
	if near := nearest.Name(f.name, names); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return config.Handler{}, fmt.Errorf("--handler %s: the manifests have no such handler%s "+
		"(there are: %s)", f.name, hint, strings.Join(names, ", "))
}

// variables returns environment variables as NAME=VALUE.
func variables(named []string) (out []string, err error) {
	for _, variable := range named {
		name, _, hasValue := strings.Cut(variable, "=")
		if name == "" {
			return nil, fmt.Errorf("--env %q: want NAME or NAME=VALUE", variable)
		}
		if !hasValue {
			value, found := os.LookupEnv(name)
			if !found {
				return nil, fmt.Errorf("--env %s: it is not set", name)
			}
			variable += "=" + value
		}
		out = append(out, variable)
	}
	return out, nil
}

// environment returns all variables that the handler gets from its manifest and the command line.
func (s subject) environment() (out []string) {
	for _, name := range s.Env {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return append(out, s.variables...)
}

// readable returns the sources that the handler may read; nil: all.
func (s subject) readable() []string {
	if s.manifests == nil {
		return nil
	}
	names := []string{}
	for _, source := range s.Read {
		names = append(names, source.String())
	}
	return names
}

// spec returns how to run the handler as its manifest says, or unconfined if there is none.
func (s subject) spec() (host.Spec, error) {
	spec, err := launch.Spec(s.Handler)
	if err != nil {
		return spec, err
	}
	spec.Env = append(spec.Env, s.variables...)
	if s.manifests == nil {
		spec.Read = s.cache.Names()
		spec.Dir, err = os.Getwd()
	}
	return spec, err
}

// refuses returns why informd would not perform the actions of the answer to ev, or nil. Without a
// manifest, only their form counts.
func (s subject) refuses(ev *handler.Event, actions []handler.Action) error {
	if s.manifests == nil {
		return action.Validate(actions)
	}
	policy := action.Policy{Handler: s.Name}
	for _, g := range s.Write {
		policy.Grants = append(policy.Grants, action.Grant{
			Resource: g.Resource, Subresource: g.Subresource, Verbs: g.Verbs,
			Namespaces: g.Namespaces, Names: g.Names, At: g.At.Position(0).String(),
		})
	}
	return policy.Check(ev, actions)
}

// debugTimeout is the time limit of whatever a person may stop in a debugger.
const debugTimeout = 24 * time.Hour

// debugged takes all time limits from options that could end a handler at a breakpoint.
func debugged(o host.Options) host.Options {
	o.StartTimeout, o.DescribeTimeout, o.ConfigureTimeout = debugTimeout, debugTimeout, debugTimeout
	o.HealthInterval, o.HealthTimeout, o.LateTimeout = debugTimeout, debugTimeout, debugTimeout
	return o
}

// readConfig reads a handler's config as JSON. It returns nil without a path.
func readConfig(flag, path string) (json.RawMessage, error) {
	if path == "" {
		return nil, nil
	}
	documents, err := readDocuments(path, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", flag, err)
	case len(documents) > 1:
		return nil, fmt.Errorf("%s: %w", flag,
			documents[1].mistake("the file has more than one document"))
	case len(documents) == 0:
		return nil, nil
	}
	return documents[0].json, nil
}
