package manifests

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

// compile is what Load does with files. Tests replace it.
var compile = func(files []config.File, k known) (*config.Config, *plan.Plan, config.Mistakes) {
	cfg, mistakes := config.Parse(files)
	if k.kinds != nil {
		cfg.NameKinds(k.kinds)
	}
	if k.give != "" {
		mistakes = append(mistakes, cfg.MistakenKinds(k.give)...)
	}
	compiled, more := plan.Compile(cfg)
	return cfg, compiled, append(mistakes, more...)
}

// netted is compile, but turns a panic into a mistake. A panic is a bug of informd, and must not end
// a daemon that reads its manifests again. netted is the last net: whatever a manifest says, compile
// reports it without a panic, and package config has a test that calls it without the net.
func netted(
	files []config.File, k known,
) (cfg *config.Config, p *plan.Plan, mistakes config.Mistakes) {
	defer func() {
		if cause := recover(); cause != nil {
			bug := config.Mistake{Message: fmt.Sprintf("informd failed when it read this, which is its "+
				"own mistake: %v, at %s; please report that, with the manifest, at %s",
				cause, panicked(), issues)}
			bug.File = culprit(files, k)
			cfg, p, mistakes = new(config.Config), nil, config.Mistakes{bug}
		}
	}()
	return compile(files, k)
}

const issues = "https://github.com/informd/informd/issues"

// culprit returns the path of the first file that brings compile down by itself, or "".
func culprit(files []config.File, k known) string {
	fails := func(f config.File) (failed bool) {
		defer func() { failed = recover() != nil }()
		compile([]config.File{f}, k)
		return false
	}
	for _, f := range files {
		if fails(f) {
			return f.Path
		}
	}
	return ""
}

// panicked returns where the panic began that its caller, a deferred function, recovers from.
func panicked() string {
	stack := make([]uintptr, 64)
	frames := runtime.CallersFrames(stack[:runtime.Callers(0, stack)])
	for inPanic := false; ; {
		frame, more := frames.Next()
		isRuntime := strings.HasPrefix(frame.Function, "runtime.")
		switch {
		case isRuntime:
			inPanic = inPanic || frame.Function == "runtime.gopanic"
		case inPanic:
			folder, file := filepath.Split(frame.File)
			return fmt.Sprintf("%s/%s:%d", filepath.Base(folder), file, frame.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
