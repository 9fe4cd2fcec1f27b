package daemon

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	k8s "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

const (
	// kindsTimeout bounds how long a start or a reload waits for the cluster to say which resources
	// the kinds of manifests are.
	kindsTimeout = 5 * time.Second
	// kindsPeriod is how often informd asks for kinds that the cluster does not serve yet.
	kindsPeriod = 5 * time.Second
)

// kinds knows from the cluster which resources the kinds of manifests below apply and create are.
type kinds struct {
	resources discovery.ServerResourcesInterfaceWithContext
	log       *slog.Logger
}

func newKinds(client discovery.DiscoveryInterface, log *slog.Logger) *kinds {
	return &kinds{discovery.ToServerResourcesInterfaceWithContext(client), log}
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

// ask returns the resources of kinds that the cluster serves.
func (k *kinds) ask(ctx context.Context, all []k8s.GroupVersionKind) map[k8s.GroupVersionKind]string {
	ctx, cancel := context.WithTimeout(ctx, kindsTimeout)
	defer cancel()
	found := make(map[k8s.GroupVersionKind]string)
	var asked []k8s.GroupVersion
	for _, kind := range all {
		version := kind.GroupVersion()
		if slices.Contains(asked, version) {
			continue
		}
		asked = append(asked, version)
		served, err := k.resources.ServerResourcesForGroupVersionWithContext(ctx, version.String())
		if err != nil {
			k.log.Debug("the cluster does not say which resources a group and version has",
				"apiVersion", version.String(), "error", err)
			continue
		}
		for _, r := range served.APIResources {
			if !strings.Contains(r.Name, "/") {
				found[version.WithKind(r.Kind)] = r.Name
			}
		}
	}
	return found
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

// awaitKinds takes up kinds once the cluster serves them, until ctx ends. It reads no manifest.
func (c *current) awaitKinds(ctx context.Context) {
	for {
		select {
		case <-time.After(kindsPeriod):
		case <-ctx.Done():
			return
		}
		if err := c.nameKinds(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("a kind that the cluster serves now was not taken up", "error", err)
		}
	}
}

// nameKinds takes up the kinds that the cluster serves now.
func (c *current) nameKinds(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.cfg.Unnamed()) == 0 {
		return nil
	}
	cfg, compiled, err := c.kinds.named(ctx, c.cfg, c.plan.Load())
	if err != nil || cfg == c.cfg || len(cfg.Unnamed()) == len(c.cfg.Unnamed()) {
		return err
	}
	if _, err := c.takeUp(ctx, cfg, compiled); err != nil {
		return err
	}
	c.log.Info("the cluster serves a kind now that a rule has waited for")
	return nil
}
