package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	k8s "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/informd/informd/cmd/informd/schemas/served"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

const (
	// firstFitting is how long after the start the manifests are checked: informers go first.
	firstFitting = 2 * time.Second
	// fittingPeriod is how often informd asks whether schemas have changed, as those of a
	// CustomResourceDefinition do. It asks for a list of hashes, for which it needs no more rights.
	fittingPeriod = 5 * time.Minute
	// fittingRetry is how soon it asks again after an error.
	fittingRetry = 30 * time.Second
	// fittingTimeout bounds one check.
	fittingTimeout = time.Minute
	// maxMisfits bounds what is kept of one rule or source.
	maxMisfits = 20
)

// fitting checks the manifests against the schemas of the cluster, in the background. Nothing waits
// for it, and a rule that does not fit runs all the same.
type fitting struct {
	reader *served.Reader
	log    *slog.Logger
	asked  chan struct{} // holds a token if the manifests are new

	mu      sync.Mutex
	cfg     *config.Config      // guarded by mu
	rules   map[string][]string // what does not fit, by rule; guarded by mu
	sources map[string][]string // what does not fit in indexes, by source; guarded by mu
}

func newFitting(client discovery.DiscoveryInterface, cfg *config.Config, log *slog.Logger) *fitting {
	return &fitting{
		reader: served.NewReader(client), log: log, asked: make(chan struct{}, 1), cfg: cfg,
	}
}

// set makes other manifests count, and has them checked soon.
func (f *fitting) set(cfg *config.Config) {
	f.mu.Lock()
	f.cfg = cfg
	f.mu.Unlock()
	select {
	case f.asked <- struct{}{}:
	default:
	}
}

// misfits returns what does not fit of a rule. It begins with the place in the manifest.
func (f *fitting) misfits(rule string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rules[rule]
}

// misfitsOf returns what does not fit of a source.
func (f *fitting) misfitsOf(source string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sources[source]
}

// run checks until ctx ends.
func (f *fitting) run(ctx context.Context) {
	var checked *config.Config // what has been checked last
	said := ""
	for pause := firstFitting; ; {
		select {
		case <-ctx.Done():
			return
		case <-f.asked:
		case <-time.After(pause):
		}
		f.mu.Lock()
		cfg := f.cfg
		f.mu.Unlock()
		pause = fittingPeriod
		if err := f.check(ctx, cfg, cfg != checked); err != nil {
			pause = fittingRetry
			if ctx.Err() == nil && err.Error() != said {
				said = err.Error()
				f.log.Info("manifests are not checked against the cluster's schemas", "error", err)
			}
			continue
		}
		checked, said = cfg, ""
	}
}

// check checks a configuration that is new, or whose schemas have changed. A panic is a bug of informd,
// and must not end a daemon whose cluster has a schema that nobody has seen yet: it is an error.
func (f *fitting) check(ctx context.Context, cfg *config.Config, isNew bool) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("informd failed when it compared them, which is its own mistake: %v", cause)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, fittingTimeout)
	defer cancel()
	versions := versionsOf(cfg)
	changed, err := f.reader.Changed(ctx, versions)
	if err != nil || !changed && !isNew {
		return err
	}
	found, err := f.reader.Catalog(ctx, versions)
	if err != nil {
		return err
	}
	rules, sources := make(map[string][]string), make(map[string][]string)
	for _, misfit := range plan.Misfits(cfg, found) {
		text := misfit.Position.String() + ": " + misfit.Message
		of, name, what, known := rules, misfit.Rule, "rule", f.misfits(misfit.Rule)
		if misfit.Rule == "" {
			of, name, what, known = sources, misfit.Source, "source", f.misfitsOf(misfit.Source)
		}
		if len(of[name]) == maxMisfits || slices.Contains(of[name], text) {
			continue
		}
		of[name] = append(of[name], text)
		if !slices.Contains(known, text) {
			f.log.Warn("a manifest asks for what cannot be", what, name, "problem", text)
		}
	}
	f.mu.Lock()
	f.rules, f.sources = rules, sources
	f.mu.Unlock()
	return nil
}

// versionsOf returns the groups and versions of all resources that a configuration names.
func versionsOf(cfg *config.Config) (all []k8s.GroupVersion) {
	add := func(resource k8s.GroupVersionResource) {
		if of := resource.GroupVersion(); resource.Resource != "" && !slices.Contains(all, of) {
			all = append(all, of)
		}
	}
	for _, s := range cfg.Sources {
		add(s.Resource)
	}
	for _, r := range cfg.Rules {
		for _, a := range r.Actions {
			add(a.Resource)
		}
	}
	return all
}
