package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/informd/informd/config"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/confine"
)

// RemoteSpec returns where a remote handler is and how to talk to it. h.Remote must not be nil.
func RemoteSpec(h config.Handler) (host.RemoteSpec, error) {
	files, err := absolute([]string{h.Remote.CA, h.Remote.Cert, h.Remote.Key})
	if err != nil {
		return host.RemoteSpec{}, err
	}
	return host.RemoteSpec{
		Name: h.Name, Host: h.Remote.Host, Port: h.Remote.Port, DNS: h.Remote.DNS,
		CA: files[0], Cert: files[1], Key: files[2], ServerName: h.Remote.ServerName,
		Config: h.Config, Concurrency: h.Concurrency, Timeout: h.Timeout, Attempts: h.Retry.Attempts,
	}, nil
}

// Spec returns how to start a handler that is a process. A builtin handler is this binary, executed
// again.
func Spec(h config.Handler) (host.Spec, error) {
	spec := host.Spec{
		Name:        h.Name,
		Dir:         filepath.Dir(h.At.Position(0).File),
		SHA256:      h.SHA256,
		Config:      h.Config,
		Concurrency: h.Concurrency,
		Timeout:     h.Timeout,
		Attempts:    h.Retry.Attempts,
		LogLevel:    h.LogLevel,
	}
	for _, source := range h.Read {
		spec.Read = append(spec.Read, source.String())
	}
	var err error
	if spec.Confine, err = confinement(h); err != nil {
		return host.Spec{}, err
	}
	for _, name := range h.Env {
		// A variable that is not set stays unset for the handler.
		if value, ok := os.LookupEnv(name); ok {
			spec.Env = append(spec.Env, name+"="+value)
		}
	}
	if h.Builtin == "" {
		spec.Path, spec.Args = h.Command[0], h.Command[1:]
		// A path is relative to the daemon, while the process starts in Dir.
		if strings.ContainsRune(spec.Path, filepath.Separator) {
			absolute, err := filepath.Abs(spec.Path)
			if err != nil {
				return host.Spec{}, err
			}
			spec.Path = absolute
		}
		return spec, nil
	}
	self, err := os.Executable()
	if err != nil {
		return host.Spec{}, fmt.Errorf("find this binary: %w", err)
	}
	spec.Path, spec.Args = self, []string{"handler", "serve", h.Builtin}
	if h.Builtin == "log" {
		spec.Stdout = os.Stdout
	}
	return spec, nil
}

// confinement returns what a handler is confined to. The sandbox's paths become absolute: in
// manifests they are relative to the daemon's working directory.
func confinement(h config.Handler) (confine.Spec, error) {
	spec := confine.Spec{User: h.User, Limits: confine.Limits(h.Limits)}
	if h.Sandbox == nil {
		return spec, nil
	}
	spec.Sandbox, spec.Network = true, confine.Network(h.Sandbox.Network)
	var err error
	if spec.Read, err = absolute(h.Sandbox.Read); err == nil {
		spec.Write, err = absolute(h.Sandbox.Write)
	}
	return spec, err
}

func absolute(paths []string) (out []string, err error) {
	for _, path := range paths {
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}

// Unset returns those of the environment variables that are not set.
func Unset(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
}
