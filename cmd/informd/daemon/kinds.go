package daemon

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8s "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

const (
	// kindsTimeout bounds how long a start or a reload waits for the cluster to say which resources
	// the kinds of manifests are.
	kindsTimeout = 5 * time.Second
	// kindsPeriod is how often informd asks for kinds that the cluster does not serve yet. If it cannot
	// use one that it has found, it waits longer, up to maxPause.
	kindsPeriod = 5 * time.Second
	// kindsWait bounds how long such a kind waits for the informers of its rules, because operators'
	// reloads wait meanwhile.
	kindsWait = 2 * time.Second
)

// kinds knows from the cluster which resources the kinds of manifests below apply and create are. It
// is safe for concurrent use.
type kinds struct {
	resources discovery.ServerResourcesInterfaceWithContext
	log       *slog.Logger

	mu sync.Mutex
	// last has what the cluster said last of each group and version that it was asked for: resources by
	// kind. That holds while it does not answer.
	last map[k8s.GroupVersion]map[string]string
}

func newKinds(client discovery.DiscoveryInterface, log *slog.Logger) *kinds {
	return &kinds{
		resources: discovery.ToServerResourcesInterfaceWithContext(client), log: log,
		last: make(map[k8s.GroupVersion]map[string]string),
	}
}

// named returns a configuration, and its plan, in which the cluster has named the resources of kinds
// that the manifests do not say. It asks once per group and version, and only if there are such kinds.
// Those that the cluster does not serve stay unnamed.
func (k *kinds) named(
	ctx context.Context, cfg *config.Config, compiled *plan.Plan,
) (*config.Config, *plan.Plan, error) {
	unnamed := cfg.Unnamed()
	if len(unnamed) == 0 {
		return cfg, compiled, nil
	}
	found := k.ask(ctx, unnamed)
	if len(found) == 0 {
		return cfg, compiled, nil
	}
	cfg = cfg.Named(func(kind k8s.GroupVersionKind) string { return found[kind] })
	compiled, mistakes := plan.Compile(cfg)
	if len(mistakes) > 0 {
		return nil, nil, mistakes
	}
	return cfg, compiled, nil
}

// ask returns the resources of kinds that the cluster serves, or served when it answered last.
func (k *kinds) ask(ctx context.Context, all []k8s.GroupVersionKind) map[k8s.GroupVersionKind]string {
	ctx, cancel := context.WithTimeout(ctx, kindsTimeout)
	defer cancel()
	asked := make(map[k8s.GroupVersion]map[string]string)
	found := make(map[k8s.GroupVersionKind]string)
	for _, kind := range all {
		version := kind.GroupVersion()
		if _, ok := asked[version]; !ok {
			asked[version] = k.served(ctx, version)
		}
		if resource, ok := asked[version][kind.Kind]; ok {
			found[kind] = resource
		}
	}
	return found
}

// served returns the resources of a group and version, by kind.
func (k *kinds) served(ctx context.Context, version k8s.GroupVersion) map[string]string {
	answer, err := k.resources.ServerResourcesForGroupVersionWithContext(ctx, version.String())
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && !apierrors.IsNotFound(err) {
		k.log.Debug("the cluster does not say which resources a group and version has",
			"apiVersion", version.String(), "error", err)
		return k.last[version]
	}
	byKind := make(map[string]string)
	if err == nil {
		for _, r := range answer.APIResources {
			if !strings.Contains(r.Name, "/") {
				byKind[r.Kind] = r.Name
			}
		}
	}
	k.last[version] = byKind // which nobody changes any more
	return byKind
}

// logUnserved logs the rules that wait for kinds.
func (k *kinds) logUnserved(p *plan.Plan) {
	eachUnserved(p, func(rule string, kind k8s.GroupVersionKind) {
		k.log.Warn("the cluster does not serve a kind that a rule applies or creates, or does not "+
			"answer; the rule's actions wait for it", "rule", rule, "kind", kind.Kind,
			"apiVersion", kind.GroupVersion().String())
	})
}

// eachUnserved visits the kinds that rules wait for.
func eachUnserved(p *plan.Plan, visit func(rule string, kind k8s.GroupVersionKind)) {
	for _, r := range p.Rules {
		if r.Actions == nil {
			continue
		}
		for _, kind := range r.Actions.Unserved {
			visit(r.Name, kind)
		}
	}
}

// awaitKinds gives rules the kinds that they wait for once the cluster serves them, until ctx ends. It
// reads no manifest.
func (c *current) awaitKinds(ctx context.Context) {
	pause := kindsPeriod
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		err := c.nameKinds(ctx)
		if err == nil {
			pause = kindsPeriod
			continue
		}
		if pause == kindsPeriod && ctx.Err() == nil {
			c.log.Warn("informd cannot switch a rule to a kind that the cluster serves now, and tries again",
				"error", err)
		}
		pause = min(2*pause, maxPause)
	}
}

// nameKinds gives rules the kinds that the cluster serves now.
func (c *current) nameKinds(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.running.Load()
	if len(now.cfg.Unnamed()) == 0 {
		return nil
	}
	cfg, compiled, err := c.kinds.named(ctx, now.cfg, now.plan)
	if err != nil || cfg == now.cfg || len(cfg.Unnamed()) == len(now.cfg.Unnamed()) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, kindsWait)
	defer cancel()
	if _, err := c.switchTo(ctx, cfg, compiled, false); err != nil {
		return err
	}
	c.log.Info("the cluster serves a kind now that a rule has waited for")
	return nil
}
