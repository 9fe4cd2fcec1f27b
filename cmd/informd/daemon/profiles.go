package daemon

import (
	"errors"
	"net/http"
	"net/http/pprof" // also adds its paths to http.DefaultServeMux, which informd never serves
	"runtime"
)

// profiling checks --pprof. Without the flag it switches off the sampling of allocations, which
// only a heap profile needs. Call it before the daemon allocates much, because a profile knows only
// what was allocated after the sampling began.
func (f *runFlags) profiling() error {
	if f.pprof && f.listen == "" {
		return errors.New("--pprof needs --listen ADDRESS, where it serves the profiles")
	}
	if !f.pprof {
		runtime.MemProfileRate = 0
	}
	return nil
}

// addProfiles serves Go's profiles under /debug/pprof/. They hold stacks, counts, sizes and times,
// but no contents of memory. pprof.Index serves those that have no path of their own.
func addProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
