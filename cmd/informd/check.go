package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/semaphore"

	"github.com/informd/informd/config"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/confine"
)

// checkedAtOnce bounds how many handlers check has running at a time.
const checkedAtOnce = 4

func newCheckCommand() *cobra.Command {
	var paths []string
	var handlers bool
	cmd := &cobra.Command{
		Use:   "check -f PATH… [--handlers]",
		Short: "Validate manifests; needs no cluster",
		Long: `Validate manifests without a cluster: their form, their references, their expressions, and the config of builtin
handlers. Every mistake is reported at once. With --handlers, handlers with a command are started as well, to see
whether they describe themselves and accept their config, and all of them in what they are confined to, to see
whether this user on this machine can enforce that; remote handlers are connected to, and handed no config.

Without mistakes, it says of each source what is kept of its objects in memory: all, or the fields that are read; and what
rules with actions, and handlers with access.write, may change in the cluster.

Exit code 0: no mistakes. 1: there are some.`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, compiled, err := loadPlan(paths)
			if cfg == nil {
				return failed(err)
			}
			mistakes, _ := err.(config.Mistakes)
			folders, err := newFolders(cfg.Handlers)
			if err != nil {
				return failed(err)
			}
			defer folders.remove()
			ctx, stop := withSignals(cmd.Context(), folders.remove)
			defer stop()
			mistakes = append(mistakes, checkHandlers(ctx, cfg, handlers, folders)...)
			if ctx.Err() != nil {
				return failed(errors.New("interrupted: not everything has been checked"))
			}
			mistakes.Sort()
			if len(mistakes) > 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), mistakes.Error())
				return failed(fmt.Errorf("%d %s", len(mistakes), plural(len(mistakes), "mistake")))
			}
			return show(cmd, "%s%sok: %d %s, %d %s, %d %s\n", describeKept(cfg, compiled), describeWrites(cfg, compiled),
				len(cfg.Sources), plural(len(cfg.Sources), "source"), len(cfg.Handlers), plural(len(cfg.Handlers), "handler"),
				len(cfg.Rules), plural(len(cfg.Rules), "rule"))
		},
	}
	manifestFlag(cmd, &paths)
	cmd.Flags().BoolVar(&handlers, "handlers", false, "also start handlers that have a command, and confine all, to check that they work here")
	return cmd
}

// checkHandlers starts each builtin handler, and with commands the others as well, for as long as it takes to describe itself
// and to accept or refuse its config.
func checkHandlers(ctx context.Context, cfg *config.Config, commands bool, folders *folders) config.Mistakes {
	var (
		mu       sync.Mutex
		mistakes config.Mistakes
		checks   sync.WaitGroup
		places   = semaphore.NewWeighted(checkedAtOnce)
	)
	for _, h := range cfg.Handlers {
		if h.Builtin == "" && (!commands || len(h.Command) == 0 && h.Remote == nil) {
			continue
		}
		if places.Acquire(ctx, 1) != nil {
			break
		}
		checks.Go(func() {
			defer places.Release(1)
			if err := checkHandler(ctx, h, commands, folders); err != nil {
				mu.Lock()
				defer mu.Unlock()
				mistakes = append(mistakes, h.At.Mistake(0, err.Error()))
			}
		})
	}
	checks.Wait()
	return mistakes
}

// checkHandler starts a handler; unconfined, unless it is to run as it will run: manifests are checked on other machines
// than the daemon's, too.
func checkHandler(ctx context.Context, h config.Handler, confined bool, folders *folders) error {
	if h.Remote != nil {
		spec, err := remoteSpec(h)
		if err != nil {
			return fmt.Errorf("handler %q: %w", h.Name, err)
		}
		return host.TryRemote(ctx, spec, folders.options(nil))
	}
	spec, err := hostSpec(h)
	if err != nil {
		return fmt.Errorf("handler %q: %w", h.Name, err)
	}
	if !confined {
		spec.Confine = confine.Spec{}
	}
	_, err = host.Try(ctx, spec, folders.options(nil))
	return err
}

// remoteSpec says where a remote handler is.
func remoteSpec(h config.Handler) (host.RemoteSpec, error) {
	files, err := absolute([]string{h.Remote.CA, h.Remote.Cert, h.Remote.Key})
	if err != nil {
		return host.RemoteSpec{}, err
	}
	return host.RemoteSpec{
		Name: h.Name, Host: h.Remote.Host, Port: h.Remote.Port, DNS: h.Remote.DNS,
		CA: files[0], Cert: files[1], Key: files[2], ServerName: h.Remote.ServerName,
		Config: h.Config, Concurrency: h.Concurrency, Timeout: h.Timeout,
	}, nil
}

// hostSpec says how a handler is started. A builtin is this very binary.
func hostSpec(h config.Handler) (host.Spec, error) {
	spec := host.Spec{
		Name:        h.Name,
		Dir:         filepath.Dir(h.At.Position(0).File),
		SHA256:      h.SHA256,
		Config:      h.Config,
		Concurrency: h.Concurrency,
		Timeout:     h.Timeout,
	}
	for _, source := range h.Read {
		spec.Read = append(spec.Read, source.String())
	}
	var err error
	if spec.Confine, err = confinement(h); err != nil {
		return host.Spec{}, err
	}
	for _, name := range h.Env {
		if value, ok := os.LookupEnv(name); ok { // one that is not set is not set for the handler either
			spec.Env = append(spec.Env, name+"="+value)
		}
	}
	if h.Builtin == "" {
		spec.Path, spec.Args = h.Command[0], h.Command[1:]
		if strings.ContainsRune(spec.Path, filepath.Separator) { // the process starts in Dir
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

// confinement is what a handler is confined to. The paths of its sandbox are made absolute, as relative ones of manifests are
// relative to the daemon's folder.
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
