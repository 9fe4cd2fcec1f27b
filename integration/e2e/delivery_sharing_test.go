package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// Ten sources with the same selection in different words, with ten rules each, make one watch and
// one list. The API server's metrics count them.
func TestHundredRulesShareOneWatch(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Define("Gadget")
	watches := func() int {
		return k.ServerCounts("apiserver_longrunning_requests", `resource="gadgets"`, `verb="WATCH"`)
	}
	var rules strings.Builder
	for s := range 10 {
		selector := []string{"'app,tier=web'", "'tier = web, app'", "'app , tier=web'"}[s%3]
		rules.WriteString(harness.Source(fmt.Sprintf("gadgets-%d", s), "resource: informd.test/v1/gadgets, labelSelector: "+selector+
			fmt.Sprintf(", indexes: {byName: object.metadata.name, mine: 'string(%d)'}", s)))
		for r := range 10 {
			rules.WriteString(harness.Rule(fmt.Sprintf("rule-%d-%d", s, r), fmt.Sprintf("source: gadgets-%d, handler: log", s)))
		}
	}
	rules.WriteString(harness.Handler("log", "builtin: log"))
	if n := watches(); n != 0 {
		t.Fatalf("%d watches before informd", n)
	}

	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), rules.String())
	d.AwaitReady()
	k.Create(`{apiVersion: informd.test/v1, kind: Gadget, metadata: {namespace: NS, name: a, labels: {app: shop, tier: web}}}`)
	k.Create(`{apiVersion: informd.test/v1, kind: Gadget, metadata: {namespace: NS, name: b, labels: {app: shop, tier: db}}}`)
	events := d.Await("an event from each of a hundred rules", func(events []handler.Event) bool { return len(events) >= 100 })
	by := make(map[string]bool)
	for _, ev := range events {
		if by[ev.Rule] = true; ev.Name != "a" || ev.Event != handler.Added {
			t.Errorf("unexpected: %s", harness.Brief(ev))
		}
	}
	if len(by) != 100 || len(events) != 100 {
		t.Errorf("%d events from %d rules; want one from each of a hundred", len(events), len(by))
	}
	if n := watches(); n != 1 {
		t.Errorf("%d watches; want one", n)
	}
	// Another selector needs one watch more, which shows that the count works.
	other := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), harness.Source("all", "resource: informd.test/v1/gadgets")+
		harness.Source("web", "resource: informd.test/v1/gadgets, labelSelector: tier=web")+
		harness.Rule("all", "source: all, handler: log")+harness.Rule("web", "source: web, handler: log")+harness.Handler("log", "builtin: log"))
	other.AwaitReady()
	if n := watches(); n != 3 {
		t.Errorf("%d watches with those of a second daemon; want three", n)
	}
	other.Stop()
	d.Stop()
}
