package process

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/informd/informd/plugins/handlerpb"
)

// environment returns all variables of the process: the manifest's; PATH, HOME and TMPDIR, unless
// the manifest sets them; and the protocol's, which win. PATH is the daemon's. HOME is the
// daemon's, or that of the user that the process runs as, or the temporary directory if there is no
// such home.
func (p *Process) environment() []string {
	home := os.Getenv("HOME")
	if _, _, ok := p.made.confinement.Owner(); ok {
		home = p.made.confinement.Home()
	}
	if info, err := os.Stat(home); err != nil || !info.IsDir() {
		home = p.made.tempDir
	}
	var env variables
	env.set("PATH", os.Getenv("PATH"))
	env.set("HOME", home)
	env.set("TMPDIR", p.made.tempDir)
	env.add(p.command.Env)
	env.add(p.pluginEnvironment())
	env.add([]string{handlerpb.EnvLogLevel + "=" + leastLevel(p.log)})
	if p.made.cache != nil {
		env.add([]string{handlerpb.EnvCacheSocket + "=" + p.made.cache.Address()})
	}
	if p.command.Stdout != nil {
		env.add([]string{handlerpb.EnvStdoutFD + "=3"})
	}
	return env.all
}

// variables is an environment in which each name stands once. The last value counts.
type variables struct {
	all []string
	at  map[string]int
}

// set sets a variable, unless its value is empty.
func (v *variables) set(name, value string) {
	if value != "" {
		v.add([]string{name + "=" + value})
	}
}

func (v *variables) add(env []string) {
	if v.at == nil {
		v.at = map[string]int{}
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := v.at[name]; ok {
			v.all[i] = kv
			continue
		}
		v.at[name] = len(v.all)
		v.all = append(v.all, kv)
	}
}

// leastLevel returns the name of the lowest level that a logger shows.
func leastLevel(log *slog.Logger) string {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if log.Enabled(context.Background(), level) {
			return strings.ToLower(level.String())
		}
	}
	return "error"
}
