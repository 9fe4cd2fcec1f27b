package host

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/informd/informd/plugins/handlerpb"
)

// environment is all that the process has: the manifest's variables; PATH, HOME and TMPDIR, unless the manifest sets
// them; and what the protocol adds, which wins. PATH is the daemon's, and so is HOME, or it is that of the user that the
// process runs as. Where there is no such home, the temporary directory is as good.
func (r *runner) environment() []string {
	home := os.Getenv("HOME")
	if _, _, ok := r.confinement.Owner(); ok {
		home = r.confinement.Home()
	}
	if info, err := os.Stat(home); err != nil || !info.IsDir() {
		home = r.tempDir
	}
	var env variables
	env.set("PATH", os.Getenv("PATH"))
	env.set("HOME", home)
	env.set("TMPDIR", r.tempDir)
	env.add(r.spec.Env)
	env.add(r.cmdEnv)
	if r.offer != "" {
		env.add([]string{r.offer})
	}
	env.add([]string{handlerpb.EnvLogLevel + "=" + leastLevel(r.logs.log)})
	if r.cache != nil {
		env.add([]string{handlerpb.EnvCacheSocket + "=" + r.cache.Address()})
	}
	if r.spec.Stdout != nil {
		env.add([]string{handlerpb.EnvStdoutFD + "=3"})
	}
	return env.all
}

// variables are an environment in which each name is once; the last one counts.
type variables struct {
	all []string
	at  map[string]int
}

// set sets a variable, unless it would be empty.
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

// leastLevel names the least level that a logger shows.
func leastLevel(log *slog.Logger) string {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if log.Enabled(context.Background(), level) {
			return strings.ToLower(level.String())
		}
	}
	return "error"
}
